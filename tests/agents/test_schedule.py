"""The clock decides: nothing before its start, nothing after its end, and no portal is asked."""

import pytest

from agents.clock import Clock
from agents.protocol import DesiredLease, WorkloadSpec
from agents.schedule import Phase, Step, due_at_next, first_step, kill_at, next_step, overlaps, term_at


def lease(starts_at=1000.0, ends_at=2000.0, grace=30, gpu="GPU-1", start=0, size=1):
    return DesiredLease(1, 1, 1, 0, 1, gpu, "1g", 19, start, size, starts_at, ends_at,
                        WorkloadSpec("x", ("true",), grace_seconds=grace))


@pytest.mark.parametrize(("now", "step"), [
    (999.999, Step.WAIT), (1000.0, Step.START), (1969.9, Step.START), (1970.0, Step.MISS), (5000.0, Step.MISS)])
def test_an_untouched_lease_starts_inside_its_window_only(now, step):
    assert first_step(lease(), now) is step


@pytest.mark.parametrize(("facts", "step"), [
    ({"now": 1500.0}, Step.WAIT),
    ({"now": 1970.0}, Step.EXPIRE),
    ({"now": 1500.0, "wanted": False}, Step.WITHDRAW),
    ({"now": 1500.0, "alive": False}, Step.EXITED),
    ({"now": 1500.0, "phase": Phase.STARTING, "due_at": 1501.0}, Step.WAIT),
    ({"now": 1501.0, "phase": Phase.STARTING, "due_at": 1501.0}, Step.START),
    ({"now": 1970.0, "phase": Phase.STARTING, "due_at": 1501.0}, Step.EXPIRE),
    ({"now": 1999.9, "phase": Phase.STOPPING, "due_at": 2000.0}, Step.WAIT),
    ({"now": 2000.0, "phase": Phase.STOPPING, "due_at": 2000.0}, Step.KILL),
    ({"now": 1980.0, "phase": Phase.STOPPING, "due_at": 2000.0, "alive": False}, Step.FREE),
    ({"now": 2000.0, "phase": Phase.STOPPING, "due_at": 2000.0, "retry_at": 2001.0}, Step.WAIT),
    ({"now": 1500.0, "phase": Phase.ENDED}, Step.WAIT)])
def test_a_touched_lease_takes_the_step_that_is_due(facts, step):
    given = {"phase": Phase.ACTIVE, "wanted": True, "alive": True, "due_at": 0.0, "retry_at": 0.0} | facts
    assert next_step(lease(), given.pop("phase"), **given) is step


def test_term_comes_a_grace_before_the_end_and_a_short_window_keeps_most_of_itself():
    assert term_at(lease(grace=30)) == 1970.0
    assert term_at(lease(ends_at=1020.0, grace=30)) == 1015.0


def test_the_grace_of_a_withdrawal_never_outlives_the_window():
    assert kill_at(lease(), 1500.0) == 1530.0
    assert kill_at(lease(), 1990.0) == 2000.0
    assert kill_at(lease(), 2500.0) == 2500.0


def test_the_next_pass_is_due_exactly_when_a_workload_gets_term():
    assert due_at_next(lease(), Phase.ACTIVE, 1500.0, 0.0, 0.0) == 1970.0
    assert due_at_next(lease(), Phase.ENDED, 1500.0, 0.0, 0.0) == float("inf")


def test_spans_that_only_meet_do_not_overlap():
    assert not overlaps(lease(start=0, size=4), lease(start=4, size=4))
    assert overlaps(lease(start=0, size=5), lease(start=4, size=4))
    assert not overlaps(lease(), lease(gpu="GPU-2"))


def test_once_agreed_the_portals_time_is_counted_on_a_clock_nobody_sets():
    wall, steady = [5000.0], [10.0]
    clock = Clock(-600.0, wall=lambda: wall[0], steady=lambda: steady[0])
    assert clock.now() == 4400.0
    clock.agree(1000.0)
    wall[0], steady[0] = 9999.0, 12.5
    assert clock.now() == 1002.5
    assert clock.offset_seconds == 1002.5 - 9999.0
