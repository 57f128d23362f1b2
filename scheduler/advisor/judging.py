"""From a recording to at most three findings: every rule is asked, some silence others, the rest is ranked."""

from collections.abc import Iterable
from dataclasses import dataclass, replace

import numpy as np

from scheduler.advisor.catalogue import BY_NAME, RULES, Rule, Tier
from scheduler.advisor.cleaning import cleaned
from scheduler.advisor.findings import Advice, Evidence, Finding, Seen
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.phases import phases, steady
from scheduler.advisor.recording import Recording
from scheduler.advisor.rules_waiting import still_share
from scheduler.advisor.view import ACTIVITY, View

FINDINGS_MOST = 3
CURRENT_WITHIN_SECONDS = 60
# A service waits for requests by right, and who writes a notebook pauses to think.
NOT_OF_A = {
    "service": {"idle_held", "input_cpu", "input_storage", "host_bound"},
    "notebook": {"periodic_stalls"},
}
# These are said of a notebook only where it works without a person's pauses.
STEADY_WORK_ONLY = {"input_cpu", "input_storage", "host_bound"}


@dataclass(frozen=True)
class Held:
    """A rule that held, with the share of its seconds that was measured."""

    rule: Rule
    seen: Seen
    coverage: float


def advise(recording: Recording) -> Advice:
    if recording.seconds < LIMITS["gate"]["lease_seconds_least"]:
        return Advice((), (), {})
    recording = cleaned(recording)
    counts = steady(recording)
    views = [View(recording, counts, start, end) for start, end in phases(recording, counts)]
    views = [view for view in views if view.span[1] > view.span[0]]
    held: list[Held] = []
    missing: dict[str, tuple[str, ...]] = {}
    for rule in RULES:
        if rule.name in NOT_OF_A.get(recording.lease.workload, ()):
            continue
        found, lacks = _ask(rule, recording, counts, views)
        held += found
        if lacks and not found:
            missing[rule.name] = lacks
    spoken = [_finding(one, recording, counts) for one in _not_silenced(held)]
    shown = [one for one in spoken if one.confidence >= LIMITS["confidence"]["shown_least"]]
    notes = tuple(one for one in shown if BY_NAME[one.rule].tier is Tier.NOTE)
    findings = sorted((one for one in shown if BY_NAME[one.rule].tier is not Tier.NOTE), key=_first_what_costs_most)
    return Advice(tuple(findings[:FINDINGS_MOST]), notes, missing)


def _ask(rule: Rule, recording: Recording, counts: np.ndarray, views: list[View]) -> tuple[list[Held], tuple[str, ...]]:
    """What the rule saw, and the metrics it lacked. Several phases in which it held are one finding."""
    if rule.run:
        return [Held(rule, seen, 1.0) for seen in rule.run(recording, counts)], ()
    if rule.whole:
        views = [View(recording, counts, 0, recording.seconds)]
    look = rule.phase or rule.whole
    assert look is not None
    found, lacks = [], set()
    for view in views:
        if unknown := [name for name in rule.needs if not view.knows(name)]:
            lacks |= {"gr_active" if name == ACTIVITY else name for name in unknown}
        elif not _is_persons_pause(rule, view) and (seen := look(view)):
            found.append(Held(rule, replace(seen, spans=seen.spans or (view.span,)), view.coverage(*rule.needs)))
    return ([_together(found)] if found else []), tuple(sorted(lacks))


def _is_persons_pause(rule: Rule, view: View) -> bool:
    if rule.name not in STEADY_WORK_ONLY or view.lease.workload != "notebook":
        return False
    return not still_share(view) < LIMITS["host_bound"]["still_most"]


def _together(found: list[Held]) -> Held:
    """The numbers are those of the longest phase, the time is that of all."""
    longest = max(found, key=lambda one: one.seen.seconds)
    spans = tuple(sorted(span for one in found for span in one.seen.spans))
    return replace(longest, seen=replace(longest.seen, spans=spans))


def _not_silenced(held: list[Held]) -> list[Held]:
    return [
        one
        for one in held
        if not any(
            one.rule.name in other.rule.silences and _overlap(one.seen.spans, other.seen.spans) * 2 >= one.seen.seconds
            for other in held
        )
    ]


def _overlap(these: Iterable[tuple[int, int]], those: Iterable[tuple[int, int]]) -> int:
    others = list(those)
    return sum(max(0, min(b, d) - max(a, c)) for a, b in these for c, d in others)


def _finding(held: Held, recording: Recording, counts: np.ndarray) -> Finding:
    rule, seen = held.rule, held.seen
    steps = (*seen.steps_first, *(step for step in rule.steps if step not in seen.steps_first))
    return Finding(
        rule=rule.name,
        confidence=round(float(_confidence(held)), 3),
        params=seen.params,
        steps=steps,
        evidence=tuple(
            Evidence(test.series, round(float(test.value), 4), ">=" if test.least else "<", test.limit)
            for test in seen.tests
        ),
        spans=seen.spans,
        current=seen.spans[-1][1] >= recording.seconds - CURRENT_WITHIN_SECONDS,
        rank=seen.rank,
        rebook=seen.rebook,
        share_lost=_share_lost(held, recording, counts),
    )


def _confidence(held: Held) -> float:
    limit = LIMITS["confidence"]
    base: float = LIMITS[held.rule.name]["base"]
    # A fault is one event: it needs no time to be sure of.
    time = (
        1.0 if held.rule.tier is Tier.BOARD and held.rule.run else min(1.0, held.seen.seconds / limit["full_seconds"])
    )
    value = base * held.coverage * time * held.seen.margin
    return min(value, limit["unsure_most"]) if held.seen.unsure else value


def _share_lost(held: Held, recording: Recording, counts: np.ndarray) -> float | None:
    """Of the lease's slice-seconds, those that nothing used while it held; of a size, those it would give back."""
    share = held.seen.seconds / recording.seconds
    if held.rule.name == "slice_too_big":
        saving = next(test.value for test in held.seen.tests if test.series == "saving")
        return round(share * saving, 3)
    used = []
    for start, end in held.seen.spans:
        ranks = range(len(recording.ranks))
        values = np.concatenate([recording.series("sm_active", rank)[start:end] for rank in ranks])
        known = values[np.isfinite(values)]
        if not len(known):
            return None
        used.append((1 - float(known.mean())) * (end - start))
    return round(sum(used) / recording.seconds, 3)


def _first_what_costs_most(finding: Finding) -> tuple[int, float]:
    lost = 0.5 if finding.share_lost is None else finding.share_lost
    return BY_NAME[finding.rule].tier, -lost * finding.confidence
