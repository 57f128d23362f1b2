"""Whatever was booked before: a claim within its own share is granted, and nobody guaranteed gives way for it."""

import contextlib
import datetime as dt
import random
from collections import Counter
from collections.abc import Iterator

import pytest
from django.db import transaction
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from portal.reservations.borrowing import borrowers_in, borrows, holdings, promote, promote_own
from portal.reservations.changing import release_reservation
from portal.reservations.displacing import anywhere
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import OPEN, Lease, Reservation
from portal.reservations.request import Request
from portal.reservations.selectors import gpu_views, leases_held
from tests.db.house import House, span
from tests.factories import HOUR, make_quota, make_tenant, make_user, profile_of

pytestmark = pytest.mark.django_db
QUARTER = dt.timedelta(minutes=15)
# Own shares: what is guaranteed to the project below it is not the team's own; the root keeps what nobody is promised.
SHARES = {"northquay": 2, "vision-lab": 4, "segmentation": 3, "robotics": 5}
PROFILES = ("1g.10gb", "2g.20gb", "3g.40gb", "4g.40gb", "7g.80gb")
STEPS, EXAMPLES = 16, 20


class Crowd(House):
    def __init__(self) -> None:
        super().__init__(limit=14)
        self.other = make_tenant("robotics", self.root)
        make_quota(self.team, self.pool, 14, guaranteed=7)
        make_quota(self.project, self.pool, 8, guaranteed=3)
        make_quota(self.other, self.pool, 12, guaranteed=5)
        tenants = (self.root, self.team, self.project, self.other)
        self.people = {tenant.name: (tenant, make_user(tenant=tenant)) for tenant in tenants}
        self.base = self.now + 2 * HOUR

    def request(self, name: str, profile: str, ranks: int, quarter: int, length: int) -> Request:
        """``quarter`` -1 is now; all others begin after everybody's notice and protected minimum."""
        tenant, person = self.people[name]
        start = self.now if quarter < 0 else self.base + quarter * QUARTER
        return Request(
            person, person, tenant, self.pool, profile_of(self.pool, profile), ranks, span(start, length / 4)
        )

    def release(self, number: int) -> None:
        rows = list(
            Reservation.objects.filter(state__in=OPEN, leases__frozen_at__isnull=True).distinct().order_by("pk")
        )
        if rows:
            release_reservation(reservation=rows[number % len(rows)], actor=self.admin)

    def held(self) -> list[Reservation]:
        return list(Reservation.objects.filter(state__in=OPEN).select_related("tenant"))


def guaranteed_at(held: list[Reservation], name: str, at: dt.datetime) -> int:
    mine = (one for one in held if one.tenant.name == name and not one.borrowed and at in one.during)
    return sum(one.weight * one.ranks for one in mine)


@contextlib.contextmanager
def undone() -> Iterator[None]:
    with contextlib.suppress(Undo), transaction.atomic():
        yield
        raise Undo


class Undo(Exception):
    pass


def brute_borrows(house: Crowd, request: Request) -> bool:
    at, name = request.during.lower, request.tenant.name
    moments = [at + count * QUARTER for count in range(int((request.during.upper - at) / QUARTER))]
    if request.during.lower == house.now:  # its quarters are not those of the others
        moments += [
            house.base + count * QUARTER for count in range(4) if house.base + count * QUARTER in request.during
        ]
    held = house.held()
    return any(guaranteed_at(held, name, moment) + request.weight > SHARES[name] for moment in moments)


def must_be_granted(house: Crowd, request: Request) -> bool:
    """Within its share once older borrowers took what is free of it, and it fits beside what is guaranteed."""
    promote_own(request)
    borrowing = borrows(request, request.during, holdings(leases_held(request.pool, request.during)))
    assert borrowing == brute_borrows(house, request)
    if borrowing or request.during.lower == house.now:
        return False
    promote(borrowers_in(house.pool, request.during))
    away = Lease.objects.filter(reservation__borrowed=True).values_list("pk", flat=True)
    views = gpu_views(house.pool, request.during, house.now, without=list(away))
    return bool(anywhere(request, request.during)(views))


def attempt(house: Crowd, request: Request) -> None:
    before = {one.pk: one for one in house.held()}
    expected = False
    with undone():
        expected = must_be_granted(house, request)
    hours = (request.during.upper - request.during.lower) / HOUR
    try:
        made = house.book(
            request.profile.name, start=request.during.lower, hours=hours, ranks=request.ranks, tenant=request.tenant,
            owner=request.owner)  # fmt: skip
    except ReservationRefused as refusal:
        assert not expected, f"{refusal.code}: {refusal}"
        made = None
    after = {one.pk: one for one in Reservation.objects.filter(pk__in=before)}
    touched = [one for pk, one in before.items() if (after[pk].state, after[pk].during) != (one.state, one.during)]
    SEEN.update(displaced=len(touched), claims=int(expected))
    assert all(one.borrowed for one in touched), "somebody guaranteed gave way"
    assert not touched or (made is not None and not made.borrowed), "who borrows displaces nobody"
    held = house.held()
    for name, share in SHARES.items():
        assert all(guaranteed_at(held, name, house.base + count * QUARTER) <= share for count in range(24))


SEEN: Counter = Counter()


def steps_of(seed: int) -> Iterator[tuple]:
    chance = random.Random(seed)
    for _ in range(STEPS):
        if chance.random() < 0.15:
            yield "release", chance.randrange(20)
        else:
            yield (
                "book", chance.choice(sorted(SHARES)), chance.choice(PROFILES), chance.randint(1, 2),
                chance.randint(-1, 5), chance.randint(3, 10))  # fmt: skip


@settings(
    max_examples=EXAMPLES, deadline=None, suppress_health_check=list(HealthCheck), derandomize=True, database=None,
    phases=[Phase.generate])  # fmt: skip
@given(st.integers(0, 2**32))
def whatever_came_before(seed):
    with undone():
        house = Crowd()
        for kind, *rest in steps_of(seed):
            if kind == "release":
                house.release(*rest)
            else:
                attempt(house, house.request(*rest))


def test_a_claim_within_its_own_share_is_always_granted_and_nobody_guaranteed_is_displaced():
    whatever_came_before()
    assert SEEN["displaced"] > 10 and SEEN["claims"] > 20, f"too few to prove anything: {SEEN}"
