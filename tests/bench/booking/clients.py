"""What one client does, again and again, and how long each answer took."""

import datetime as dt
import random
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

from django.db import DatabaseError, connections
from django.utils import timezone
from psycopg2 import errorcodes
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.reservations.errors import NoCapacity, ReservationRefused
from portal.workloads.drafts import WorkloadDraft
from tests.bench.booking.peers import Book, way_of
from tests.bench.booking.worker import Attempt, Job, wait_for_all
from tests.bench.booking.world import profiles

LAST, SPREAD = "last", "spread"
TRIES = 10
HOUR = dt.timedelta(hours=1)
DRAFT = WorkloadDraft("bench", "", ("true",))
SHAPES = ("1g.10gb", "1g.10gb", "2g.20gb", "3g.40gb")
HOURS_WIDE = 480


def run(job: Job) -> list[Attempt]:
    """What is measured is a service that runs: each client's thread keeps its connection, as the web's do, and has
    booked once before, in an hour that nobody wants."""
    book = way_of(job.way)
    with ThreadPoolExecutor(len(job.clients)) as pool:
        return [each for attempts in pool.map(lambda number: _client(job, number, book), job.clients)
                for each in attempts]  # fmt: skip


def _client(job: Job, number: int, book: Book) -> list[Attempt]:
    asks = list(requests_of(job, number))
    book(_wanted_by_nobody(job, number))
    wait_for_all()
    try:
        return [_attempt(book, asked, again=job.scene == SPREAD) for asked in asks]
    finally:
        connections.close_all()


def _wanted_by_nobody(job: Job, number: int) -> dict:
    asked = next(requests_of(job, number))
    start = timezone.now().replace(minute=0, second=0, microsecond=0) + (HOURS_WIDE + 100 + number) * HOUR
    return asked | {"during": DateTimeTZRange(start, start + HOUR)}


def requests_of(job: Job, number: int) -> Iterator[dict]:
    """Of the last slice: hour after hour, the same for all. Spread: hours, shapes at random within twenty days."""
    chance = random.Random(f"{job.seed} {number}")
    user, tenant = job.world.asker(number)
    pool = Pool.objects.get(pk=job.world.last_pool if job.scene == LAST else job.world.wide_pool)
    shapes = profiles(pool)
    midnight = timezone.now().replace(hour=0, minute=0, second=0, microsecond=0)
    for turn in range(job.each):
        hour = job.first_hour + (turn if job.scene == LAST else chance.randrange(HOURS_WIDE))
        start = midnight + dt.timedelta(days=1) + hour * HOUR
        length = 1 if job.scene == LAST else chance.randint(1, 12)
        name = "7g.80gb" if job.scene == LAST else chance.choice(SHAPES)
        yield {
            "created_by": user, "owner": user, "tenant": tenant, "pool": pool, "profile": shapes[name], "ranks": 1,
            "during": DateTimeTZRange(start, start + length * HOUR), "workload": DRAFT,
        }  # fmt: skip


def _attempt(book: Book, asked: dict, again: bool) -> Attempt:
    """Until it is booked where there is room for all: who is told that somebody was first asks again."""
    began = time.monotonic()
    for _ in range(TRIES if again else 1):
        outcome = _outcome(book, asked)
        if outcome != NoCapacity.code:
            break
    return Attempt(began, time.monotonic(), outcome)


def _outcome(book: Book, asked: dict) -> str:
    try:
        book(asked)
    except ReservationRefused as refusal:
        return refusal.code
    except DatabaseError as error:
        code = getattr(error.__cause__, "pgcode", None)
        return "deadlock" if code == errorcodes.DEADLOCK_DETECTED else f"{type(error).__name__}: {error}"
    return "booked"
