"""Who looks at the year, and the ids that the addresses of the permission table stand for."""

import datetime as dt
import re
from dataclasses import dataclass

from django.apps import apps
from django.utils import timezone

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.reservations.models import LeaseLog, Reservation, Series, State
from portal.tenants.models import Membership, Role, Tenant
from tests.db.permission_table import TABLE, Row

PLACEHOLDER = re.compile(r"{(\w+)}")


class NothingToShow(LookupError):
    """No row of the year fits the placeholder of an address."""


@dataclass(frozen=True)
class Onlookers:
    """An admin of everything, a lead of a team and a member of a project below it, the busiest there is."""

    platform_admin: User
    lead: User
    member: User
    tenant: Tenant

    def may(self, row: Row) -> dict[str, User]:
        """Those of the three whom the table allows this address."""
        return {role: getattr(self, role) for role in ("platform_admin", "lead", "member") if role in row.may}


def onlookers() -> Onlookers:
    admin = User.objects.filter(memberships__tenant__parent=None, memberships__role=Role.ADMIN).order_by("pk")[0]
    members = Membership.objects.filter(role=Role.MEMBER, user__is_active=True, tenant__parent__parent__parent=None)
    counted = {each: each.user.reservations.count() for each in members.select_related("user", "tenant__parent")}
    busiest = max((each for each in counted if each.tenant.depth == 2), key=lambda each: (counted[each], each.pk))
    lead = User.objects.filter(memberships__tenant=busiest.tenant, memberships__role=Role.LEAD).order_by("pk")[0]
    return Onlookers(admin, lead, busiest.user, busiest.tenant)


def pages() -> list[tuple[str, Row]]:
    """Every address that is read, by its name: from the table that a test holds complete."""
    return [(name, row) for name, rows in TABLE.items() for row in rows if row.verb == "GET" and row.ok == 200]


def ids_for(people: Onlookers) -> dict[str, int | str]:
    """What the three may all see: something of the member's own where there is a choice."""
    now = timezone.now()
    own = Reservation.objects.filter(owner=people.member, tenant=people.tenant).order_by("-pk")
    ended = own.filter(state=State.ENDED)[0]
    LeaseLog.objects.get_or_create(lease=ended.leases.all()[0], defaults={"tail": "epoch 1\n" * 2000})
    running = _of_any(own, State.RUNNING, State.CONFIRMED) or ended
    pool = Pool.objects.get(name="H100 MIG")
    series = Series.objects.filter(owner=people.member, tenant=people.tenant).latest("pk")
    window = (f"{now + dt.timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (30, 32))
    return {
        "tenant": people.tenant.pk, "pool": pool.pk, "node": pool.nodes.all()[0].pk, "user": people.member.pk,
        "profile": Profile.objects.filter(gpu_model=pool.gpu_model, name="1g.10gb")[0].pk,
        "reservation": running.pk, "ended": ended.pk,
        "series": series.pk, "occurrence": str(series.first_date),
        **dict(zip(("start", "end"), window, strict=True)),
    }  # fmt: skip


def _of_any(rows, *states: State) -> Reservation | None:
    return next((found for state in states if (found := rows.filter(state=state).first())), None)


def filled(url: str, ids: dict[str, int | str]) -> str:
    """The address with its placeholders filled; a new one is looked up as the newest row of the model of its name."""
    for name in PLACEHOLDER.findall(url):
        if name not in ids:
            ids[name] = _newest_of(name)
    return url.format(**ids)


def _newest_of(name: str) -> int | str:
    ours = {model._meta.model_name: model for model in apps.get_models() if model.__module__.startswith("portal.")}
    model = ours.get(name.replace("_", ""))
    row = model._default_manager.order_by("-pk").first() if model else None
    if row is not None:
        return row.pk
    raise NothingToShow(f"The year has nothing for {{{name}}}: add it to seed_year or to tests/bench/web/people.py.")
