"""Fair shares: who used least of what it is guaranteed comes first, nobody starves, ties are always decided alike."""

import heapq
import itertools
import random

from hypothesis import given, settings
from hypothesis import strategies as st

from scheduler.placement.fairness import HALF_LIFE_SECONDS, Claim, Standing, decayed, in_fair_order

HOUR, DAY = 3600, 86400


def share_out(guarantees, slots=4, seconds=HOUR, days=60, weights=None):
    """Tenants with endless demand in a pool of equal slots: the slice-seconds that each of them got."""
    weights = weights or dict.fromkeys(guarantees, 1)
    used = dict.fromkeys(guarantees, 0.0)
    got = dict.fromkeys(guarantees, 0)
    free_at = [0] * slots
    numbers = itertools.count(1)
    before = 0
    while free_at[0] < days * DAY:
        now = heapq.heappop(free_at)
        used = {path: decayed(amount, now - before) for path, amount in used.items()}
        before = now
        standings = [Standing(path, round(used[path]), guarantee) for path, guarantee in guarantees.items()]
        claims = [Claim(next(numbers), path, weights[path] * seconds, now) for path in guarantees]
        path = next(one.path for one in claims if one.key == in_fair_order(claims, standings)[0])
        used[path] += weights[path] * seconds
        got[path] += weights[path] * seconds
        heapq.heappush(free_at, now + seconds)
    return got


def test_two_tenants_with_equal_guarantees_and_endless_demand_get_equal_shares():
    got = share_out({"/1/2/": 7, "/1/3/": 7})
    assert abs(got["/1/2/"] - got["/1/3/"]) <= 0.01 * sum(got.values())


def test_two_to_one_guaranteed_is_two_to_one_served():
    got = share_out({"/1/2/": 14, "/1/3/": 7})
    assert 1.95 < got["/1/2/"] / got["/1/3/"] < 2.05


def test_large_requests_take_no_more_than_small_ones():
    got = share_out({"/1/2/": 7, "/1/3/": 7}, weights={"/1/2/": 7, "/1/3/": 1}, slots=3)
    assert 0.95 < got["/1/2/"] / got["/1/3/"] < 1.05


def test_nobody_starves_not_even_without_a_guarantee():
    got = share_out({"/1/2/": 56, "/1/3/": 56, "/1/4/": 0}, days=90)
    assert got["/1/4/"] > 0
    assert got["/1/4/"] < got["/1/2/"] / 20


def test_a_subtree_with_many_tenants_gets_no_more_than_one_with_few():
    crowd = {f"/1/2/{number}/": 2 for number in range(10, 15)}
    guarantees = {"/1/2/": 10, **crowd, "/1/3/": 10}
    claims = [Claim(number, path, HOUR, 0) for number, path in enumerate([*crowd, *["/1/3/"] * 5])]
    order = in_fair_order(claims, [Standing(path, 0, promise) for path, promise in guarantees.items()])
    first_six = [claims[key].path.startswith("/1/2/") for key in order[:6]]
    assert sum(first_six) == 3


def test_use_halves_in_a_week():
    assert decayed(1000, HALF_LIFE_SECONDS) == 500
    assert decayed(1000, 0) == decayed(1000, -5) == 1000


def test_a_day_without_use_brings_a_tenant_before_one_that_goes_on():
    rested = Standing("/1/2/", round(decayed(100_000, DAY)), 7)
    busy = Standing("/1/3/", 100_000, 7)
    claims = [Claim(1, "/1/3/", HOUR, 0), Claim(2, "/1/2/", HOUR, 10)]
    assert in_fair_order(claims, [rested, busy]) == (2, 1)


def test_between_equals_the_displaced_come_first_and_then_who_waits_longest():
    claims = [
        Claim(1, "/1/2/", HOUR, since=10),
        Claim(2, "/1/2/", HOUR, since=5),
        Claim(3, "/1/2/", HOUR, since=99, displaced=True),
    ]
    assert in_fair_order(claims, []) == (3, 2, 1)


def test_who_let_an_offer_pass_comes_after_all_others():
    claims = [Claim(1, "/1/2/", HOUR, since=1, lapsed=1), Claim(2, "/1/3/", HOUR, since=50)]
    assert in_fair_order(claims, [Standing("/1/3/", 10**9, 1)]) == (2, 1)


def test_what_was_handed_out_counts_before_the_next_is_chosen():
    claims = [Claim(number, path, HOUR, number) for number, path in enumerate(["/1/2/"] * 3 + ["/1/3/"] * 3)]
    order = in_fair_order(claims, [Standing("/1/2/", 0, 7), Standing("/1/3/", 0, 7)])
    assert [claims[key].path for key in order] == ["/1/2/", "/1/3/"] * 3


PATHS = ["/1/", "/1/2/", "/1/3/", "/1/2/4/", "/1/2/5/", "/1/3/6/"]
CLAIMS = st.lists(
    st.tuples(st.sampled_from(PATHS), st.integers(1, 10**6), st.integers(0, 100), st.booleans(), st.integers(0, 1)),
    max_size=25,
)
USES = st.lists(st.tuples(st.integers(0, 10**7), st.none() | st.integers(0, 50)), min_size=6, max_size=6)


@settings(deadline=None)
@given(CLAIMS, USES, st.randoms(use_true_random=False))
def test_the_order_names_each_claim_once_whatever_order_the_input_has(asked, uses, chance: random.Random):
    claims = [Claim(key, *one) for key, one in enumerate(asked)]
    standings = [Standing(path, *use) for path, use in zip(PATHS, uses, strict=True)]
    order = in_fair_order(claims, standings)
    assert sorted(order) == [claim.key for claim in claims]
    mixed_claims, mixed_standings = chance.sample(claims, len(claims)), chance.sample(standings, len(standings))
    assert in_fair_order(mixed_claims, mixed_standings) == order


@settings(deadline=None)
@given(CLAIMS, USES)
def test_within_one_tenant_nobody_overtakes_an_equal_that_waits_longer(asked, uses):
    claims = [Claim(key, *one) for key, one in enumerate(asked)]
    order = in_fair_order(claims, [Standing(path, *use) for path, use in zip(PATHS, uses, strict=True)])
    place = {key: number for number, key in enumerate(order)}
    for one, other in itertools.permutations(claims, 2):
        alike = (one.path, one.displaced, one.lapsed) == (other.path, other.displaced, other.lapsed)
        if alike and one.since < other.since:
            assert place[one.key] < place[other.key]
