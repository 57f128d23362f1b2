"""What quotas' dates and hours, and the policies of a tenant, allow: worded once for booking and preview.

The checks are pure: what they need is read before, under the locks by booking, from an outlook by a preview.
"""

import datetime as dt
import itertools
import zoneinfo
from collections.abc import Callable, Sequence

from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.quotas.coverage import closed_part, uncovered_part
from portal.quotas.images import matches
from portal.quotas.models import Quota
from portal.quotas.policies import EffectivePolicy
from portal.quotas.words import hours_words, length
from portal.reservations.errors import NoAccess, PolicyRefused, WindowRefused
from portal.reservations.models import COUNTED, Lease, Reservation
from portal.reservations.selectors import peak_of
from portal.reservations.templatetags.berth_format import moment
from portal.tenants.models import Tenant

HeldByPerson = Callable[[Tenant], int]


def check_coverage(quotas: Sequence[Quota], during: DateTimeTZRange) -> None:
    """Refuse a window that a tenant's quotas do not cover together, or in which they are not open.

    ``quotas`` are all rows that bind the tenant in the pool, root first, whenever they hold. A tenant without rows is
    bound by those above it.
    """
    for _tenant_id, rows in itertools.groupby(quotas, key=lambda row: row.tenant_id):
        _check_rows(list(rows), during)


def _check_rows(rows: list[Quota], during: DateTimeTZRange) -> None:
    missing = uncovered_part(during, rows)
    tenant, pool = rows[0].tenant, rows[0].pool
    if missing is not None:
        shown = {"since": moment(missing.lower), "until": moment(missing.upper), "tenant": tenant, "pool": pool}
        evidence = {"tenant": str(tenant), "pool": str(pool), **_bounds("uncovered", missing)}
        sentence = _("%(tenant)s has no quota in %(pool)s from %(since)s to %(until)s.") % shown
        raise NoAccess(sentence, evidence, field="end" if missing.lower > during.lower else "start")
    for row in rows:
        part = row.part_of(during)
        if part is None or not row.open_hours:
            continue
        closed = closed_part(part, row.open_hours, zoneinfo.ZoneInfo(tenant.time_zone))
        if closed is not None:
            hours = hours_words(row.open_hours, tenant.time_zone)
            evidence = {"tenant": str(tenant), "pool": str(pool), "hours": hours, **_bounds("closed", closed)}
            sentence = _("%(tenant)s may use %(pool)s at these hours only: %(hours)s.")
            raise PolicyRefused(sentence % evidence, evidence, field="start" if closed.lower == during.lower else "end")


def _bounds(name: str, part: DateTimeTZRange) -> dict[str, str]:
    return {f"{name}_from": part.lower.isoformat(), f"{name}_until": part.upper.isoformat()}


def quotas_met(quotas: Sequence[Quota], during: DateTimeTZRange) -> list[tuple[Quota, DateTimeTZRange]]:
    """Each row that is valid at some time of the window, with the part of the window that it limits."""
    parts = ((quota, quota.part_of(during)) for quota in quotas)
    return [(quota, part) for quota, part in parts if part is not None]


def check_policy(
    policy: EffectivePolicy,
    *,
    pool: Pool,
    profile: Profile,
    weight: int,
    during: DateTimeTZRange,
    now: dt.datetime,
    image: str | None = None,
    held_by_person: HeldByPerson | None = None,
    has_started: bool = False,
) -> None:
    """Refuse what the policy does not allow, with the number and the tenant whose policy it is.

    ``weight`` is that of all ranks. ``image`` None is one that was accepted before, or is not chosen yet; without
    ``held_by_person`` (what the owner holds at most within the window in a tenant's subtree) nobody's share is counted.
    """
    check_policy_window(policy, during, now, has_started=has_started)
    _check_pool_and_profile(policy, pool, profile)
    if image is not None and policy.images is not None and not matches(policy.images, image):
        raise _refused(policy, "images", _image_sentence(image), "workload", image=image)
    for tenant, most in policy.weight_rules if held_by_person else ():
        held = held_by_person(tenant) if held_by_person else 0
        if held + weight > most:
            numbers: dict[str, int | str] = {"tenant": str(tenant), "most": most, "held": held, "asked": weight}
            sentence = _(
                "One person of %(tenant)s holds at most %(most)d slices at once; %(held)d are held in this window and "
                "this asks for %(asked)d more."
            )
            raise PolicyRefused(sentence % numbers, numbers, field="ranks")


def check_policy_window(
    policy: EffectivePolicy, during: DateTimeTZRange, now: dt.datetime, *, has_started: bool = False
) -> None:
    """The longest window, and how far ahead it may begin unless it has begun."""
    seconds, longest = int((during.upper - during.lower).total_seconds()), policy.longest_window_seconds
    if longest is not None and seconds > longest:
        shown = {"tenant": policy.origins["longest_window_seconds"], "limit": length(longest)}
        raise WindowRefused(
            _("The longest window of %(tenant)s is %(limit)s.") % shown,
            {"tenant": str(shown["tenant"]), "seconds": seconds, "longest_seconds": longest}, field="end")  # fmt: skip
    ahead = policy.book_ahead_seconds
    if ahead is not None and not has_started and during.lower > now + dt.timedelta(seconds=ahead):
        shown = {"tenant": policy.origins["book_ahead_seconds"], "limit": length(ahead)}
        raise WindowRefused(
            _("%(tenant)s books at most %(limit)s ahead.") % shown,
            {"tenant": str(shown["tenant"]), "book_ahead_seconds": ahead}, field="start")  # fmt: skip


def _check_pool_and_profile(policy: EffectivePolicy, pool: Pool, profile: Profile) -> None:
    if policy.pool_ids is not None and pool.pk not in policy.pool_ids:
        raise _refused(policy, "pool_ids", _("%(tenant)s does not allow %(pool)s."), "pool", pool=str(pool))
    if policy.profiles is not None and profile.name not in policy.profiles:
        sentence = _("%(tenant)s does not allow %(profile)s. Allowed: %(allowed)s.")
        allowed = ", ".join(sorted(policy.profiles)) or "–"
        raise _refused(policy, "profiles", sentence, "profile", profile=profile.name, allowed=allowed)


def _image_sentence(image: str) -> str:
    if not image:
        return _("%(tenant)s allows certain images only, and this workload names none. Allowed: %(allowed)s.")
    return _("%(tenant)s does not allow the image %(image)s. Allowed: %(allowed)s.")


def _refused(policy: EffectivePolicy, name: str, sentence: str, field: str, **evidence: str) -> PolicyRefused:
    shown = {"tenant": str(policy.origins[name]), **evidence}
    if name == "images":
        shown["allowed"] = ", ".join(policy.images or ()) or "–"
    return PolicyRefused(sentence % shown, shown, field=field)


def weight_held_by(
    owner: User, tenant: Tenant, during: DateTimeTZRange, *, instead_of: Reservation | None = None
) -> int:
    """The most weight that the person holds at any one moment of the window in the tenant's subtree, in all pools.

    Bookings of other pools do not meet under a pool's lock, so this one takes the person's row for the rest of the
    transaction: after pools and budgets, before leases.
    """
    User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    held = Lease.objects.filter(
        COUNTED, reservation__owner=owner, reservation__tenant__path__startswith=tenant.path,
        during__overlap=during)  # fmt: skip
    return peak_of(held.exclude(reservation=instead_of) if instead_of else held, during)
