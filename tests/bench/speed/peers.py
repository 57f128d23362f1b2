"""The same question asked of rows: a scan of intervals in Python, and a query for overlaps in PostgreSQL."""

import io
from bisect import bisect_left
from collections.abc import Iterable

import numpy as np
from django.db import connection

from scheduler.placement.calendar import Calendar, Row
from scheduler.placement.geometry import Shape, open_starts
from tests.bench.calendar.requests import SLICES
from tests.bench.speed.world import Question

# What is held in the window, one row a GPU: the one question that answers for all GPUs, as a service without a calendar
# in its process asks it before it places.
OVERLAPS = """SELECT gpu, bit_or(mask) FROM bench_lease WHERE during && int8range(%s, %s) GROUP BY gpu"""
# The first GPU that has any of these spans free, and no more: a plan by first-fit, which P3 shows to be a poor one.
FIRST_FREE = """SELECT fleet.gpu, spans.span
FROM generate_series(0, %s) AS fleet(gpu), unnest(%s::int4range[]) AS spans(span)
WHERE NOT EXISTS (
    SELECT 1 FROM bench_lease AS held
    WHERE held.gpu = fleet.gpu AND held.span && spans.span AND held.during && int8range(%s, %s)
) LIMIT 1"""


class IntervalScan:
    """Rows in the order of their begin; only those are looked at that begin before the window's end, and no earlier
    than the longest of all could reach it."""

    def __init__(self, calendar: Calendar) -> None:
        rows = sorted(calendar.rows.values(), key=lambda row: row.since)
        self.since = [row.since for row in rows]
        self.rows = [(row.position, row.mask, row.until) for row in rows]
        self.longest = max(row.until - row.since for row in rows)
        self.gpus = len(calendar.gpus)

    def first_fit(self, question: Question) -> tuple[int, int] | None:
        window, taken = question.window, [0] * self.gpus
        begin = bisect_left(self.since, window.start - self.longest)
        for position, mask, until in self.rows[begin : bisect_left(self.since, window.end)]:
            if until > window.start:
                taken[position] |= mask
        return _first_fit(question.shape, enumerate(taken))


class SqlOverlap:
    """A table as the portal's: the constraint's own index on GPU, span and window, and one on the window alone."""

    def __init__(self, calendar: Calendar) -> None:
        self.gpus = len(calendar.gpus)
        lines = io.StringIO("".join(map(_line, calendar.rows.values())))
        with connection.cursor() as cursor:
            cursor.execute("DROP TABLE IF EXISTS bench_lease")
            cursor.execute("CREATE TABLE bench_lease (gpu int, mask int, span int4range, during int8range)")
            cursor.copy_expert("COPY bench_lease FROM STDIN", lines)
            cursor.execute("CREATE INDEX ON bench_lease USING gist (gpu, span, during)")
            cursor.execute("CREATE INDEX ON bench_lease USING gist (during)")
        with connection.cursor() as cursor:
            cursor.execute("VACUUM ANALYZE bench_lease")

    def overlaps(self, question: Question) -> tuple[int, int] | None:
        taken = dict.fromkeys(range(self.gpus), 0)
        with connection.cursor() as cursor:
            cursor.execute(OVERLAPS, [question.window.start, question.window.end])
            taken.update(cursor.fetchall())
        return _first_fit(question.shape, taken.items())

    def first_free(self, question: Question) -> tuple[int, str] | None:
        size = question.shape.size
        spans = [f"[{start},{start + size})" for start in question.shape.starts]
        with connection.cursor() as cursor:
            cursor.execute(FIRST_FREE, [self.gpus - 1, spans, question.window.start, question.window.end])
            return cursor.fetchone()


def or_scan(calendar: Calendar, question: Question) -> np.ndarray:
    """The limit: one OR over the bytes of the window, and no decision. The ring of cells begins with a day of its own
    in these worlds, so that no window lies around its end."""
    masks, seconds = calendar.cells.levels[0].masks, calendar.cells.cell_seconds
    first = question.window.start // seconds % len(masks)
    last = first + (question.window.end - question.window.start) // seconds
    return np.bitwise_or.reduce(masks[first:last])


def _line(row: Row) -> str:
    return f"{row.position}\t{row.mask}\t[{row.start},{row.end})\t[{row.since},{row.until})\n"


def _first_fit(shape: Shape, taken: Iterable[tuple[int, int]]) -> tuple[int, int] | None:
    for position, mask in taken:
        starts = open_starts(shape, SLICES, mask)
        if starts:
            return position, starts[0]
    return None
