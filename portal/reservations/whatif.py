"""Would this be booked? The rules of booking applied to an outlook, in the same order, with no query."""

from typing import NamedTuple

from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Gpu, Profile
from portal.reservations.errors import ReservationRefused
from portal.reservations.outlook import Outlook, PoolOutlook, peak_below
from portal.reservations.policy_rules import check_coverage, check_policy
from portal.reservations.reasons import no_capacity, quota_exceeded
from portal.reservations.rules import check_shape
from portal.reservations.selectors import shape_of, window_of
from portal.reservations.spending import refuse_over_budget
from portal.reservations.windows import check_window
from scheduler.placement.explain import why_not
from scheduler.placement.gang import place_gang
from scheduler.placement.geometry import free_count


class Place(NamedTuple):
    """Where a rank would sit: the span start:end of a GPU."""

    gpu: Gpu
    start: int
    end: int


def check_without_capacity(
    outlook: Outlook,
    here: PoolOutlook,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    image: str | None = None,
) -> None:
    """Raise what booking would: window, coverage, shape and count, policy, quota, budget, in this order."""
    check_window(during, here.pool, outlook.now)
    check_coverage(here.quotas, during)
    check_shape(here.pool, profile, ranks)
    own = outlook.own
    check_policy(
        outlook.policy, pool=here.pool, profile=profile, weight=profile.weight * ranks, during=during, now=outlook.now,
        image=image,
        held_by_person=None if own is None else lambda tenant: peak_below(tenant.path, during, own))  # fmt: skip
    check_limits(outlook, here, profile.weight * ranks, during)


def check_limits(outlook: Outlook, here: PoolOutlook, weight: int, during: DateTimeTZRange) -> None:
    """Raise when a quota or a budget does not allow that much weight for the window."""
    for use in here.quota_uses(during):
        if weight > use.left:
            raise quota_exceeded(str(use.quota.tenant), use.quota.limit, use.held, weight)
    refuse_over_budget(outlook.budgets, weight, during.lower, during.upper)


def would_fit(outlook: Outlook, here: PoolOutlook, profile: Profile, ranks: int, during: DateTimeTZRange) -> bool:
    """Whether booking would take it, as far as the outlook knows."""
    try:
        check_without_capacity(outlook, here, profile, ranks, during)
    except ReservationRefused:
        return False
    return free_count(shape_of(profile), here.views, window_of(during)) >= ranks


def places_for(
    outlook: Outlook,
    here: PoolOutlook,
    profile: Profile,
    ranks: int,
    during: DateTimeTZRange,
    image: str | None = None,
) -> tuple[Place, ...]:
    """Where the ranks would sit, or the refusal. Its time when something becomes free reaches as far as the outlook."""
    check_without_capacity(outlook, here, profile, ranks, during, image)
    placements = place_gang(shape_of(profile), ranks, here.views, window_of(during), here.shapes)
    if not placements:
        why = why_not(shape_of(profile), ranks, here.views, window_of(during), here.shapes)
        raise no_capacity(why, here.pool, profile, {gpu.node_id: gpu.node.name for gpu in here.gpus.values()})
    return tuple(Place(here.gpus[one.gpu_id], one.start, one.end) for one in placements)
