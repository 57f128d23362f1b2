"""Bookings of groups that crash at a question to the database, any of them: all ranks are there then, or none."""

import random

from django.db import connection
from django.utils import timezone

from portal.inventory.models import Pool
from portal.reservations.booking import book_reservation
from portal.reservations.errors import ReservationRefused
from portal.workloads.drafts import WorkloadDraft
from tests.bench.booking.world import clear
from tests.factories import HOUR, make_pool_with_gpus, make_quota, make_tenant, make_user, profile_of, window

NODES, GPUS_A_NODE = 8, 8
CLEARED_AFTER = 50
QUESTIONS_MOST = 24
PARTIAL = """
SELECT count(*) FROM reservations_reservation r
WHERE r.ranks <> (SELECT count(DISTINCT l.rank) FROM reservations_lease l
                  WHERE l.reservation_id = r.id AND l.state = 'planned')
"""


class Crash(Exception):
    """What a process that dies looks like from within: nothing catches it."""


class _DiesAt:
    """The question of this number is not answered, or is answered and then nobody is there."""

    def __init__(self, number: int, answered: bool) -> None:
        self.left, self.answered = number, answered

    def __call__(self, execute, sql, params, many, context):
        self.left -= 1
        if self.left == 0 and not self.answered:
            raise Crash
        answer = execute(sql, params, many, context)
        if self.left == 0:
            raise Crash
        return answer


def crash_tries(seed: int, tries: int) -> tuple[int, int, int]:
    """(groups that are partly there, tries that crashed, groups that were booked)."""
    chance = random.Random(seed)
    pool = make_pool_with_gpus("L40S", NODES * GPUS_A_NODE, nodes=NODES)
    tenant = make_tenant("groups")
    make_quota(tenant, pool, 10**6)
    person = make_user("gus", tenant)
    partial = crashed = booked = 0
    for number in range(tries):
        if number % CLEARED_AFTER == 0:
            clear()
        try:
            with connection.execute_wrapper(_DiesAt(chance.randint(1, QUESTIONS_MOST), chance.random() < 0.5)):
                _book(person, tenant, pool, chance)
            booked += 1
        except Crash:
            crashed += 1
            if connection.in_atomic_block:
                raise
        except ReservationRefused:
            continue
        partial += _partial()
    return partial, crashed, booked


def _book(person, tenant, pool: Pool, chance: random.Random) -> None:
    start = timezone.now().replace(microsecond=0) + chance.randint(24, 240) * HOUR
    book_reservation(
        created_by=person, owner=person, tenant=tenant, pool=pool, profile=profile_of(pool, "full"),
        ranks=chance.choice((2, 3, 8, 9, 16, 40, 64)), during=window(start, chance.randint(1, 8)),
        workload=WorkloadDraft("train", command=("python", "train.py")))  # fmt: skip


def _partial() -> int:
    with connection.cursor() as cursor:
        cursor.execute(PARTIAL)
        return int(cursor.fetchone()[0])
