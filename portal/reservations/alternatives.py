"""Ways on after a refusal: at most three requests that booking would take now, by the same person."""

import datetime as dt
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from itertools import islice

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool, Profile
from portal.reservations.errors import BudgetExceeded, NoCapacity, PolicyRefused, QuotaExceeded, ReservationRefused
from portal.reservations.outlook import WEEK, Outlook, PoolOutlook
from portal.reservations.selectors import shape_of
from portal.reservations.whatif import Place, places_for, would_fit
from scheduler.placement.earliest import fitting_starts

MOST_ALTERNATIVES = 3
MOST_STARTS_TRIED = 200
HAS_WAYS_ON = (NoCapacity, QuotaExceeded, BudgetExceeded, PolicyRefused)
MINUTE = dt.timedelta(minutes=1)


@dataclass(frozen=True)
class Alternative:
    """``kind``: earlier, later, shorter, smaller, larger, fewer or other_pool. The price: weighted slice-seconds."""

    kind: str
    pool: Pool
    profile: Profile
    ranks: int
    during: DateTimeTZRange
    price_slice_seconds: int
    placements: tuple[Place, ...]


def alternatives_in(
    outlook: Outlook, pool: Pool, profile: Profile, ranks: int, during: DateTimeTZRange, refusal: ReservationRefused
) -> tuple[Alternative, ...]:
    """Up to three ways on, the one closest to what was asked first. Only lack of place, quota, budget
    and what a policy forbids have any; a workload that is not allowed has none, since it would run there too."""
    here = outlook.pools.get(pool.pk)
    if here is None or not isinstance(refusal, HAS_WAYS_ON) or refusal.field == "workload":
        return ()
    search = _Search(outlook, here, profile, ranks, during)
    size = [search.smaller, search.fewer]
    if isinstance(refusal, NoCapacity):
        sorts = [[search.later, search.earlier], [*size, search.larger], [search.other_pool], [search.shorter]]
    else:
        sorts = [[search.shorter], size, [search.other_pool], [search.later]]
    return tuple(islice(filter(None, map(_first_found, sorts)), MOST_ALTERNATIVES))


def _first_found(ways: Iterable[Callable[[], Alternative | None]]) -> Alternative | None:
    """One of each sort only: three ways on that differ help more than three alike."""
    return next(filter(None, (way() for way in ways)), None)


class _Search:
    """Looks for one alternative of each kind in an outlook."""

    def __init__(
        self, outlook: Outlook, here: PoolOutlook, profile: Profile, ranks: int, during: DateTimeTZRange
    ) -> None:
        self.outlook, self.here, self.profile, self.ranks, self.during = outlook, here, profile, ranks, during

    def later(self) -> Alternative | None:
        """The same thing at the next start within a week after the one asked."""
        return self._at_another_time("later", self.during.lower, self.during.lower + WEEK)

    def earlier(self) -> Alternative | None:
        """The same thing at the first start before the one asked, from the next full minute on."""
        first = self.outlook.now.replace(second=0, microsecond=0) + MINUTE
        return self._at_another_time("earlier", max(first, self.outlook.since), self.during.lower - MINUTE)

    def _at_another_time(self, kind: str, first: dt.datetime, last: dt.datetime) -> Alternative | None:
        length = self.during.upper - self.during.lower
        starts = fitting_starts(
            shape_of(self.profile), self.ranks, self.here.views, int(length.total_seconds()),
            int(first.timestamp()), int(last.timestamp()))  # fmt: skip
        for moment in islice(starts, MOST_STARTS_TRIED):
            start = dt.datetime.fromtimestamp(moment, dt.UTC)
            during = DateTimeTZRange(start, start + length, "[)")
            if during != self.during and would_fit(self.outlook, self.here, self.profile, self.ranks, during):
                return self._offer(kind, self.here, self.profile, self.ranks, during)
        return None

    def shorter(self) -> Alternative | None:
        """The longest window from the same start, in whole minutes: where one fits, every shorter one does."""
        low = -(-self.here.pool.shortest_window_seconds // 60)
        high = (int((self.during.upper - self.during.lower).total_seconds()) - 1) // 60
        best = None
        while low <= high:
            minutes = (low + high) // 2
            during = DateTimeTZRange(self.during.lower, self.during.lower + minutes * MINUTE, "[)")
            if would_fit(self.outlook, self.here, self.profile, self.ranks, during):
                best, low = during, minutes + 1
            else:
                high = minutes - 1
        return self._offer("shorter", self.here, self.profile, self.ranks, best) if best else None

    def smaller(self) -> Alternative | None:
        """The largest smaller profile of the pool in the same window."""
        lesser = [one for one in self._like_mine(self.here) if _bulk(one) < _bulk(self.profile)]
        return self._first_that_fits("smaller", self.here, sorted(lesser, key=_bulk, reverse=True))

    def larger(self) -> Alternative | None:
        """The smallest larger profile of the pool in the same window; quota and budget must allow its price."""
        greater = [one for one in self._like_mine(self.here) if _bulk(one) > _bulk(self.profile)]
        return self._first_that_fits("larger", self.here, sorted(greater, key=_bulk))

    def fewer(self) -> Alternative | None:
        """The most ranks of the same profile that fit in the same window."""
        for ranks in range(self.ranks - 1, 0, -1):
            if would_fit(self.outlook, self.here, self.profile, ranks, self.during):
                return self._offer("fewer", self.here, self.profile, ranks, self.during)
        return None

    def other_pool(self) -> Alternative | None:
        """As much memory or more in another pool of the tenant, at the lowest price."""
        options = [
            (profile.weight, profile.memory_mib, there.pool.name, there, profile)
            for there in self.outlook.pools.values()
            if there is not self.here
            for profile in self._like_mine(there)
            if profile.memory_mib >= self.profile.memory_mib
        ]
        for _weight, _memory, _name, there, profile in sorted(options, key=lambda option: option[:3]):
            if would_fit(self.outlook, there, profile, self.ranks, self.during):
                return self._offer("other_pool", there, profile, self.ranks, self.during)
        return None

    def _like_mine(self, there: PoolOutlook) -> list[Profile]:
        """Profiles that a GPU takes once beside others (+me and the like) only for those who asked for such a one."""
        wanted = _special(self.profile)
        return [one for one in there.profiles if wanted or not _special(one)]

    def _first_that_fits(self, kind: str, here: PoolOutlook, profiles: Iterable[Profile]) -> Alternative | None:
        for profile in profiles:
            if would_fit(self.outlook, here, profile, self.ranks, self.during):
                return self._offer(kind, here, profile, self.ranks, self.during)
        return None

    def _offer(
        self, kind: str, here: PoolOutlook, profile: Profile, ranks: int, during: DateTimeTZRange
    ) -> Alternative:
        price = profile.weight * ranks * int((during.upper - during.lower).total_seconds())
        places = places_for(self.outlook, here, profile, ranks, during)
        return Alternative(kind, here.pool, profile, ranks, during, price, places)


def _special(profile: Profile) -> bool:
    return profile.max_count == 1 and len(profile.starts) > 1


def _bulk(profile: Profile) -> tuple[int, int, int, str]:
    return profile.size, profile.compute_slices, profile.memory_mib, profile.name
