"""A picture of each pool in this process: what is held in it, where, and what binds who books there.

It is brought up to date by what changed since, in one query, each time somebody looks; under the pool's lock it then
says what the rows say. It is never trusted for correctness: the constraint on leases has the last word. Threads take
turns at a picture, and none sees one that is half made.
"""

import datetime as dt
import itertools
import threading
import time
from collections import OrderedDict
from collections.abc import Collection, Iterator, Sequence
from contextlib import contextmanager

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.reservations.models import MOVED, ChangeMark
from portal.reservations.outlook import Holding
from portal.reservations.pool_changes import Changes, LeaseRow, read_changes, read_whole
from portal.reservations.pool_fleet import Fleet, read_fleet
from portal.reservations.pool_holdings import Holdings
from portal.reservations.pool_terms import Terms, read_terms
from portal.reservations.selectors import ON_DEVICE, OVERDUE_HOLD
from scheduler.placement.calendar import Calendar
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import Shape, Window
from scheduler.placement.replan import Admission, Refused, admit, full, improve
from scheduler.placement.span_tables import SLICES_MOST
from scheduler.placement.trial import Move

PICTURES_MOST = 32
# So long moves are looked for at most, under the pool's lock.
ADMIT_SECONDS = 0.2
# A picture that nobody looked at for so long is read anew; marks are kept longer than that.
KEPT_SECONDS = 3600


_versions = itertools.count(1)


class PoolPicture:
    """Look at it through :func:`looking_at` alone. ``version`` is another each time it was brought up to date."""

    terms: Terms
    fleet: Fleet
    calendar: Calendar

    def __init__(self) -> None:
        self.mutex = threading.Lock()
        self.version = 0
        self.leases: dict[int, LeaseRow] = {}
        self.holdings = Holdings()
        self._since: int | None = None
        self._read_at = 0.0
        self._unsettled_keys: frozenset[int] = frozenset()
        self._unsettled_marks: frozenset[str] = frozenset()
        self._read_marks: frozenset[int] = frozenset()
        self._on_device: dict[int, LeaseRow] = {}
        self._fleet_keys: list[int] = []

    @property
    def is_whole(self) -> bool:
        """Nothing failed while it was read last."""
        return self._since is not None

    def refresh(self, pool: Pool, now: dt.datetime) -> None:
        """Read what changed since, and take it over; whatever fails on the way, the next look reads everything."""
        since, self._since = self._since, None
        if since is None or time.monotonic() - self._read_at > KEPT_SECONDS:
            self._read_anew(pool, now)
        else:
            self._catch_up(pool, now, since)
        self._read_at = time.monotonic()
        self.version = next(_versions)

    def admit(
        self,
        shape: Shape,
        ranks: int,
        window: Window,
        *,
        without: Collection[int] = (),
        only_nodes: Collection[int] | None = None,
    ) -> Admission | Refused:
        """Places for all ranks for the whole window, with what moves for them, or why there are none.

        ``without`` are ids of leases that are looked away from, ``only_nodes`` those where the ranks may sit.
        """
        if not self.fleet.gpus:
            return Refused()
        if self.fleet.slices <= SLICES_MOST:
            return admit(
                shape, ranks, self.calendar, window, self.fleet.shapes, deadline_seconds=ADMIT_SECONDS,
                only_nodes=only_nodes, without=without)  # fmt: skip
        views = (
            self.calendar.view(gpu.pk, window, without=without)
            for gpu in self.fleet.gpus
            if only_nodes is None or gpu.node_id in only_nodes
        )
        placements = place_gang(shape, ranks, views, window, self.fleet.shapes, self.fleet.topology)
        return Admission(placements) if placements else Refused()

    def is_full(self, shape: Shape, ranks: int, window: Window) -> bool:
        """Whether it is proven that the ranks do not fit, whatever were moved; quick, and False where in doubt."""
        if not self.fleet.gpus or self.fleet.slices > SLICES_MOST:
            return False
        return full(shape, ranks, self.calendar, window, self.fleet.shapes) is not None

    def improve(self, deadline_seconds: float) -> tuple[Move, ...]:
        """Moves after which more would fit. Begins where the last call ended."""
        if not self.fleet.gpus or self.fleet.slices > SLICES_MOST:
            return ()
        return improve(self.calendar, self.fleet.shapes, deadline_seconds=deadline_seconds)

    def held_in(self, during: DateTimeTZRange, but: int | None = None) -> Sequence[Holding]:
        """As quotas and shares count it, without what the reservation ``but`` holds."""
        return self.holdings.meeting(during, but)

    def _read_anew(self, pool: Pool, now: dt.datetime) -> None:
        changes = read_whole(pool.pk)
        self.leases = {row.key: row for row in changes.leases}
        self.holdings, self._on_device = Holdings(), {}
        for row in changes.leases:
            self._count(row, pool)
        self.terms = read_terms(pool)
        self.fleet = read_fleet(pool, now)
        self._lay_out(now)
        self._settle(changes, now)

    def _catch_up(self, pool: Pool, now: dt.datetime, since: int) -> None:
        unsettled = self._unsettled_keys
        changes = read_changes(pool.pk, since, unsettled, self._read_marks)
        marks = changes.marks | self._unsettled_marks
        if ChangeMark.What.ERASED in marks:
            self._read_anew(pool, now)
            return
        for key in unsettled - {row.key for row in changes.leases}:
            self._drop(key)
        for row in changes.leases:
            if self.leases.get(row.key) != row:
                self._take_over(row, pool)
        if ChangeMark.What.TERMS in marks:
            self.terms = read_terms(pool)
        if ChangeMark.What.FLEET in marks:
            self._change_fleet(pool, now)
        self._settle(changes, now)

    def _settle(self, changes: Changes, now: dt.datetime) -> None:
        self._since, self._read_marks = changes.since, changes.read
        self._unsettled_keys, self._unsettled_marks = changes.own_keys, changes.own_marks
        moment = int(now.timestamp())
        self.calendar.advance(moment - 86400)
        for row in self._on_device.values():
            if row.until <= now:
                self._hold(row, int((now + OVERDUE_HOLD).timestamp()))

    def _take_over(self, row: LeaseRow, pool: Pool) -> None:
        if not row.is_live:
            self._drop(row.key)
            return
        self.leases[row.key] = row
        self._count(row, pool)
        self._hold(row, int(row.until.timestamp()))

    def _count(self, row: LeaseRow, pool: Pool) -> None:
        if row.state in ON_DEVICE:
            self._on_device[row.key] = row
        else:
            self._on_device.pop(row.key, None)
        if row.pool_id == pool.pk and row.end_reason != MOVED:
            holding = Holding(row.since, row.until, row.weight, row.tenant_path, row.borrowed)
            self.holdings.hold(row.key, row.reservation_id, holding)
        else:
            self.holdings.drop(row.key)

    def _drop(self, key: int) -> None:
        self.leases.pop(key, None)
        self._on_device.pop(key, None)
        self.holdings.drop(key)
        self.calendar.drop(key)

    def _hold(self, row: LeaseRow, until: int) -> None:
        since = int(row.since.timestamp())
        self.calendar.hold(row.key, row.gpu_id, row.start, row.end, since, until, row.shape, row.movable)

    def _change_fleet(self, pool: Pool, now: dt.datetime) -> None:
        before, self.fleet = self.fleet, read_fleet(pool, now)
        if (before.places, before.slices) != (self.fleet.places, self.fleet.slices):
            self._read_anew(pool, now)  # leases on GPUs that came or went are others now
            return
        for key in self._fleet_keys:
            self.calendar.drop(key)
        self._close()

    def _lay_out(self, now: dt.datetime) -> None:
        self.calendar = Calendar(self.fleet.places, self.fleet.slices, int(now.timestamp()) - 86400)
        for row in self.leases.values():
            self._hold(row, int(row.until.timestamp()))
        self._close()

    def _close(self) -> None:
        """What takes no leases has keys below zero."""
        self.calendar.topology = self.fleet.topology
        self._fleet_keys = [-number for number in range(1, len(self.fleet.closed) + 1)]
        for key, (gpu_id, held) in zip(self._fleet_keys, self.fleet.closed, strict=True):
            self.calendar.hold(key, gpu_id, held.start, held.end, held.since, held.until, held.shape, False)


_pictures: OrderedDict[int, PoolPicture] = OrderedDict()
_album = threading.Lock()


@contextmanager
def looking_at(pool: Pool, now: dt.datetime, *, seen: int | None = None) -> Iterator[PoolPicture]:
    """The pool as it is now, to this transaction; this thread's alone meanwhile. One query.

    ``seen`` is the version that the caller looked at before, since when it has written nothing: if that still is the
    newest, it is good enough under the pool's lock, and costs no query.
    """
    picture = _picture_of(pool.pk)
    with picture.mutex:
        if seen is None or picture.version != seen:
            picture.refresh(pool, now)
        yield picture


@contextmanager
def glancing_at(pool_id: int) -> Iterator[PoolPicture | None]:
    """The pool as this process saw it last, without a query; None if it has not, or if others are looking."""
    picture = _picture_of(pool_id)
    if not picture.mutex.acquire(blocking=False):
        yield None
        return
    try:
        yield picture if picture.is_whole else None
    finally:
        picture.mutex.release()


def _picture_of(pool_id: int) -> PoolPicture:
    with _album:
        picture = _pictures.setdefault(pool_id, PoolPicture())
        _pictures.move_to_end(pool_id)
        while len(_pictures) > PICTURES_MOST:
            _pictures.popitem(last=False)
        return picture
