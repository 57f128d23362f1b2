"""Reading reservations and leases: what a person may see, what is held when, what placement looks at."""

import datetime as dt
from collections import defaultdict
from collections.abc import Iterable

from django.db.models import OuterRef, Q, QuerySet
from psycopg2.extras import DateTimeTZRange, NumericRange

from portal.accounts.models import User
from portal.inventory.models import Gpu, GpuState, NodeState, Pool, Profile
from portal.reservations.closures import COLUMNS, Canvas, GpuColumns, closures
from portal.reservations.models import COUNTED, LIVE, Lease, LeaseState, Reservation
from portal.reservations.peaks import highest_within
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may, tenants_of
from scheduler.placement.geometry import GpuView, Held, Shape, Window

OVERDUE_HOLD = dt.timedelta(seconds=60)
# Leases that end or begin just beside a window count in the scores: placement likes windows that meet.
NEIGHBOURS = dt.timedelta(seconds=1)
ON_DEVICE = [LeaseState.STARTING, LeaseState.ACTIVE, LeaseState.STOPPING]


def reservations_of(user: User) -> QuerySet[Reservation]:
    """Every reservation of every tenant that ``user`` may see."""
    return Reservation.objects.filter(tenant__in=tenants_of(user))


def may_change(user: User, reservation: Reservation) -> bool:
    """The owner while still a member, and leads of the tenant."""
    needed = Role.MEMBER if reservation.owner_id == user.pk else Role.LEAD
    return may(user, reservation.tenant, needed)


def peak_weight_held(
    tenant: Tenant, pool: Pool, during: DateTimeTZRange, *, instead_of: Reservation | None = None
) -> int:
    """The most weight that the tenant's subtree holds at any one moment of the window, ``instead_of`` not counted."""
    held = leases_held(pool, during, instead_of).filter(reservation__tenant__path__startswith=tenant.path)
    return peak_of(held, during)


def leases_held(pool: Pool, during: DateTimeTZRange, instead_of: Reservation | None = None) -> QuerySet[Lease]:
    """Leases that count, of the pool's reservations, that meet the window; those of ``instead_of`` left out."""
    rows = Lease.objects.filter(COUNTED, reservation__pool=pool, during__overlap=during)
    return rows.exclude(reservation=instead_of) if instead_of else rows


def peak_of(leases: QuerySet[Lease], during: DateTimeTZRange) -> int:
    """The most weight that these leases hold at any one moment of the window."""
    rows = leases.values_list("during", "reservation__weight")
    return highest_within(((held.lower, held.upper, weight) for held, weight in rows), during)


def bookable_gpus(pool: Pool | OuterRef) -> QuerySet[Gpu]:
    """GPUs of the pool that take new leases: present, well, on a node that is ready and answers.

    A node in planned maintenance returns by itself: it takes leases for the time after, and none within it by the
    closures that the views carry.
    """
    returns = Q(node__state=NodeState.MAINTENANCE, node__by_plan=True)
    return Gpu.objects.filter(
        Q(node__state=NodeState.READY) | returns,
        pool=pool,
        present=True,
        state=GpuState.OK,
        node__silent_since__isnull=True,
        node__enrolled_at__isnull=False,
    ).order_by("node_id", "index")


def gpu_views(
    pool: Pool, during: DateTimeTZRange, now: dt.datetime, *, without: Iterable[int] = ()
) -> tuple[GpuView, ...]:
    """What placement sees of the pool for a window; a lease still on its device after its end holds it on.

    ``without`` are ids of leases that are looked away from: they are about to be moved, or to make room.
    """
    gpus = [GpuColumns(*row) for row in bookable_gpus(pool).values_list(*COLUMNS)]
    overdue = Q(during__endswith__lte=now, state__in=ON_DEVICE)
    around = DateTimeTZRange(during.lower - NEIGHBOURS, during.upper + NEIGHBOURS, "[)")
    rows = Lease.objects.filter(Q(during__overlap=around) | overdue, gpu__pool=pool, state__in=LIVE).values_list(
        "gpu_id", "span", "during", "state", "reservation__profile__name"
    )
    rows = rows.exclude(pk__in=list(without)) if without else rows
    held: dict[int, list[Held]] = defaultdict(list)
    for gpu_id, span, window, state, shape in rows:
        held[gpu_id].append(held_as(span, window, state, shape, now))
    closed = closures(gpus, around)
    return tuple(view_of(gpu, [*held[gpu.pk], *closed[gpu.pk]]) for gpu in gpus)


def held_as(span: NumericRange, during: DateTimeTZRange, state: str, profile_name: str, now: dt.datetime) -> Held:
    """A live lease as placement sees it."""
    until = during.upper
    if state in ON_DEVICE and until <= now:
        until = now + OVERDUE_HOLD
    return Held(span.lower, span.upper, int(during.lower.timestamp()), int(until.timestamp()), profile_name)


def view_of(gpu: Canvas, held: Iterable[Held]) -> GpuView:
    return GpuView(gpu.pk, gpu.node_id, gpu.index, gpu.memory_slices, tuple(sorted(held, key=_by_place)))


def _by_place(held: Held) -> tuple[int, int]:
    return held.since, held.start


def profiles_of(pool: Pool) -> QuerySet[Profile]:
    """The shapes that the pool's GPUs offer, as their agents reported them."""
    if not pool.gpu_model or pool.mig is None:  # no agent has reported a GPU of it yet
        return Profile.objects.none()
    return Profile.objects.filter(gpu_model=pool.gpu_model, mig=pool.mig)


def shape_of(profile: Profile) -> Shape:
    return Shape(profile.name, profile.size, tuple(profile.starts), profile.compute_slices, profile.max_count)


def window_of(during: DateTimeTZRange) -> Window:
    return Window(int(during.lower.timestamp()), int(during.upper.timestamp()))
