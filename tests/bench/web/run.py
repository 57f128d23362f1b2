"""W1: every page and every address of the API that is read, signed in, over the year of the made-up organisation."""

import datetime as dt
import gzip
from dataclasses import dataclass, field

from django.db import connection
from django.utils import timezone

from portal.demo.year import seed_year
from tests.bench.figures import Board
from tests.bench.registry import Options
from tests.bench.web.booking_posts import measure_booking, measure_crowd
from tests.bench.web.clients import Measured, Visitor, measure
from tests.bench.web.growing import SIZES, queries_of, tenant_with
from tests.bench.web.markup import fetched_with, foreign
from tests.bench.web.people import Onlookers, filled, ids_for, onlookers, pages
from tests.bench.web.server import Server, running_server

CLIENTS = 4
REQUESTS, QUICK_REQUESTS = 40, 8
QUICK_SCALE = 0.1
EMPTY = ("GET", "/bench/empty/", None)
CPU_MS_MOST, P95_MS_MOST, KILOBYTES_MOST, QUERIES_MOST, FETCHES_MOST = 60, 300, 150, 12, 12


@dataclass
class Worst:
    """The largest value of each kind, and whose it was."""

    values: dict[str, tuple[float, str]] = field(default_factory=dict)

    def take(self, what: str, value: float, whose: str) -> None:
        if what not in self.values or value > self.values[what][0]:
            self.values[what] = (value, whose)


def run(options: Options, board: Board) -> None:
    began = timezone.now()
    rows = seed_year(seed=options.seed, scale=QUICK_SCALE if options.quick else 1.0)
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    board.note(f"{rows} in {(timezone.now() - began) / dt.timedelta(seconds=1):.0f} s")
    people = onlookers()
    ids = ids_for(people)
    _count_queries(board, people, ids)
    with running_server() as server:
        each = QUICK_REQUESTS if options.quick else REQUESTS
        empty = measure(server, Visitor(server, people.member), [EMPTY] * 4 * each, CLIENTS)
        empty = measure(server, Visitor(server, people.member), [EMPTY] * 4 * each, CLIENTS)
        board.add("web.empty", "cpu_ms", empty.cpu_ms, f"<={CPU_MS_MOST}")
        board.add("web.empty", "p95_ms", empty.p95_ms, f"<={P95_MS_MOST}")
        _measure_pages(board, server, people, ids, each, empty)
        measure_booking(board, server, people, each, CLIENTS)
        measure_crowd(board, server, people)


def _measure_pages(board: Board, server: Server, people: Onlookers, ids: dict, each: int, empty: Measured) -> None:
    visitors = {role: Visitor(server, getattr(people, role)) for role in ("platform_admin", "lead", "member")}
    overall = Worst()
    for name, row in pages():
        worst, url = Worst(), filled(row.url, ids)
        for role in people.may(row):
            found = _measured(server, visitors[role], url, each)
            worst.take("cpu_ms", found.cpu_ms, role)
            worst.take("p95_ms", found.p95_ms, role)
            worst.take("kilobytes", found.kilobytes, role)
            _look_at(found, overall, f"{name} for {role}")
        for what, most in (("cpu_ms", CPU_MS_MOST), ("p95_ms", P95_MS_MOST), ("kilobytes", KILOBYTES_MOST)):
            if what in worst.values:
                value, role = worst.values[what]
                board.add(f"web.{_short(name, row.url)}.{role}", what, value, f"<={most}")
        if "cpu_ms" in worst.values:
            board.note(f"    {worst.values['cpu_ms'][0] / empty.cpu_ms:.0f} times the empty view's CPU")
    for what, most in (("fetches", FETCHES_MOST), ("other_hosts", 0)):
        value, whose = overall.values[what]
        board.note(f"    most {what}: {whose}")
        board.add("web.pages", what, value, f"<={most}")


def _measured(server: Server, visitor: Visitor, url: str, each: int) -> Measured:
    """Once to warm what a process keeps, then by several clients at once."""
    measure(server, visitor, [("GET", url, None)], 1)
    found = measure(server, visitor, [("GET", url, None)] * each, CLIENTS)
    assert found.statuses() == {200}, f"{url} answered {found.statuses()}"
    return found


def _look_at(found: Measured, overall: Worst, whose: str) -> None:
    body = found.answers[0].body
    text = (gzip.decompress(body) if body[:2] == b"\x1f\x8b" else body).decode(errors="replace")
    addresses = fetched_with(text) if "<html" in text[:2000] else set()
    overall.take("fetches", 1 + len(addresses), whose)
    overall.take("other_hosts", len(foreign(addresses)), whose)


def _count_queries(board: Board, people: Onlookers, ids: dict) -> None:
    """At 1, 25 and 200 rows of everything, and over the year itself."""
    counts: dict[str, dict[int, int]] = {}
    for rows in SIZES:
        with tenant_with(rows) as (lead, own):
            grown = {"start": ids["start"], "end": ids["end"], **own}
            for name, row in pages():
                if "lead" in row.may:
                    url = filled(row.url, grown)
                    counts.setdefault(_short(name, row.url), {})[rows] = queries_of(lead, url)
    worst = Worst()
    for name, row in pages():
        over_year = [queries_of(person, filled(row.url, ids)) for person in people.may(row).values()]
        short = _short(name, row.url)
        found = counts.get(short, {})
        if over_year or found:
            board.add(f"web.{short}", "queries", max(*over_year, *found.values(), 0), f"<={QUERIES_MOST}")
        if found:
            worst.take("growth", found[SIZES[-1]] - found[SIZES[0]], short)
    value, whose = worst.values["growth"]
    board.note(f"    queries from {SIZES[0]} to {SIZES[-1]} rows grow most in {whose}")
    board.add("web.pages", "queries_growth", value, "<=0")


def _short(name: str, url: str) -> str:
    """The same name may be read with and without a filter."""
    return f"{name}.filtered" if "?tenant" in url and name == "api_reservations" else name
