"""What requests about series may say, and how they become what the services take."""

from django.http import Http404
from django.shortcuts import get_object_or_404
from django.utils.translation import gettext as _
from rest_framework import serializers

from portal.accounts.middleware import zone_of
from portal.accounts.models import User
from portal.accounts.requests import SignedInApiRequest
from portal.accounts.zones import zone_names
from portal.api.asking import StrictSerializer, WorkloadAsked
from portal.api.booking import draft_of, profile_named
from portal.api.fields import CountField, IdField
from portal.inventory.models import Pool
from portal.reservations.series_asked import MOST_PEOPLE, SeriesAsked
from portal.reservations.series_dates import MOST_DAYS, MOST_OCCURRENCES, Clock, parse_rule
from portal.reservations.series_listing import people_of
from portal.tenants.models import Role, Tenant
from portal.tenants.selectors import may, tenants_of

TIMES = ["%H:%M", "%H:%M:%S"]
MOST_COUNT = 2**31 - 1


class DatesField(serializers.ListField):
    def __init__(self, **options):
        super().__init__(child=serializers.DateField(), max_length=MOST_OCCURRENCES, required=False, **options)


class SeriesRequest(StrictSerializer):
    """Dates and hours are local to ``time_zone``: nine stays nine when the clocks change."""

    tenant = IdField()
    pool = IdField()
    profile = serializers.CharField(max_length=64)
    ranks = CountField(min_value=-MOST_COUNT, max_value=MOST_COUNT, required=False, default=1)
    name = serializers.CharField(max_length=64)
    template = IdField(required=False)
    workload = WorkloadAsked(required=False)
    rule = serializers.CharField(
        max_length=255, help_text="RRULE with FREQ DAILY, WEEKLY or MONTHLY, INTERVAL, BYDAY, and COUNT or UNTIL"
    )
    time_zone = serializers.CharField(max_length=64, help_text="as in Europe/Berlin")
    first_date = serializers.DateField()
    opens = serializers.TimeField(input_formats=TIMES)
    closes = serializers.TimeField(input_formats=TIMES)
    days = serializers.IntegerField(
        min_value=0, max_value=MOST_DAYS, required=False, default=0, help_text="so many days later it closes"
    )
    exceptions = DatesField(default=list)
    skip = DatesField(default=list, help_text="occurrences that are left out: what the dry run said does not fit")
    roster = serializers.ListField(
        child=IdField(), max_length=MOST_PEOPLE, required=False, default=list,
        help_text="a class, for leads: each of these people gets one in every occurrence")  # fmt: skip
    dry_run = serializers.BooleanField(required=False, default=False, help_text="say what fits, book nothing")

    def validate_time_zone(self, name: str) -> str:
        if name not in zone_names():
            raise serializers.ValidationError(_("There is no time zone of that name."))
        return name

    def validate(self, asked: dict) -> dict:
        if ("workload" in asked) == ("template" in asked):
            raise serializers.ValidationError(_("Give either a workload or a template."))
        return asked


class SkipRequest(StrictSerializer):
    date = serializers.DateField()


class HoursRequest(StrictSerializer):
    """Times of day in the series' own zone."""

    from_date = serializers.DateField(help_text="this occurrence and those after it")
    opens = serializers.TimeField(input_formats=TIMES)
    closes = serializers.TimeField(input_formats=TIMES)
    days = serializers.IntegerField(min_value=0, max_value=MOST_DAYS, default=0, help_text="it ends so many days later")


class RosterRequest(StrictSerializer):
    email = serializers.EmailField(help_text="of a member of the series' tenant")


class RestRequest(serializers.Serializer):
    from_date = serializers.DateField(required=False, help_text="this occurrence and those after it; else all")


class SeriesListRequest(serializers.Serializer):
    tenant = IdField(required=False, help_text="This tenant and everything below it.")
    mine = serializers.BooleanField(required=False, default=False)
    limit = serializers.IntegerField(min_value=1, max_value=200, required=False)
    cursor = serializers.CharField(max_length=500, required=False)


def asked_by(request: SignedInApiRequest, said: dict) -> SeriesAsked:
    """Ids become rows through the scoped selectors; raises ReservationRefused for a rule that is not understood."""
    user = request.user
    tenant = get_object_or_404(tenants_of(user), pk=said["tenant"])
    pool = get_object_or_404(Pool, pk=said["pool"])
    clock = Clock(zone_of(said["time_zone"]), said["opens"], said["closes"], said["days"])
    return SeriesAsked(
        created_by=user, owner=user, tenant=tenant, pool=pool, profile=profile_named(pool, said["profile"]),
        ranks=said["ranks"], name=said["name"], draft=draft_of(tenant, said), rule=parse_rule(said["rule"]),
        first_date=said["first_date"], clock=clock, exceptions=frozenset(said["exceptions"]),
        roster=_roster(user, tenant, said["roster"]))  # fmt: skip


def _roster(user: User, tenant: Tenant, ids: list[int]) -> tuple[User, ...]:
    """Members for whom a lead asks; anybody else does not exist here."""
    if not ids:
        return ()
    known = {person.pk: person for person in people_of(tenant)} if may(user, tenant, Role.LEAD) else {}
    if not set(ids) <= known.keys():
        raise Http404
    return tuple(known[pk] for pk in dict.fromkeys(ids))
