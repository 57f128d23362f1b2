"""Replayed demand: what begins, what waits and for how long, and what is named as the bound."""

import random

import pytest

from scheduler.placement.policies import POLICIES, FirstFit, Fleet, WholeGpus, Worth
from scheduler.placement.replaying import Ask, Bound, replay
from tests.unit.parts import H100

HOUR_SECONDS = 3600.0
DAY_SECONDS = 24 * HOUR_SECONDS


def fleet(gpus: int, per_node: int = 4) -> Fleet:
    return Fleet(tuple((number, number // per_node, number % per_node) for number in range(gpus)), H100, 8)


def ask(start: float, shape: str | None, hours: float = 1, ranks: int = 1, **more) -> Ask:
    lasts = more.pop("lasts", hours)
    return Ask(start * HOUR_SECONDS, hours * HOUR_SECONDS, lasts * HOUR_SECONDS, shape, ranks, **more)


def run(asks: list[Ask], gpus: int = 1, policy=Worth, patience_hours: float = 24):
    here = fleet(gpus)
    return replay(asks, here, policy(here), patience_hours * HOUR_SECONDS)


@pytest.mark.parametrize("policy", POLICIES.values())
def test_what_finds_no_room_waits_until_what_runs_really_ends(policy):
    outcome = run([ask(0, "7g.80gb", hours=4, lasts=2), ask(1, "7g.80gb")], policy=policy)
    assert outcome.waits == [0, HOUR_SECONDS]
    assert outcome.accepted == 1
    assert outcome.bound == {Bound.CAPACITY: 1}


def test_who_has_waited_for_too_long_has_left_and_is_not_accepted():
    outcome = run([ask(0, "7g.80gb", hours=6), ask(1, "7g.80gb"), ask(2, "3g.40gb")], patience_hours=4.5)
    assert outcome.waits == [0, 4 * HOUR_SECONDS]
    assert outcome.accepted == pytest.approx(2 / 3)


def test_four_bounds_are_told_apart():
    limits = ((1, 4),)
    outcome = run([
        ask(0, "1g.10gb", hours=9, weight=1, limits=limits), ask(0, "1g.10gb", hours=9, weight=1),
        ask(1, "4g.40gb", weight=4, limits=limits),
        ask(1, "7g.80gb", weight=7),
        ask(1, "7g.80gb", ranks=2), ask(1, None),
        ask(1, "3g.40gb", hours=9), ask(1, "3g.40gb", hours=9),
    ], patience_hours=1)  # fmt: skip
    assert outcome.bound == {Bound.QUOTA: 1, Bound.CAPACITY: 2, Bound.TOO_LARGE: 2}
    scattered = [ask(0, "4g.40gb", hours=3), ask(0, "4g.40gb", hours=9), ask(1, "3g.40gb", hours=9),
                 ask(1, "3g.40gb", hours=2), ask(4, "7g.80gb")]  # fmt: skip
    assert run(scattered, gpus=2, policy=FirstFit).bound == {Bound.LAYOUT: 1}


def test_more_than_a_limit_ever_allows_does_not_wait():
    outcome = run([ask(0, "7g.80gb", weight=7, limits=((1, 4),)), ask(1, "1g.10gb")])
    assert outcome.accepted == 0.5 and outcome.bound == {Bound.QUOTA: 1}


def test_a_gang_has_all_its_ranks_or_none():
    outcome = run([ask(0, "3g.40gb", hours=3), ask(1, "3g.40gb", hours=3, ranks=4), ask(1, "7g.80gb")], gpus=2)
    assert outcome.waits == [0, 0, 2 * HOUR_SECONDS]
    across = run([ask(0, "7g.80gb", ranks=5), ask(0.5, "7g.80gb")], gpus=6)
    assert across.waits == [0, 0]


def test_only_slices_that_were_asked_for_count_as_allocated():
    asks = [ask(0, "3g.40gb", hours=10), ask(10, "1g.10gb")]
    assert run(asks).allocated == run(asks, policy=WholeGpus).allocated == 0.5


def test_nothing_asked_for_is_no_error():
    assert (run([]).accepted, run([]).allocated, run([]).wait_seconds(0.95)) == (0, 0, 0)


def test_cutting_gpus_accepts_more_than_whole_ones_and_worth_no_less_than_first_fit():
    chance, asks = random.Random(4), []
    for number in range(600):
        life = chance.lognormvariate(1, 1)
        asks.append(ask(number * 0.12, chance.choice(H100).name, hours=life))
    shares = {name: run(asks, 8, policy, patience_hours=0).allocated for name, policy in POLICIES.items()}
    assert shares["whole"] < shares["first-fit"] <= shares["berth"]
