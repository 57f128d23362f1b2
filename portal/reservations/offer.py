"""What the reserve form offers a person: their tenants, the pools open to these, profiles and workload templates."""

import datetime as dt
from collections.abc import Mapping
from dataclasses import dataclass

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool, Profile
from portal.reservations.context import Shell
from portal.reservations.outlook import USUAL, Known, Outlook, outlook_around, quotas_of, usual_pool_id
from portal.reservations.selectors import profiles_of
from portal.tenants.models import Role, Tenant
from portal.workloads.models import Template

CHART = dt.timedelta(hours=48)
FARTHEST = dt.timedelta(days=400)


@dataclass(frozen=True)
class Offer:
    """``tenant`` and ``pool`` are those of the request, or the usual ones where it names none that is offered: of the
    pools the first by name that measures use, so that a newcomer sees what their first reservation does.

    ``outlook`` is None where nothing was looked at: then ``known`` has what was read for the choices.
    """

    tenants: list[Tenant]
    tenant: Tenant | None
    pools: list[Pool]
    pool: Pool | None
    profiles: list[Profile]
    templates: list[Template]
    outlook: Outlook | None
    known: Known = Known()

    @property
    def unmeasured(self) -> bool:
        """The pool cannot tell how busy a slice is."""
        return bool(self.pool and self.outlook and self.outlook.pools[self.pool.pk].unmeasured)


def offer_for(shell: Shell, wanted: Mapping[str, str], window: DateTimeTZRange | None) -> Offer:
    """Seven queries beyond those of the shell. Foreign ids and ids that do not exist look alike: not offered."""
    tenants, tenant = _tenants(shell, wanted)
    if tenant is None:
        return Offer(tenants, None, [], None, [], [], None)
    now = timezone.now()
    outlook = outlook_around(
        tenant, around(window, now), now, owner_id=shell.request.user.pk, whole=_id_of(wanted.get("pool", ""))
    )
    pools = sorted((here.pool for here in outlook.pools.values()), key=lambda pool: pool.name)
    pool = named(pools, wanted.get("pool")) or _usual_pool(pools, outlook)
    profiles = list(outlook.pools[pool.pk].profiles) if pool else []
    return Offer(tenants, tenant, pools, pool, profiles, _templates(tenant), outlook)


def choices_for(shell: Shell, wanted: Mapping[str, str]) -> Offer:
    """As :func:`offer_for`, without a look at what is free: three queries."""
    tenants, tenant = _tenants(shell, wanted)
    if tenant is None:
        return Offer(tenants, None, [], None, [], [], None)
    quotas = quotas_of(tenant)
    pools = sorted({row.pool_id: row.pool for row in quotas}.values(), key=lambda pool: pool.name)
    pool = named(pools, wanted.get("pool")) or named(pools, str(usual_pool_id(quotas)))
    profiles = list(profiles_of(pool)) if pool else []
    known = Known(tuple(row for row in quotas if row.pool_id == pool.pk), tuple(profiles)) if pool else Known()
    return Offer(tenants, tenant, pools, pool, profiles, _templates(tenant), None, known)


def _tenants(shell: Shell, wanted: Mapping[str, str]) -> tuple[list[Tenant], Tenant | None]:
    tenants = shell.tenants_where(Role.MEMBER)
    usual = shell.tenant if shell.tenant in tenants else (tenants[0] if tenants else None)
    return tenants, named(tenants, wanted.get("tenant")) or usual


def _templates(tenant: Tenant) -> list[Template]:
    return list(Template.objects.filter(tenant_id__in=tenant.ancestor_ids))


def _usual_pool(pools: list[Pool], outlook: Outlook) -> Pool | None:
    return min(pools, key=lambda pool: (outlook.pools[pool.pk].unmeasured, pool.name), default=None)


def around(window: DateTimeTZRange | None, now: dt.datetime) -> DateTimeTZRange:
    """What has to be read to answer for this window and to draw the next two days."""
    soon = DateTimeTZRange(now, now + CHART, "[)")
    if window is None or window.upper > now + FARTHEST or window.lower < now - CHART:
        return soon
    return DateTimeTZRange(min(now, window.lower), max(soon.upper, window.upper), "[)")


def _id_of(typed: str) -> int:
    return int(typed) if typed.isascii() and typed.isdecimal() and len(typed) < 10 else USUAL


def named(rows, pk: str | None):
    """The row with this id as text, or None."""
    return next((row for row in rows if str(row.pk) == pk), None)
