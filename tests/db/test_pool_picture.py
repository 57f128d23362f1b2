"""The picture of a pool in the process says what the rows say, whoever wrote them, in whatever order it committed."""

import datetime as dt
import random
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest
from django.db import connection, connections, transaction
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, GpuState, Node, NodeState
from portal.reservations.borrowing import holdings
from portal.reservations.changing import release_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import LIVE, UNDER_WAY, Lease, Maintenance, Reservation
from portal.reservations.pool_calendar import PoolPicture, looking_at
from portal.reservations.selectors import gpu_views, leases_held, window_of
from portal.reservations.sweeps import end_overdue, freeze_due
from scheduler.placement.geometry import taken_mask
from tests.db.house import House, bound, span, tell
from tests.factories import HOUR, make_quota, make_tenant

pytestmark = pytest.mark.django_db(transaction=True)
STEPS = 40


class TakenBack(Exception):
    pass


@pytest.fixture
def house():
    return House(gpus=4, nodes=2)


def assert_true(house: House, picture: PoolPicture, during: DateTimeTZRange, now: dt.datetime) -> None:
    """Slice by slice, and tenant by tenant, as a fresh read has it."""
    window = window_of(during)
    fresh = {view.gpu_id: taken_mask(view, window) for view in gpu_views(house.pool, during, now)}
    taken = zip(picture.calendar.gpus, picture.calendar.taken(window).tolist(), strict=True)
    seen = {gpu_id: mask for (gpu_id, _node, _index), mask in taken}
    full = (1 << picture.fleet.slices) - 1
    assert {gpu_id: mask for gpu_id, mask in seen.items() if gpu_id in fresh} == fresh
    assert all(mask == full for gpu_id, mask in seen.items() if gpu_id not in fresh), "it takes no leases"
    assert sorted(map(repr, picture.held_in(during))) == sorted(map(repr, holdings(leases_held(house.pool, during))))
    limits = {row.pk: row.limit for row in house.root.quotas.filter(pool=house.pool)}
    assert {row.pk: row.limit for row in picture.terms.quotas_binding(house.root)} == limits


def look(house: House, chance: random.Random) -> None:
    now = timezone.now()
    with looking_at(house.pool, now) as picture:
        for _ in range(3):
            start = max(now.replace(microsecond=0), house.start + chance.randrange(-60, 30) * HOUR)
            assert_true(house, picture, span(start, chance.choice([0.5, 3, 40])), now)


class Walk:
    """One thing after the other that people, agents, sweeps and operators do to the pool."""

    def __init__(self, house: House, seed: int) -> None:
        self.house = house
        self.chance = random.Random(seed)

    def step(self) -> None:
        act = self.chance.choice([
            self.book, self.book, self.book, self.change, self.release, self.run, self.free, self.sweep,
            self.close, self.open, self.node, self.gpu, self.limit, self.forget_a_booking, self.lose_rows,
        ])  # fmt: skip
        try:
            act()
        except ReservationRefused:
            return

    def book(self) -> None:
        profile = self.chance.choice(["1g.10gb", "2g.20gb", "3g.40gb", "7g.80gb"])
        start = self.house.start + self.chance.randrange(0, 20) * HOUR
        if self.chance.random() < 0.3:
            start = timezone.now().replace(microsecond=0)
        self.house.book(profile, start, self.chance.randint(1, 5), ranks=self.chance.randint(1, 2))

    def one(self) -> Reservation | None:
        rows = list(Reservation.objects.filter(state__in=UNDER_WAY).order_by("pk"))
        return self.chance.choice(rows) if rows else None

    def change(self) -> None:
        if one := self.one():
            self.house.change(one, end=one.during.upper + self.chance.choice([-1, 1, 2]) * dt.timedelta(minutes=30))

    def release(self) -> None:
        if one := self.one():
            release_reservation(reservation=one, actor=self.house.owner)

    def run(self) -> None:
        one = self.one()
        if one and one.during.lower <= timezone.now():
            for lease in bound(one):
                tell(lease, "active", timezone.now())

    def free(self) -> None:
        running = Lease.objects.filter(state__in=["active", "stopping"]).select_related("gpu__node").first()
        if running:
            tell(running, "freed", timezone.now(), reason="exited")

    def sweep(self) -> None:
        self.chance.choice([freeze_due, end_overdue])()

    def close(self) -> None:
        begin = self.house.start + self.chance.randrange(0, 20) * HOUR
        which = self.chance.choice([{"node": Node.objects.first()}, {"pool": self.house.pool}, {}])
        Maintenance.objects.create(during=span(begin, 2), reason="x", created_by=self.house.admin, **which)

    def open(self) -> None:
        Maintenance.objects.filter(pk__in=Maintenance.objects.values("pk")[:1]).update(cancelled_at=timezone.now())

    def node(self) -> None:
        node = self.chance.choice(list(Node.objects.order_by("pk")))
        change = self.chance.choice([
            {"state": NodeState.CORDONED}, {"state": NodeState.READY}, {"silent_since": timezone.now()},
            {"silent_since": None}, {"last_seen_at": timezone.now()}])  # fmt: skip
        Node.objects.filter(pk=node.pk).update(**change)

    def gpu(self) -> None:
        gpu = self.chance.choice(list(Gpu.objects.order_by("pk")))
        state = self.chance.choice([GpuState.OK, GpuState.OK, GpuState.FAULTY])
        Gpu.objects.filter(pk=gpu.pk).update(state=state)

    def limit(self) -> None:
        self.house.root.quotas.filter(pool=self.house.pool).update(limit=self.chance.randint(900, 1000))

    def forget_a_booking(self) -> None:
        """Booked, looked at, and taken back: nothing of it stays in the picture."""
        try:
            with transaction.atomic():
                self.book()
                self.limit()
                look(self.house, self.chance)
                raise TakenBack
        except TakenBack:
            return

    def lose_rows(self) -> None:
        """Somebody at the database's prompt."""
        if self.chance.random() < 0.3 and (row := Lease.objects.filter(state="planned").first()):
            Lease.objects.filter(pk=row.pk).delete()


@pytest.mark.parametrize("seed", range(2))
def test_whatever_is_done_to_a_pool_the_picture_says_what_a_fresh_read_says(house, seed):
    walk, held = Walk(house, seed), 0
    for number in range(STEPS):
        walk.step()
        if number % 2 or walk.chance.random() < 0.5:
            look(house, walk.chance)
        held += Lease.objects.filter(state__in=LIVE).count()
    assert held > STEPS, "little was ever held: the walk shows nothing"


def connection_with_a_transaction() -> None:
    connection.set_autocommit(False)
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_current_xact_id()")


def test_what_is_committed_late_is_seen_although_a_later_transaction_was_read_before(house):
    first, second = house.book("7g.80gb"), house.book("7g.80gb", house.start + 10 * HOUR)
    changed, read = threading.Event(), threading.Event()

    def slowly() -> None:
        with transaction.atomic():
            Lease.objects.filter(reservation=first).update(state="ended", end_reason="withdrawn")
            changed.set()
            assert read.wait(10)
        connections.close_all()

    with ThreadPoolExecutor(1) as pool:
        late = pool.submit(slowly)
        assert changed.wait(10)
        Lease.objects.filter(reservation=second).update(state="ended", end_reason="withdrawn")
        look(house, random.Random(1))
        read.set()
        late.result(10)
    look(house, random.Random(1))
    with looking_at(house.pool, timezone.now()) as picture:
        assert not picture.leases


def test_a_look_is_one_query_and_brings_only_what_changed(house):
    for hour in range(5):
        house.book("1g.10gb", house.start + hour * HOUR)
    look(house, random.Random(1))
    house.book("1g.10gb", house.start + 9 * HOUR)
    with CaptureQueriesContext(connection) as asked, looking_at(house.pool, timezone.now()) as picture:
        assert len(picture.leases) == 6
    assert len(asked) == 1


def test_an_old_transaction_elsewhere_does_not_have_what_was_read_told_again(house):
    with ThreadPoolExecutor(1) as pool:
        pool.submit(connection_with_a_transaction).result(10)
        make_quota(make_tenant("other", house.root), house.pool, 3)
        look(house, random.Random(1))
        with CaptureQueriesContext(connection) as asked, looking_at(house.pool, timezone.now()):
            assert len(asked) == 1
        pool.submit(connections.close_all).result(10)


def test_a_heartbeat_does_not_have_the_fleet_read_again(house):
    look(house, random.Random(1))
    Node.objects.update(last_seen_at=timezone.now(), generation=5)
    with CaptureQueriesContext(connection) as asked, looking_at(house.pool, timezone.now()):
        assert len(asked) == 1


def test_a_quota_that_is_taken_away_is_gone_from_the_picture(house):
    other = make_tenant("other", house.root)
    quota = make_quota(other, house.pool, 3)
    with looking_at(house.pool, timezone.now()) as picture:
        assert quota in picture.terms.quotas_binding(other)
    quota.delete()
    with looking_at(house.pool, timezone.now()) as picture:
        assert quota not in picture.terms.quotas_binding(other)


def test_a_booking_asks_the_database_at_most_fourteen_times(house):
    """With its key, its notice, its mail and its audit, and with a node that is told; begin and commit not counted."""
    house.book(key="first")
    for start in (house.start, timezone.now().replace(microsecond=0)):
        with CaptureQueriesContext(connection) as asked:
            house.book(start=start, key=f"second {start}")
        # The house looks up the profile by its name.
        queries = [query["sql"] for query in list(asked)[1:] if query["sql"] not in ("BEGIN", "COMMIT")]
        assert len(queries) <= 14, "\n".join(queries)
