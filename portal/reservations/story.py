"""What the page of one reservation tells: its steps with their times, where it sits, its charts, what it costs."""

import datetime as dt
from collections.abc import Iterable
from dataclasses import dataclass

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.inventory.models import Pool
from portal.ledger.folding import whole_second
from portal.reservations.context import Shell
from portal.reservations.group_facts import is_group
from portal.reservations.group_places import nearness_of
from portal.reservations.group_words import detail_of, is_of_group, what_a_loss_does
from portal.reservations.models import LIVE, OPEN, Lease, LeaseState, Reservation, State
from portal.reservations.selectors import ON_DEVICE
from portal.reservations.templatetags.berth_format import duration, moment, second
from portal.reservations.use_series import KEPT_AFTER, Series, Stretch, best_series, known, stretch_over
from portal.tenants.models import Role

RANGES = {"10m": dt.timedelta(minutes=10), "1h": dt.timedelta(hours=1), "all": None}


@dataclass(frozen=True)
class Step:
    name: str
    text: str
    mark: str  # done, current or ""


@dataclass(frozen=True)
class Story:
    """``lease`` is the rank that is shown; ``leases`` holds the newest attempt of every rank."""

    reservation: Reservation
    leases: list[Lease]
    lease: Lease | None
    steps: list[Step]
    may_change: bool
    range_name: str
    stretch: Stretch
    series: Series
    so_far: int
    now: dt.datetime
    measuring_pool: Pool | None = None

    @property
    def rank(self) -> int:
        return self.lease.rank if self.lease else 0

    @property
    def open(self) -> bool:
        return self.reservation.state in OPEN

    @property
    def nearness(self) -> str:
        return nearness_of(self.leases) if len(self.leases) > 1 and is_group(self.reservation) else ""

    @property
    def group_rule(self) -> str:
        return what_a_loss_does(self.reservation.workload) if is_group(self.reservation) else ""

    @property
    def stopping(self) -> bool:
        going = [lease for lease in self.leases if lease.state in LIVE]
        return bool(self.leases) and all(lease.state == LeaseState.STOPPING for lease in going)

    @property
    def may_release(self) -> bool:
        unbound = self.reservation.state in (State.REQUESTED, State.QUEUED)
        return self.may_change and (self.open or unbound) and not self.stopping

    @property
    def started(self) -> bool:
        return any(lease.state in ON_DEVICE for lease in self.leases)

    @property
    def why(self) -> str:
        """What is to be said of its end: of the group where one of its ranks knows, in the reader's language."""
        told = next((lease for lease in self.leases if is_of_group(lease)), None)
        if told is not None:
            return detail_of(told)
        return self.reservation.end_detail or (self.lease.detail if self.lease else "")

    @property
    def on_device(self) -> bool:
        """The rank that is shown is on its GPU: live values come."""
        return self.lease is not None and self.lease.state in ON_DEVICE

    @property
    def over(self) -> bool:
        return self.lease is not None and self.lease.ended_at is not None

    @property
    def measured(self) -> bool:
        """Samples came; a series without any is of what cannot be measured."""
        return any(known(values) for values in self.series.values())

    @property
    def says_why(self) -> bool:
        """There is a sentence about how it ended that the answer to its question does not tell already."""
        answered = self.reservation.state == State.REFUSED and self.reservation.approval_id is not None
        told = any(map(is_of_group, self.leases))
        return bool(told or self.reservation.end_detail and not answered or self.lease and self.lease.detail)

    @property
    def unmeasured(self) -> bool:
        """Its GPU does not tell how busy what is leased of it is; ``measuring_pool`` is one that does."""
        return self.lease is not None and self.lease.gpu.measured is False

    @property
    def ever_ran(self) -> bool:
        return self.lease is not None and self.lease.starting_at is not None

    @property
    def stored_log(self) -> str | None:
        return self.lease.log.tail if self.lease is not None and hasattr(self.lease, "log") else None

    @property
    def given_back(self) -> int:
        """Weighted slice-seconds that return to the budget when it is released now, or that did."""
        return max(0, self.reservation.price_slice_seconds - self.so_far)

    @property
    def mean_utilization(self) -> float | None:
        return _mean(self.series.get("utilization", ()))

    @property
    def mean_tensor(self) -> float | None:
        return _mean(self.series.get("tensor", ()))

    @property
    def mean_cpu(self) -> float | None:
        return _mean(self.series.get("cpu_percent", ()))

    @property
    def peak_memory(self) -> float | None:
        return max(known(self.series.get("memory_used_mib", ())), default=None)

    @property
    def cpu_high(self) -> float:
        """The top of the CPU chart: 100 for one core, more when more were used."""
        peak = max(known(self.series.get("cpu_percent", ())), default=0.0)
        return max(100.0, -(-peak // 100) * 100)

    @property
    def axis(self) -> list[dt.datetime]:
        half = (self.stretch.until - self.stretch.since) / 2
        return [self.stretch.since, self.stretch.since + half, self.stretch.until]


def story_of(reservation: Reservation, shell: Shell, rank: int, range_name: str) -> Story:
    """Reads the leases and the use of the one that is shown: at most three queries, whatever the number of ranks."""
    now = timezone.now()
    found = reservation.leases.select_related("gpu__node", "log").order_by("rank", "-attempt", "-pk")
    leases = newest_by_rank(found)
    lease = next((one for one in leases if one.rank == rank), leases[0] if leases else None)
    name = range_name if range_name in RANGES else "10m"
    if lease and lease.ended_at:
        name = "all"
    stretch = _stretch(lease, name, now)
    series: Series = {}
    if lease and lease.starting_at:
        stretch, series = best_series(lease.pk, stretch)
    blind = lease is not None and lease.gpu.measured is False
    return Story(
        reservation=reservation,
        leases=leases,
        lease=lease,
        steps=steps_of(reservation, lease),
        may_change=may_change_here(shell, reservation),
        range_name=name,
        stretch=stretch,
        series=series,
        so_far=_so_far(reservation, leases, now),
        now=now,
        measuring_pool=measuring_pool(reservation) if blind else None,
    )


def measuring_pool(reservation: Reservation) -> Pool | None:
    """Where the same tenant could have its use measured."""
    above = reservation.tenant.ancestor_ids
    return Pool.objects.filter(quotas__tenant__in=above, gpus__measured=True, gpus__present=True).first()


def newest_by_rank(leases: Iterable[Lease]) -> list[Lease]:
    """One lease a rank: the live one, or else the newest. Takes them ordered by rank, newest first."""
    kept: dict[int, Lease] = {}
    for lease in leases:
        if lease.rank not in kept or (lease.state in LIVE and kept[lease.rank].state not in LIVE):
            kept[lease.rank] = lease
    return list(kept.values())


def may_change_here(shell: Shell, reservation: Reservation) -> bool:
    """As selectors.may_change, from what the shell has read already."""
    needed = Role.MEMBER if reservation.owner_id == shell.request.user.pk else Role.LEAD
    return shell.may(reservation.tenant, needed)


def _stretch(lease: Lease | None, name: str, now: dt.datetime) -> Stretch:
    until = min(now, lease.ended_at) if lease and lease.ended_at else now - KEPT_AFTER
    span = RANGES[name]
    if span is not None:
        return stretch_over(until - span, until, 60)
    began = lease.starting_at if lease and lease.starting_at else until - dt.timedelta(minutes=10)
    return stretch_over(began, until)


def _so_far(reservation: Reservation, leases: list[Lease], now: dt.datetime) -> int:
    """Weighted slice-seconds held until now, as the ledger counts: from running to free, within the window."""
    seconds = 0
    for lease in leases:
        if lease.active_at:
            until = min(lease.ended_at or now, lease.during.upper)
            seconds += max(0, whole_second(until) - whole_second(lease.active_at))
    return reservation.weight * seconds


def steps_of(reservation: Reservation, lease: Lease | None) -> list[Step]:
    """Planned, starting, active, stopping, ended, each with what is known of its time."""
    if reservation.state in (State.REFUSED, State.CANCELLED):
        return [
            Step(_("Planned"), moment(reservation.created_at), "done"),
            Step(str(reservation.get_state_display()).capitalize(), moment(reservation.ended_at), "current"),
        ]
    rows = [
        (_("Planned"), moment(reservation.created_at), reservation.created_at),
        (_("Starting"), _starting(reservation, lease), lease and lease.starting_at),
        (_("Active"), _since(lease.active_at if lease else None), lease and lease.active_at),
        (_("Stopping"), _stopping(reservation, lease), lease and lease.stopping_at),
        (_("Ended"), _ended(reservation, lease), reservation.ended_at),
    ]
    if lease and lease.state == LeaseState.FAILED:
        rows[-1] = (_("Failed"), moment(lease.ended_at or reservation.ended_at), lease.ended_at)
    last = max(number for number, (_name, _text, at) in enumerate(rows) if at or number == 0)
    kept = [row for number, row in enumerate(rows) if row[2] or number > last or number == 0]
    return [
        Step(name, text, "current" if (name, text, at) == rows[last] else "done" if at else "")
        for name, text, at in kept
    ]


def _starting(reservation: Reservation, lease: Lease | None) -> str:
    if lease is None or lease.starting_at is None:
        waits = lease is not None and reservation.state in OPEN and _is_being_cleared(lease)
        return _("waits until the slices are cleared") if waits else moment(reservation.starts_at)
    if lease.active_at is None:
        return second(lease.starting_at)
    took = max(1, round((lease.active_at - lease.starting_at).total_seconds()))
    return _("%(time)s, took %(length)s") % {"time": second(lease.starting_at), "length": duration(took)}


def _is_being_cleared(lease: Lease) -> bool:
    """Its window has begun, and a lease from before it is still on the device there."""
    now = timezone.now()
    if lease.state != LeaseState.PLANNED or lease.during.lower > now:
        return False
    before = Lease.objects.filter(gpu_id=lease.gpu_id, span__overlap=lease.span, state__in=ON_DEVICE)
    return before.filter(during__endswith__lte=lease.during.lower).exists()


def _since(when: dt.datetime | None) -> str:
    return _("since %(time)s") % {"time": second(when)} if when else ""


def _stopping(reservation: Reservation, lease: Lease | None) -> str:
    if lease and lease.stopping_at:
        return second(lease.stopping_at)
    grace = {"time": moment(reservation.ends_at), "seconds": reservation.workload.grace_seconds}
    return _("%(time)s, %(seconds)d s to save") % grace


def _ended(reservation: Reservation, lease: Lease | None) -> str:
    return moment(reservation.ended_at) if reservation.ended_at else _("slices free again")


def _mean(values: Iterable[float | None]) -> float | None:
    measured = known(values)
    return sum(measured) / len(measured) if measured else None
