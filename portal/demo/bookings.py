"""What the demo's teams hold now and next, booked through the same service as everybody's."""

import datetime as dt
import logging
from collections.abc import Sequence

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.demo.names import DOMAIN
from portal.demo.wishes import WISHES, Wish
from portal.inventory.models import Pool, Profile
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import OPEN, Reservation
from portal.tenants.models import Tenant
from portal.workloads.drafts import draft_from_template
from portal.workloads.models import Template

log = logging.getLogger(__name__)


def seed_bookings() -> int:
    """Returns how many were booked. Once: everything. At a later start, when nothing runs: what runs now, once more.

    A wish that is refused is told and left out.
    """
    now = timezone.now().replace(microsecond=0)
    ours = Reservation.objects.filter(state__in=OPEN)
    if not ours.exists():
        return _booked(WISHES, now)
    if ours.filter(during__contains=now).exists():
        return 0
    return _booked([wish for wish in WISHES if wish.after_hours == 0], now)


def _booked(wishes: Sequence[Wish], now: dt.datetime) -> int:
    return sum(book_wish(wish, now) is not None for wish in wishes)


def profile_of_weight(pool: Pool, weight: int) -> Profile:
    """The plain profile of this weight; raises Profile.DoesNotExist."""
    shapes = Profile.objects.filter(gpu_model=pool.gpu_model, mig=bool(pool.mig), weight=weight)
    return shapes.exclude(name__contains="+").order_by("size", "pk")[:1].get()


def book_wish(wish: Wish, now: dt.datetime) -> Reservation | None:
    """None when it is refused, which is logged."""
    pool = Pool.objects.get(name=wish.pool)
    start = now + dt.timedelta(hours=wish.after_hours)
    person = User.objects.get(email=f"{wish.person}@{DOMAIN}")
    try:
        return book_reservation(
            created_by=person,
            owner=person,
            tenant=Tenant.objects.get(name=wish.tenant),
            pool=pool,
            profile=profile_of_weight(pool, wish.weight),
            ranks=wish.ranks,
            during=DateTimeTZRange(start, start + dt.timedelta(hours=wish.hours)),
            workload=draft_from_template(Template.objects.get(name=wish.workload)),
        )
    except ReservationRefused as refusal:
        log.warning("%s at %s: %s", wish.person, start, refusal)
        return None
