"""Reading series: whose a person may see and change, in words, and what became of their occurrences."""

import datetime as dt
from collections import Counter
from dataclasses import dataclass
from itertools import groupby

from django.db.models import Count, F, Func, Min, Q, QuerySet
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.quotas.words import WEEKDAYS, listed
from portal.reservations.models import UNDER_WAY, Reservation, Series
from portal.reservations.series_changing import BEFORE_RUNNING
from portal.reservations.series_dates import WEEKDAYS as CODES
from portal.reservations.series_dates import Rule, parse_rule
from portal.reservations.templatetags.berth_format import state_word
from portal.tenants.models import ROLE_RANK, Membership, Role, Tenant
from portal.tenants.selectors import may, tenants_of

RELATED = ("tenant", "owner", "pool", "profile")


@dataclass(frozen=True)
class Date:
    """One occurrence with what everybody has in it; ``mine`` is the reader's own, or the only one."""

    date: dt.date
    during: DateTimeTZRange
    reservations: list[Reservation]
    mine: Reservation | None
    can_skip: bool

    @property
    def states(self) -> list[tuple[str, int]]:
        return Counter(state_word(one) for one in self.reservations).most_common()


def series_of(user: User) -> QuerySet[Series]:
    """Every series of every tenant that ``user`` may see."""
    return Series.objects.filter(tenant__in=tenants_of(user)).select_related(*RELATED)


def mine_among(rows: QuerySet[Series], user: User) -> QuerySet[Series]:
    """The person's own, and those whose roster names them."""
    named = Series.roster.through.objects.filter(user_id=user.pk).values("series_id")
    return rows.filter(Q(owner=user) | Q(pk__in=named))


def with_counts(rows: QuerySet[Series]) -> QuerySet[Series]:
    """``ahead``: reservations that have not begun; ``next_at``: when the next does; ``people``: on the roster."""
    ahead = Q(reservations__state__in=BEFORE_RUNNING, reservations__during__startswith__gt=timezone.now())
    start = Func(F("reservations__during"), function="lower")
    return rows.annotate(
        ahead=Count("reservations", filter=ahead, distinct=True),
        next_at=Min(start, filter=ahead),
        people=Count("roster", distinct=True),
    )


def may_change_series(user: User, series: Series) -> bool:
    """The owner of a series of their own while still a member; a class is its leads' to change."""
    own = series.owner_id == user.pk and not series.roster.exists()
    return may(user, series.tenant, Role.MEMBER if own else Role.LEAD)


def dates_of_series(series: Series, user: User) -> list[Date]:
    """All occurrences, in order; two queries."""
    rows = series.reservations.select_related("owner").order_by("occurrence", "owner__name", "pk")
    return [_date(date, list(group), user) for date, group in groupby(rows, key=lambda one: one.occurrence) if date]


def _date(date: dt.date, rows: list[Reservation], user: User) -> Date:
    shown = [one for one in rows if one.state in UNDER_WAY] or rows
    own = next((one for one in shown if one.owner_id == user.pk), None)
    owners = {one.owner_id for one in rows}
    ahead = any(one.state in BEFORE_RUNNING and one.during.lower > timezone.now() for one in shown)
    return Date(date, shown[0].during, shown, own or (shown[0] if len(owners) == 1 else None), ahead)


def people_of(tenant: Tenant) -> list[User]:
    """Who may be on a roster that the tenant pays for: everybody who may reserve there."""
    roles = [role for role, rank in ROLE_RANK.items() if rank >= ROLE_RANK[Role.MEMBER]]
    held = Membership.objects.filter(tenant_id__in=tenant.ancestor_ids, role__in=roles)
    return list(User.objects.filter(pk__in=held.values("user_id"), is_active=True).order_by("name", "pk"))


def rule_words(series: Series) -> str:
    """Every 2 weeks on Mon, Wed, 10 times; the hours stand beside it."""
    rule = parse_rule(series.rule)
    parts = [_every(rule), _on(rule)]
    if rule.until is not None:
        parts.append(_("until %(date)s") % {"date": f"{rule.until:%Y-%m-%d}"})
    else:
        parts.append(ngettext("%(n)d time", "%(n)d times", rule.count or 0) % {"n": rule.count})
    return listed(filter(None, parts))


def _every(rule: Rule) -> str:
    number = {"n": rule.interval}
    if rule.frequency == "DAILY":
        return ngettext("every day", "every %(n)d days", rule.interval) % number
    if rule.frequency == "WEEKLY":
        return ngettext("every week", "every %(n)d weeks", rule.interval) % number
    return ngettext("every month", "every %(n)d months", rule.interval) % number


def _on(rule: Rule) -> str:
    names = dict(zip(CODES, WEEKDAYS, strict=True))
    days = []
    for day in rule.weekdays:
        name = _(names[day[-2:]])
        if len(day) == 2:
            days.append(name)
        elif day.startswith("-"):
            days.append(_("the last %(day)s") % {"day": name} if day[:-2] == "-1" else
                        _("%(day)s no. %(n)s from the end") % {"day": name, "n": day[1:-2]})  # fmt: skip
        else:
            days.append(_("%(day)s no. %(n)s") % {"day": name, "n": day[:-2]})
    return listed(days)
