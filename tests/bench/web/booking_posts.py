"""Booking by POST, against an empty one; and 80 that book at once."""

import datetime as dt

from django.utils import timezone

from portal.inventory.models import Pool, Profile
from portal.workloads.models import Template
from tests.bench.figures import Board
from tests.bench.web.clients import Ask, Measured, Visitor, measure
from tests.bench.web.people import Onlookers
from tests.bench.web.server import Server

MORE_CPU_MS_MOST = 40
CROWD = 80
HOUR = dt.timedelta(hours=1)
EMPTY_POST: Ask = ("POST", "/bench/empty/", {})


def measure_booking(board: Board, server: Server, people: Onlookers, each: int, clients: int) -> None:
    """By the API and by the form, each in windows of its own, all of them free."""
    visitor = Visitor(server, people.member)
    for what, ask in (("api", _api), ("form", _form)):
        first = 200 if what == "form" else 100
        measure(server, visitor, [ask(people, first - 1)], 1)
        empty = measure(server, visitor, [EMPTY_POST] * 4 * each, clients)
        found = measure(server, visitor, [ask(people, first + number) for number in range(each)], clients)
        assert found.statuses() <= {201, 303}, f"booking by {what} answered {found.statuses()}: {_words(found)}"
        board.add(f"web.book.{what}", "more_cpu_ms", found.cpu_ms - empty.cpu_ms, f"<={MORE_CPU_MS_MOST}")
        board.add(f"web.book.{what}", "p95_ms", found.p95_ms, "<=300")


def measure_crowd(board: Board, server: Server, people: Onlookers) -> None:
    """Eighty clients post one booking each in the same moment; refused is an answer, an error is none."""
    visitor = Visitor(server, people.member)
    found = measure(server, visitor, [_api(people, 400 + number % 5) for number in range(CROWD)], CROWD)
    board.note(f"    {CROWD} at once: {sorted(answer.status for answer in found.answers)}")
    board.add("web.book.crowd", "errors_5xx", sum(answer.status >= 500 for answer in found.answers), "<=0")


def _words(found: Measured) -> bytes:
    return next(answer.body for answer in found.answers if answer.status not in (201, 303))[:500]


def _where(people: Onlookers) -> tuple[Pool, Profile]:
    pool = Pool.objects.get(name="H100 MIG")
    return pool, Profile.objects.get(gpu_model=pool.gpu_model, mig=True, name="1g.10gb")


def _window(number: int) -> tuple[dt.datetime, dt.datetime]:
    """Weeks ahead, where the year has hardly anything."""
    start = timezone.now().replace(minute=0, second=0, microsecond=0) + dt.timedelta(days=30) + number * HOUR
    return start, start + HOUR


def _api(people: Onlookers, number: int) -> Ask:
    pool, profile = _where(people)
    start, end = _window(number)
    wanted = {
        "tenant": people.tenant.pk, "pool": pool.pk, "profile": profile.name, "ranks": 1, "start": start.isoformat(),
        "end": end.isoformat(), "workload": {"name": "bench", "command": ["true"]},
    }  # fmt: skip
    return "POST", "/api/v1/reservations/", wanted


def _form(people: Onlookers, number: int) -> Ask:
    """As an alternative that is taken with one click, so that no local time is typed."""
    pool, profile = _where(people)
    start, end = (int(when.timestamp()) for when in _window(number))
    typed = {
        "tenant": people.tenant.pk, "pool": pool.pk, "profile": profile.pk, "ranks": 1, "start": "now", "length": "1",
        "workload": Template.objects.order_by("pk")[0].pk, "name": f"bench {number}", "key": f"bench-{number}",
        "take": f"{pool.pk}.{profile.pk}.1.{start}.{end}",
    }  # fmt: skip
    return "POST", "/reserve/", typed
