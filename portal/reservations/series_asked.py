"""What is asked for as a series: the dates, who gets a place in each, and the request that every occurrence makes."""

import datetime as dt
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from psycopg2.extras import DateTimeTZRange

from portal.accounts.middleware import zone_of
from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.quotas.models import Quota
from portal.quotas.policies import EffectivePolicy, policy_of
from portal.quotas.selectors import quotas_binding
from portal.reservations.errors import CountRefused, NoAccess, ReservationRefused, WindowRefused, WorkloadRefused
from portal.reservations.models import Series
from portal.reservations.policy_rules import HeldByPerson, check_policy, weight_held_by
from portal.reservations.request import Request, price_of
from portal.reservations.rules import check_member, check_shape, no_access
from portal.reservations.series_dates import Clock, Occurrence, Rule, occurrences_of
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may
from portal.workloads.drafts import DraftRefused, WorkloadDraft, check_draft, check_name

# For a person, what they hold at most within the window in a tenant's subtree.
HeldBy = Callable[[User], HeldByPerson]

MOST_PEOPLE = 100
MOST_RESERVATIONS = 1000


class SeriesRefused(ReservationRefused):
    """Some occurrences cannot be booked, so none is. The evidence has the reason of each by its date."""

    code = "series_refused"


@dataclass(frozen=True)
class SeriesAsked:
    """With a ``roster`` each of its people gets a reservation of their own in every occurrence, else ``owner`` does."""

    created_by: User
    owner: User
    tenant: Tenant
    pool: Pool
    profile: Profile
    ranks: int
    name: str
    draft: WorkloadDraft
    rule: Rule
    first_date: dt.date
    clock: Clock
    exceptions: frozenset[dt.date] = frozenset()
    roster: tuple[User, ...] = ()

    @property
    def people(self) -> tuple[User, ...]:
        return tuple(sorted(self.roster, key=lambda person: person.pk)) or (self.owner,)

    def occurrences(self) -> list[Occurrence]:
        """Without the exceptions; raises :class:`RuleRefused` or :class:`WindowRefused` for what fits no date."""
        return occurrences_of(self.rule, self.first_date, self.clock, self.exceptions)

    def request_in(self, during: DateTimeTZRange) -> Request:
        """What all people of one occurrence ask for together."""
        return Request(
            created_by=self.created_by, owner=self.people[0], tenant=self.tenant, pool=self.pool, profile=self.profile,
            ranks=self.ranks, during=during, workload=self.draft, people=len(self.people))  # fmt: skip

    def price_of(self, windows: Iterable[DateTimeTZRange]) -> int:
        """Weighted slice-seconds of all people in all these windows."""
        return sum(price_of(self.request_in(during), during) for during in windows)


def check_asked(
    asked: SeriesAsked, quotas: Sequence[Quota] | None = None, *, known_people: bool = False
) -> None:
    """What holds for the whole series: who asks for whom, where, what size, the names, the workload.

    ``quotas`` are those that bind the tenant in the pool, where they were read already; ``known_people``: who asks for
    whom was looked at already.
    """
    if not known_people:
        others = bool(asked.roster) or asked.owner.pk != asked.created_by.pk
        if others and not may(asked.created_by, asked.tenant, Role.LEAD):
            raise NoAccess(_("Only a lead of %(tenant)s books for others.") % {"tenant": asked.tenant}, field="roster")
        check_people(asked.people, asked.tenant)
    if not (quotas_binding(asked.tenant, asked.pool) if quotas is None else quotas):
        raise no_access(asked.tenant, asked.pool)
    check_shape(asked.pool, asked.profile, asked.ranks)
    try:
        check_draft(asked.draft)
        check_name(asked.name)
    except DraftRefused as error:
        raise WorkloadRefused(str(error), field="workload") from error


def check_people(people: Sequence[User], tenant: Tenant) -> None:
    if len(people) > MOST_PEOPLE:
        raise CountRefused(_("A class has at most %(most)d people.") % {"most": MOST_PEOPLE}, {"most": MOST_PEOPLE},
                           field="roster")  # fmt: skip
    for person in people:
        check_member(person, tenant)


def planned(asked: SeriesAsked, skip: Collection[dt.date], now: dt.datetime) -> list[Occurrence]:
    """The occurrences that are to be booked: none is left out that ``skip`` does not name.

    Raises for hours that are a question, for what lies beyond the book-ahead limit, and for too many reservations.
    """
    found = [one for one in asked.occurrences() if one.date not in skip]
    if not found:
        raise WindowRefused(_("Every occurrence is skipped: nothing is left to book."), field="skip")
    if len(found) * len(asked.people) > MOST_RESERVATIONS:
        numbers = {"most": MOST_RESERVATIONS, "asked": len(found) * len(asked.people)}
        sentence = _("This is %(asked)d reservations; a series has at most %(most)d.")
        raise CountRefused(sentence % numbers, numbers, field="roster")
    questions = {one.date: one.question for one in found if one.question is not None}
    if questions:
        raise refused_for(questions, len(found), status=422)
    _check_reach(asked, found, bookable_until(asked, now))
    return found


def bookable_until(asked: SeriesAsked, now: dt.datetime, policy: EffectivePolicy | None = None) -> dt.datetime:
    """The latest start that the pool and the tenant's policy take now."""
    limits = (asked.pool.book_ahead_seconds, (policy or policy_of(asked.tenant)).book_ahead_seconds)
    return now + dt.timedelta(seconds=min(limit for limit in limits if limit is not None))


def _check_reach(asked: SeriesAsked, found: Sequence[Occurrence], until: dt.datetime) -> None:
    late = [one for one in found if one.during is not None and one.during.lower > until]
    if not late:
        return
    last = until.astimezone(asked.clock.zone).date()
    numbers: dict[str, int | str] = {
        "late": len(late),
        "all": len(found),
        "last": f"{last:%Y-%m-%d}",
        "pool": str(asked.pool),
    }
    sentence = _(
        "%(pool)s can be booked until %(last)s now, and %(late)d of %(all)d occurrences begin later. Let the series "
        "end by then."
    )
    raise WindowRefused(sentence % numbers, numbers, field="until")


def refused_for(reasons: Mapping[dt.date, ReservationRefused], of: int, status: int = 409) -> SeriesRefused:
    """One refusal for all occurrences that cannot be booked, led by the first reason."""
    first = min(reasons)
    shown = {"n": len(reasons), "all": of, "date": f"{first:%Y-%m-%d}", "reason": str(reasons[first])}
    sentence = ngettext(
        "%(n)d of %(all)d occurrences cannot be booked, %(date)s: %(reason)s",
        "%(n)d of %(all)d occurrences cannot be booked, the first is %(date)s: %(reason)s",
        len(reasons),
    )
    refusal = SeriesRefused(
        sentence % shown, {f"{date:%Y-%m-%d}": str(why) for date, why in sorted(reasons.items())}, field="skip"
    )
    refusal.status = status
    return refusal


def check_shares(
    request: Request, people: Iterable[User], policy: EffectivePolicy, now: dt.datetime, held: HeldBy
) -> None:
    """What the policy says about one person, for each of these; the rest of it was asked once for all."""
    if not policy.weight_rules:
        return
    for person in people:
        check_policy(
            policy, pool=request.pool, profile=request.profile, weight=request.weight_of_owner, during=request.during,
            now=now, held_by_person=held(person), has_started=request.has_started)  # fmt: skip


def held_in(during: DateTimeTZRange) -> HeldBy:
    """As the tables say, under the lock of each person that is asked about."""

    def held(person: User) -> HeldByPerson:
        return lambda tenant: weight_held_by(person, tenant, during)

    return held


def clock_of(series: Series) -> Clock:
    return Clock(zone_of(series.time_zone), series.opens, series.closes, series.days)
