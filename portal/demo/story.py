"""What a visitor of the demo meets beside bookings: policies, who waits, who is asked, what repeats, what is planned.

Everything goes through the same services as everybody's, so it leaves the same notices and the same audit trail.
"""

import datetime as dt
import logging
import zoneinfo
from collections.abc import Callable

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.demo.bookings import book_wish, profile_of_weight
from portal.demo.names import DOMAIN
from portal.demo.organisation import SLICE_HOUR_SECONDS
from portal.demo.wishes import Wish
from portal.inventory.models import Node, Pool
from portal.quotas.models import Policy
from portal.quotas.policy_changes import set_policy
from portal.quotas.services import set_quota
from portal.reservations.calendar_feeds import make_feed
from portal.reservations.changing import release_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.maintenance import plan_maintenance
from portal.reservations.queueing import queue_request
from portal.reservations.series_asked import SeriesAsked
from portal.reservations.series_booking import book_series
from portal.reservations.series_dates import Clock, Rule
from portal.reservations.waitlist import join_waitlist
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft, draft_from_template
from portal.workloads.models import Template

log = logging.getLogger(__name__)

HOUR, DAY = dt.timedelta(hours=1), dt.timedelta(days=1)
ZONE = zoneinfo.ZoneInfo("Europe/Vienna")


def seed_policies() -> bool:
    """Who decides, for how long, how far ahead, of which sizes. False when there are policies already."""
    if Policy.objects.exists():
        return False
    admin = _person("ada")
    vision, nlp, teaching = (_tenant(name) for name in ("vision-lab", "nlp-team", "teaching"))
    set_policy(actor=admin, tenant=vision, longest_window_seconds=72 * 3600,
               approval_above_slice_seconds=100 * SLICE_HOUR_SECONDS)  # fmt: skip
    set_policy(actor=admin, tenant=nlp, longest_window_seconds=48 * 3600, most_weight_each=7)
    pool = _pool("A100 MIG")
    small = [profile_of_weight(pool, weight).name for weight in (1, 2)]
    set_policy(actor=admin, tenant=teaching, longest_window_seconds=6 * 3600, book_ahead_seconds=45 * 86400,
               pool_ids=[pool.pk], profiles=small)  # fmt: skip
    week = timezone.now().astimezone(ZONE).replace(hour=0, minute=0, second=0, microsecond=0) + 5 * DAY
    set_quota(actor=admin, tenant=_tenant("robotics"), pool=pool, guaranteed=0, limit=4,
              valid=DateTimeTZRange(week, week + 7 * DAY))  # fmt: skip
    return True


def seed_story() -> int:
    """Returns how many of its parts could be told; what is refused is logged and left out."""
    now = timezone.now().replace(microsecond=0)
    parts = (_waits, _waitlist, _offer, _weekly, _class, _maintenance, _feeds)
    return sum(_told(part, now) for part in parts)


def _told(part: Callable[[dt.datetime], object], now: dt.datetime) -> bool:
    try:
        part(now)
    except ReservationRefused as refusal:
        log.warning("%s: %s", part.__name__.strip("_"), refusal)
        return False
    return True


def _waits(now: dt.datetime) -> None:
    """More hours than the GPU is free before its next lease: the two stand in the queue."""
    for name, tenant, hours in (("noor", "nlp-team", 10), ("rosa", "segmentation", 8)):
        person, pool = _person(name), _pool("H100 whole")
        queue_request(
            created_by=person, owner=person, tenant=_tenant(tenant), pool=pool, profile=profile_of_weight(pool, 7),
            ranks=1, seconds=hours * 3600, workload=_workload("Training run", "nightly evaluation"))  # fmt: skip


def _waitlist(now: dt.datetime) -> None:
    """For a window that somebody else has."""
    _wait_for("jonas", "bio-imaging", "L40S", now + 7 * HOUR, 5, "cell tracking")


def _offer(now: dt.datetime) -> None:
    """A window is given back, and whoever waits for it has some minutes to take it."""
    taken = book_wish(Wish("ines", "bio-imaging", "L40S", 7, "Training run", 16, 6), now)
    if taken is not None:
        _wait_for("rosa", "segmentation", "L40S", now + 17 * HOUR, 4, "ablation")
        release_reservation(reservation=taken, actor=taken.owner)


def _wait_for(name: str, tenant: str, pool_name: str, start: dt.datetime, hours: int, title: str) -> None:
    person, pool = _person(name), _pool(pool_name)
    join_waitlist(
        created_by=person, owner=person, tenant=_tenant(tenant), pool=pool, profile=profile_of_weight(pool, 7),
        ranks=1, during=DateTimeTZRange(start, start + hours * HOUR),
        workload=_workload("Training run", title))  # fmt: skip


def _weekly(now: dt.datetime) -> None:
    mei = _person("mei")
    book_series(_series(mei, "robotics", "H100 MIG", "Calibration", now + 5 * DAY, (dt.time(9), dt.time(12))))


def _class(now: dt.datetime) -> None:
    olga, teaching = _person("olga"), _tenant("teaching")
    roster = tuple(User.objects.filter(memberships__tenant=teaching).exclude(pk=olga.pk).order_by("pk"))
    hours = (dt.time(14), dt.time(16))
    book_series(_series(olga, "teaching", "A100 MIG", "Deep learning lab", now + 6 * DAY, hours, roster))


def _series(
    by: User, tenant: str, pool_name: str, name: str, first: dt.datetime, hours: tuple[dt.time, dt.time],
    roster: tuple[User, ...] = (),
) -> SeriesAsked:  # fmt: skip
    pool = _pool(pool_name)
    return SeriesAsked(
        created_by=by, owner=by, tenant=_tenant(tenant), pool=pool, profile=profile_of_weight(pool, 1), ranks=1,
        name=name, draft=_workload("Idle notebook", name), rule=Rule("WEEKLY", count=4),
        first_date=first.astimezone(ZONE).date(), clock=Clock(ZONE, *hours), roster=roster)  # fmt: skip


def _maintenance(now: dt.datetime) -> None:
    start = (now + 34 * HOUR).replace(minute=0, second=0)
    plan_maintenance(
        actor=_person("ada"), node=Node.objects.get(name="quay-02"), pool=None,
        during=DateTimeTZRange(start, start + 3 * HOUR), reason="Driver update on quay-02")  # fmt: skip


def _feeds(now: dt.datetime) -> None:
    make_feed(owner=_person("rosa"))
    make_feed(owner=_person("lin"), tenant=_tenant("vision-lab"))
    make_feed(owner=_person("ada"), node=Node.objects.get(name="quay-01"))


def _workload(template: str, name: str) -> WorkloadDraft:
    return draft_from_template(Template.objects.get(name=template), name)


def _person(name: str) -> User:
    return User.objects.get(email=f"{name}@{DOMAIN}")


def _tenant(name: str) -> Tenant:
    return Tenant.objects.get(name=name)


def _pool(name: str) -> Pool:
    return Pool.objects.get(name=name)
