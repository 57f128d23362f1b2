"""Each diagnosis on made leases of known cause; what must not be said; and that null is never zero."""

from functools import cache

import numpy as np
import pytest

from scheduler.advisor.catalogue import BY_NAME, RULES
from scheduler.advisor.findings import Advice
from scheduler.advisor.judging import FINDINGS_MOST, advise
from scheduler.advisor.limits import LIMITS
from scheduler.advisor.recording import Recording
from tests.traces.causes import CAUSES, CONTROLS, FAULTS
from tests.traces.leases import Lease, lease
from tests.traces.recordings import recording_of

SEED = 20
SECONDS = 1800


@cache
def _lease(cause: str) -> Lease:
    return lease(cause, 0, SECONDS, SEED)


def _without(made: Lease, *names: str) -> Recording:
    ranks = [{name: values for name, values in rank.items() if name not in names} for rank in made.ranks]
    return recording_of(Lease(ranks, made.truth))


def _said(advice: Advice) -> set[str]:
    return {finding.rule for finding in (*advice.findings, *advice.notes)}


@pytest.mark.parametrize("cause", [cause.__name__ for cause in FAULTS])
def test_each_cause_is_named_with_its_evidence(cause):
    made = _lease(cause)
    advice = advise(recording_of(made))
    assert set(made.truth["labels"]) <= _said(advice) <= {*made.truth["labels"], *made.truth["also"], "memory_bound"}
    for finding in advice.findings:
        assert finding.evidence and finding.steps and finding.spans
        assert 0 < finding.spans[-1][1] <= SECONDS
        assert LIMITS["confidence"]["shown_least"] <= finding.confidence <= 1


@pytest.mark.parametrize("cause", [cause.__name__ for cause in CONTROLS])
def test_a_healthy_control_is_left_alone(cause):
    assert advise(recording_of(_lease(cause))).findings == ()


@pytest.mark.parametrize(
    ("cause", "metric"),
    [(rule.name, metric) for rule in RULES for metric in rule.needs if rule.name in CAUSES]
    + [(cause, "gr_active sm_active") for cause in ("no_process", "idle_held", "cpu_fallback", "periodic_stalls")]
    + [("idle_held", "cpu_util_of_limit"), ("throttled", "clock_event_reasons"), ("hw_fault", "xid")]
    + [("exclusive_mode", "compute_mode"), ("exclusive_mode", "n_processes"), ("small_kernels", "sm_active")],
)
def test_what_is_not_measured_is_not_claimed(cause, metric):
    """Activity is the one metric with a stand-in, so both go."""
    names = ("gr_active", "sm_active") if metric in ("gr_active", "activity") else tuple(metric.split())
    advice = advise(_without(_lease(cause), *names))
    assert cause not in _said(advice)
    if metric in BY_NAME[cause].needs:
        assert names[0] in advice.missing[cause]


def test_a_lease_without_any_metric_says_what_it_lacks_and_nothing_else():
    made = _lease("idle_held")
    advice = advise(_without(made, *set(made.ranks[0]) - {"t"} - {"compute_mode"}))
    assert _said(advice) == set()
    assert "gr_active" in advice.missing["input_cpu"]


@pytest.mark.parametrize(("name", "value"), [("sm_active", 0.2), ("cpu_util_of_limit", 0.97)])
def test_a_series_that_stands_still_is_not_believed(name, value):
    made = _lease("healthy_train" if name == "sm_active" else "input_storage")
    still = np.where(np.arange(SECONDS) > 90, value, np.nan)
    trembling = np.clip(still + np.random.default_rng(1).normal(0, 0.01, SECONDS), 0, 1)
    said = [
        _said(advise(recording_of(Lease([rank | {name: one, "io_wait": one * 0} for rank in made.ranks], made.truth))))
        for one in (still, trembling)
    ]
    assert said[0] == set() != said[1]


def test_a_value_of_few_steps_may_repeat():
    """Idle tensor pipes read 0.0003 for minutes when four decimals are told; that is a measurement."""
    made = _lease("tensor_unused")
    ranks = [rank | {"tensor_active": rank["gr_active"] * 0 + 0.0003} for rank in made.ranks]
    assert "tensor_unused" in _said(advise(recording_of(Lease(ranks, made.truth))))


def test_zeros_beside_a_board_that_draws_power_are_no_idleness():
    made = _lease("healthy_train")
    names = ("gr_active", "sm_active", "tensor_active", "dram_active")
    lying = [
        rank | {name: rank[name] * 0 for name in names} | {"cpu_util_of_limit": rank["cpu_util_of_limit"] * 0}
        for rank in made.ranks
    ]
    truth = made.truth | {"mig": False}
    assert advise(recording_of(Lease(lying, truth))).findings == ()
    quiet = [rank | {"power_frac": rank["power_frac"] * 0 + 0.1} for rank in lying]
    assert _said(advise(recording_of(Lease(quiet, truth)))) == {"idle_held"}


def test_a_short_lease_is_not_judged():
    assert advise(recording_of(lease("no_process", 0, 590, SEED))) == Advice((), (), {})


def test_a_service_waits_by_right_and_a_person_pauses_by_right():
    idle = _lease("idle_held")
    assert "idle_held" not in _said(advise(recording_of(Lease(idle.ranks, idle.truth | {"workload": "service"}))))
    stalls = _lease("periodic_stalls")
    assert "periodic_stalls" in _said(advise(recording_of(stalls)))
    assert "periodic_stalls" not in _said(
        advise(recording_of(Lease(stalls.ranks, stalls.truth | {"workload": "notebook"})))
    )


def test_double_precision_is_an_accident_only_in_a_framework():
    made = _lease("fp64_accident")
    assert "fp64_accident" not in _said(advise(recording_of(Lease(made.ranks, made.truth | {"framework": "cuda"}))))


def test_the_catalogue_has_all_26_and_a_threshold_for_each():
    assert len(RULES) == len(BY_NAME) == 26
    assert all(rule.name in LIMITS and rule.steps for rule in RULES)
    assert all(rule.silences <= set(BY_NAME) for rule in RULES)
    assert FINDINGS_MOST == 3
