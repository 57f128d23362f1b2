"""Findings in words, in the language of who reads: for pages, the API and the command line."""

from typing import Any

from portal.advisor.sentences import SENTENCES
from portal.advisor.steps import STEPS
from scheduler.advisor.findings import Advice, Finding

# Which of its parameters makes a rule say one thing or another.
VARIANT = {"input_storage": "where", "comm_bound": "over", "throttled": "why"}


def sentence(finding: Finding) -> str:
    variant = VARIANT.get(finding.rule)
    key = f"{finding.rule}.{finding.params[variant]}" if variant else finding.rule
    return str(SENTENCES[key]) % dict(finding.params)


def changes(finding: Finding) -> list[str]:
    """What to change, in order; a rebooking names its size."""
    return [
        str(STEPS["rebook_as"]) % {"size": finding.rebook} if step == "rebook" and finding.rebook else str(STEPS[step])
        for step in finding.steps
    ]


def told(advice: Advice) -> dict[str, Any]:
    """As JSON: ``findings`` are at most three, the gravest first; ``notes`` are facts and no faults; ``not_judged``
    names for each rule the metrics that it lacked."""
    return {
        "findings": [_told(finding) for finding in advice.findings],
        "notes": [_told(finding) for finding in advice.notes],
        "not_judged": {rule: list(names) for rule, names in advice.missing.items()},
    }


def _told(finding: Finding) -> dict[str, Any]:
    return {
        "rule": finding.rule,
        "sentence": sentence(finding),
        "confidence": finding.confidence,
        "grade": finding.grade,
        "share_lost": finding.share_lost,
        "spans": [list(span) for span in finding.spans],
        "current": finding.current,
        "rank": finding.rank,
        "rebook": finding.rebook,
        "evidence": [
            {"series": one.series, "value": one.value, "relation": one.relation, "limit": one.limit}
            for one in finding.evidence
        ],
        "changes": changes(finding),
        "params": dict(finding.params),
    }
