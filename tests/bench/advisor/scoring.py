"""How often the advisor is right: what it claims against what is labelled, cause by cause."""

from collections import Counter, defaultdict
from dataclasses import dataclass, field
from typing import Any

from scheduler.advisor.findings import Advice

NONE = "(nothing)"


@dataclass
class Score:
    """A label not claimed is missed; a claim that is neither label nor allowed is false. Notes are facts: one that is
    labelled counts as found, one that is not labelled is no claim of a fault unless it is named as what must not be."""

    right: int = 0
    false: int = 0
    missed: int = 0
    forbidden: int = 0
    controls: int = 0
    controls_accused: int = 0
    sizes: int = 0
    sizes_right: int = 0
    table: dict[str, Counter[str]] = field(default_factory=lambda: defaultdict(Counter))
    wrong: list[str] = field(default_factory=list)

    @property
    def precision(self) -> float:
        return self.right / max(self.right + self.false, 1)

    @property
    def recall(self) -> float:
        return self.right / max(self.right + self.missed, 1)

    def add(self, truth: dict[str, Any], advice: Advice) -> None:
        found = {finding.rule: finding for finding in (*advice.findings, *advice.notes)}
        labels, allowed = set(truth["labels"]), {*truth.get("also", ()), *truth.get("info", ())}
        faults = {finding.rule for finding in advice.findings}
        claimed = faults | (set(found) & labels)
        false = claimed - labels - allowed
        self.right += len(claimed & labels)
        self.false += len(false)
        self.missed += len(labels - claimed)
        self.forbidden += len(set(found) & set(truth.get("must_not", ())))
        self.table[truth["cause"]].update(claimed or {NONE})
        if not labels:
            self.controls += 1
            self.controls_accused += bool(faults - allowed)
        if false or labels - claimed or set(found) & set(truth.get("must_not", ())):
            told = {rule: round(one.confidence, 2) for rule, one in found.items()}
            self.wrong.append(f"{truth['lease']}: {told or NONE} instead of {sorted(labels) or NONE}")
        if "slice_too_big" in found and truth.get("right_profile"):
            self.sizes += 1
            self.sizes_right += found["slice_too_big"].rebook == truth["right_profile"]


def confusion(score: Score) -> list[str]:
    """A row a cause, a column a claim, only what happened."""
    return [
        f"  {cause:<28} " + ", ".join(f"{rule} {count}" for rule, count in claims.most_common())
        for cause, claims in score.table.items()
    ]
