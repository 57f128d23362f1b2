"""What the shell of every page shows: the reader's tenants, the one they work in, and where they may go."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, cast

from django.db.models import QuerySet
from django.http import HttpRequest
from django.urls import reverse
from django.utils import timezone
from django.utils.functional import SimpleLazyObject, cached_property
from django.utils.safestring import SafeString
from django.utils.translation import gettext_lazy as _

from portal.accounts.requests import SignedInRequest
from portal.notices.selectors import UNREAD_MOST, unread_count
from portal.reservations.models import Reservation
from portal.tenants.models import ROLE_RANK, Role, Tenant
from portal.tenants.selectors import tenants_below

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

SESSION_KEY = "tenant"
# Asked on every page, so in words of its own: to put it together costs more than to run it. Open questions are counted
# where the reader holds a role.
SEEN = """
SELECT seen.*, own.role AS held,
       (SELECT count(*) FROM notices_notice WHERE user_id = %(reader)s AND read_at IS NULL) AS unread,
       CASE WHEN own.role IS NOT NULL THEN (
           SELECT count(*) FROM reservations_approval asked JOIN tenants_tenant below ON below.id = asked.tenant_id
           WHERE asked.decision = '' AND starts_with(below.path, seen.path)
       ) END AS asked
FROM tenants_tenant seen LEFT JOIN tenants_membership own ON own.tenant_id = seen.id AND own.user_id = %(reader)s
WHERE EXISTS (
    SELECT FROM tenants_membership held JOIN tenants_tenant above ON above.id = held.tenant_id
    WHERE held.user_id = %(reader)s AND starts_with(seen.path, above.path)
)
ORDER BY seen.path
"""
THEMES = ("light", "dark")


class PageRequest(SignedInRequest):
    """What views get whose page has a shell."""

    berth_shell: "Shell"


@dataclass(frozen=True)
class Place:
    """One entry of the navigation. ``group`` heads it, ``quick`` puts it into the bar of a phone."""

    name: str
    label: "StrOrPromise"
    icon: str
    group: "StrOrPromise" = ""
    quick: bool = False
    admins_only: bool = False
    leads_only: bool = False


TEAM, ADMIN = _("Team"), _("Admin")
PLACES = (
    Place("home", _("Home"), "home", quick=True),
    Place("reserve", _("Reserve"), "plus", quick=True),
    Place("timeline", _("Timeline"), "time", quick=True),
    Place("queue", _("Queue"), "updn"),
    Place("fleet", _("Fleet"), "fleet"),
    Place("maintenance", _("Maintenance"), "clock"),
    Place("usage", _("Usage"), "usage", group=TEAM, quick=True),
    Place("inbox", _("Inbox"), "inbox", group=TEAM, quick=True),
    Place("approvals", _("Approvals"), "check", group=TEAM, leads_only=True),
    Place("tenants", _("Tenants and quotas"), "tree", group=ADMIN),
    Place("audit", _("Audit log"), "clock", group=ADMIN, leads_only=True),
    Place("nodes", _("Pools and nodes"), "term", group=ADMIN, admins_only=True),
)


@dataclass(frozen=True)
class Held:
    """A role that the reader holds in a tenant itself, with how many questions are open there and below."""

    tenant: Tenant
    role: Role
    asked: int


class Shell:
    """Read at most once a request, and only by what is rendered: one query, whatever the size of the tree."""

    def __init__(self, request: HttpRequest):
        self.request = cast(PageRequest, request)
        self.parts: dict[str, SafeString] = {}  # of the page, that were put together already

    @cached_property
    def _rows(self) -> tuple[Tenant, ...]:
        """What the reader sees, each tenant with what they hold in it, and with how many notices they have not read."""
        user = self.request.user
        if not user.is_authenticated:
            return ()
        return tuple(Tenant.objects.raw(SEEN, {"reader": user.pk}))

    @cached_property
    def tenants(self) -> tuple[Tenant, ...]:
        """All tenants that the reader may see, parents before children."""
        return self._rows

    @cached_property
    def held(self) -> list[Held]:
        """Parents before children."""
        rows: list[Any] = [row for row in self._rows if row.held]  # type: ignore[attr-defined]
        return [Held(row, Role(row.held), row.asked or 0) for row in rows]

    @property
    def reservations(self) -> QuerySet[Reservation]:
        """As ``reservations_of`` the reader, by the memberships that the shell knows already."""
        below = tenants_below(held.tenant.path for held in self.held)
        return Reservation.objects.filter(tenant__in=below)

    @cached_property
    def tenant(self) -> Tenant | None:
        """The tenant chosen in this session, or else the first that the reader is a member of."""
        chosen = self.request.session.get(SESSION_KEY)
        found = next((tenant for tenant in self.tenants if tenant.pk == chosen), None)
        if found or not self.held:
            return found
        own = [held.tenant for held in self.held if held.role != Role.VIEWER and not held.tenant.closed_at]
        return own[0] if own else self.held[0].tenant

    @cached_property
    def tenant_path(self) -> str:
        """The names from the highest tenant that the reader may see down to the current one."""
        if self.tenant is None:
            return ""
        names = {tenant.pk: tenant.name for tenant in self.tenants}
        return " / ".join(names[pk] for pk in self.tenant.ancestor_ids if pk in names)

    def role_in(self, tenant: Tenant) -> Role | None:
        """The reader's strongest role there, own or inherited, without a further query."""
        held = [one.role for one in self.held if tenant.path.startswith(one.tenant.path)]
        return max(held, key=ROLE_RANK.__getitem__, default=None)

    def may(self, tenant: Tenant, at_least: Role) -> bool:
        role = self.role_in(tenant)
        return role is not None and ROLE_RANK[role] >= ROLE_RANK[at_least]

    def tenants_where(self, at_least: Role) -> list[Tenant]:
        return [tenant for tenant in self.tenants if not tenant.closed_at and self.may(tenant, at_least)]

    @property
    def role(self) -> Role | None:
        return self.role_in(self.tenant) if self.tenant else None

    @cached_property
    def is_platform_admin(self) -> bool:
        return any(held.tenant.parent_id is None and held.role == Role.ADMIN for held in self.held)

    @cached_property
    def leads_some(self) -> bool:
        return any(ROLE_RANK[held.role] >= ROLE_RANK[Role.LEAD] for held in self.held)

    @cached_property
    def unread(self) -> int:
        """Notices that the reader has not read, 100 at most; read along with the tenants where there are any."""
        user = self.request.user
        if self._rows:
            return min(UNREAD_MOST, self._rows[0].unread or 0)  # type: ignore[attr-defined]
        return unread_count(user.pk) if user.is_authenticated else 0

    @cached_property
    def asked(self) -> int:
        """Open questions that the reader may answer; a tenant below another that they lead is in its number."""
        count, top = 0, ""
        for held in self.held:  # parents before children
            leads = ROLE_RANK[held.role] >= ROLE_RANK[Role.LEAD]
            if leads and not (top and held.tenant.path.startswith(top)):
                count, top = count + held.asked, held.tenant.path
        return count

    @property
    def unread_shown(self) -> str:
        return f"{UNREAD_MOST - 1}+" if self.unread >= UNREAD_MOST else str(self.unread)

    @cached_property
    def may_reserve(self) -> bool:
        return any(ROLE_RANK[held.role] >= ROLE_RANK[Role.MEMBER] for held in self.held)

    @cached_property
    def places(self) -> list[dict]:
        """The navigation: what the reader may not open is absent."""
        shown: list[dict] = []
        group: StrOrPromise = ""
        here = self._here
        for place in PLACES:
            address = self._address(place)
            if address is None:
                continue
            heading = place.group if place.group != group else ""
            group = place.group
            current = address == here or (address != "/" and here.startswith(address))
            shown.append({"place": place, "address": address, "heading": heading, "current": current})
        return shown

    @property
    def _here(self) -> str:
        path = self.request.path
        return "/" if path.startswith((reverse("reservation_list"), reverse("series"))) else path

    def _address(self, place: Place) -> str | None:
        if place.admins_only and not self.is_platform_admin:
            return None
        if place.leads_only and not self.leads_some:
            return None
        if place.name == "reserve" and not self.may_reserve:
            return None
        return reverse(place.name)

    @property
    def zone(self) -> str:
        return timezone.get_current_timezone_name()

    @property
    def zone_city(self) -> str:
        """The last part of the zone's name, as people say it: Asia/Taipei is Taipei."""
        return timezone.get_current_timezone_name().rsplit("/", 1)[-1].replace("_", " ")


def shell_of(request: HttpRequest) -> Shell:
    """The request's shell; pages and templates share one, so that it is read once."""
    page = cast(PageRequest, request)
    if not hasattr(page, "berth_shell"):
        page.berth_shell = Shell(request)
    return page.berth_shell


def shell(request: HttpRequest) -> dict:
    theme = request.COOKIES.get("berth_theme", "")
    return {
        "shell": SimpleLazyObject(lambda: shell_of(request)),
        "theme": theme if theme in THEMES else "auto",
        "now": timezone.now(),
    }
