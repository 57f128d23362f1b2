"""Open hours as they are asked for, before they are rows."""

from collections.abc import Sequence
from typing import NamedTuple

from django.utils.translation import gettext as _

from portal.quotas.errors import Duplicate, NotHeld, QuotaRefused
from portal.quotas.models import ALL_WEEKDAYS, OpenHours, Quota
from portal.quotas.words import one_schedule

MOST_SCHEDULES = 20
DAY_MINUTES = 1440


class Hours(NamedTuple):
    """A schedule: a mask of weekdays, Monday 1 to Sunday 64, and minutes after midnight."""

    weekdays: int
    opens: int
    closes: int


def check_hours(hours: Sequence[Hours]) -> None:
    """Refuse schedules that make no sense, that are too many, or that are named twice."""
    if len(hours) > MOST_SCHEDULES:
        numbers: dict[str, int | str] = {"most": MOST_SCHEDULES}
        raise QuotaRefused(_("At most %(most)d schedules.") % numbers, numbers, "hours")
    for position, one in enumerate(hours):
        if not 1 <= one.weekdays <= ALL_WEEKDAYS:
            raise QuotaRefused(_("Choose at least one day of the week."), field="hours")
        if not 0 <= one.opens < one.closes <= DAY_MINUTES:
            raise QuotaRefused(
                _("The closing time must be after the opening time, on the same day, at most 24:00."), field="hours"
            )
        if one in hours[:position]:
            raise Duplicate(_("%(hours)s is there already.") % {"hours": _said(one)}, field="hours")


def replace_hours(quota: Quota, hours: Sequence[Hours]) -> None:
    """Call inside the transaction of the change, under the pool's lock."""
    check_hours(hours)
    OpenHours.objects.filter(quota=quota).delete()
    OpenHours.objects.bulk_create(OpenHours(quota=quota, **one._asdict()) for one in hours)


def without(held: Sequence[Hours], gone: Hours) -> list[Hours]:
    """The schedules less one of them; one that is not held is refused."""
    if gone not in held:
        raise NotHeld(_("There is no schedule %(hours)s.") % {"hours": _said(gone)}, field="hours")
    return [one for one in held if one != gone]


def hours_held(quota: Quota) -> list[Hours]:
    return [Hours(one.weekdays, one.opens, one.closes) for one in quota.open_hours]


def _said(one: Hours) -> str:
    return one_schedule(OpenHours(**one._asdict()))
