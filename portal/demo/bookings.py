"""What the demo's teams hold now and next, booked through the same service as everybody's."""

import datetime as dt
import logging
from dataclasses import dataclass

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.demo.names import DOMAIN
from portal.inventory.models import Pool, Profile
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import OPEN, Reservation
from portal.tenants.models import Tenant
from portal.workloads.drafts import draft_from_template
from portal.workloads.models import Template

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Wish:
    """``weight`` picks the profile, whose name differs between models; ``after_hours`` 0 starts now."""

    person: str
    tenant: str
    pool: str
    weight: int
    workload: str
    after_hours: float
    hours: float
    ranks: int = 1


WISHES = (
    Wish("rosa", "segmentation", "H100 MIG", 2, "Training run", 0, 6),
    Wish("emil", "nlp-team", "H100 MIG", 3, "Load in waves", 0, 8),
    Wish("jonas", "bio-imaging", "A100 MIG", 2, "Idle notebook", 0, 7),
    Wish("petra", "teaching", "A100 MIG", 1, "Memory ladder", 0, 5),
    Wish("tomas", "segmentation", "H100 MIG", 1, "Training run", 3, 4),
    Wish("mei", "robotics", "H100 MIG", 2, "Training run", 4, 10),
    Wish("noor", "nlp-team", "H100 MIG", 4, "Training run", 9, 12),
    Wish("lin", "vision-lab", "H100 MIG", 3, "Load in waves", 20, 6),
    Wish("rosa", "segmentation", "H100 whole", 7, "Training run", 5, 9),
    Wish("emil", "nlp-team", "H100 whole", 7, "Training run", 26, 20),
    Wish("mei", "robotics", "L40S", 7, "Load in waves", 6, 8),
    Wish("ines", "bio-imaging", "L40S", 7, "Training run", 30, 12),
    Wish("ines", "bio-imaging", "A100 MIG", 3, "Training run", 2.5, 10),
    Wish("petra", "teaching", "A100 MIG", 1, "Idle notebook", 24, 3, 2),
    Wish("lin", "vision-lab", "A100 MIG", 4, "Training run", 16, 9),
    Wish("noor", "nlp-team", "A100 MIG", 3, "Load in waves", 28, 14),
    Wish("tomas", "segmentation", "H100 MIG", 7, "Training run", 44, 18),
    Wish("jonas", "bio-imaging", "A100 MIG", 2, "Training run", 50, 12),
    Wish("emil", "nlp-team", "H100 MIG", 2, "Training run", 72, 24, 2),
)


def seed_bookings() -> int:
    """Returns how many were booked. Once: everything. At a later start, when nothing runs: what runs now, once more.

    A wish that is refused is told and left out.
    """
    now = timezone.now().replace(microsecond=0)
    ours = Reservation.objects.filter(state__in=OPEN)
    if not ours.exists():
        return sum(_book(wish, now) for wish in WISHES)
    if ours.filter(during__contains=now).exists():
        return 0
    return sum(_book(wish, now) for wish in WISHES if wish.after_hours == 0)


def _book(wish: Wish, now: dt.datetime) -> bool:
    pool = Pool.objects.get(name=wish.pool)
    shapes = Profile.objects.filter(gpu_model=pool.gpu_model, mig=bool(pool.mig), weight=wish.weight)
    profile = shapes.exclude(name__contains="+").order_by("size", "pk").first()
    if profile is None:
        log.warning("%s has no profile of weight %d", pool, wish.weight)
        return False
    start = now + dt.timedelta(hours=wish.after_hours)
    person = User.objects.get(email=f"{wish.person}@{DOMAIN}")
    try:
        book_reservation(
            created_by=person,
            owner=person,
            tenant=Tenant.objects.get(name=wish.tenant),
            pool=pool,
            profile=profile,
            ranks=wish.ranks,
            during=DateTimeTZRange(start, start + dt.timedelta(hours=wish.hours)),
            workload=draft_from_template(Template.objects.get(name=wish.workload)),
        )
    except ReservationRefused as refusal:
        log.warning("%s at %s: %s", wish.person, start, refusal)
        return False
    return True
