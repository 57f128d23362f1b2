"""Our own plan of the same requests, kept as the portal keeps it: admit, apply the moves, re-plan now and then."""

import time
from dataclasses import dataclass, field

from scheduler.placement.calendar import Calendar
from scheduler.placement.geometry import span_mask
from scheduler.placement.placing import place
from scheduler.placement.replan import Admission, Refused, admit, improve
from scheduler.placement.trial import Move
from tests.bench.calendar.requests import CELL_SECONDS, ORIGIN, SHAPES, SLICES, Request

GPUS_A_NODE = 8
# Longer than any decision takes: its steps bound it, so that a loaded machine plans the same.
DEADLINE_SECONDS = 30.0


@dataclass
class Planner:
    """``decisions_ms`` is CPU time of each decision; ``without_proof`` counts refusals of what capacity would allow."""

    gpus: int
    cells: int
    accepted: list[bool] = field(default_factory=list)
    decisions_ms: list[float] = field(default_factory=list)
    moved: int = 0
    background_moves: int = 0
    background_seconds: float = 0.0
    without_proof: int = 0

    def __post_init__(self) -> None:
        gpus = [(gpu, gpu // GPUS_A_NODE, gpu % GPUS_A_NODE) for gpu in range(self.gpus)]
        self.calendar = Calendar(gpus, SLICES, ORIGIN, CELL_SECONDS, self.cells * CELL_SECONDS)

    def ask(self, request: Request) -> bool:
        began = time.thread_time_ns()
        shape = SHAPES[request.shape]
        answer = admit(shape, 1, self.calendar, request.window, SHAPES, deadline_seconds=DEADLINE_SECONDS)
        if isinstance(answer, Admission):
            self.apply(answer.moves)
            self.moved += len(answer.moves)
            (one,) = answer.placements
            since, until = request.window.start, request.window.end
            key = len(self.accepted)
            self.calendar.hold(key, one.gpu_id, one.start, one.end, since, until, shape.name, True)
        self.decisions_ms.append((time.thread_time_ns() - began) / 1e6)
        self.without_proof += isinstance(answer, Refused) and answer.full_at is None
        self.accepted.append(isinstance(answer, Admission))
        return self.accepted[-1]

    def apply(self, moves: tuple[Move, ...]) -> None:
        """All at once: what moves is gone before any of it is held anew."""
        rows = {move.key: self.calendar.rows[move.key] for move in moves}
        for key in rows:
            self.calendar.drop(key)
        for move in moves:
            row = rows[move.key]
            self.calendar.hold(move.key, move.gpu_id, move.start, move.end, row.since, row.until, row.shape, True)

    def improve(self, leases: int) -> None:
        began = time.thread_time()
        moves = improve(self.calendar, SHAPES, deadline_seconds=DEADLINE_SECONDS, leases_most=leases)
        self.apply(moves)
        self.background_moves += len(moves)
        self.background_seconds += time.thread_time() - began

    def broken(self, requests: list[Request]) -> int:
        """Accepted requests that do not have all they were promised: the shape on a legal span alone for the window."""
        broken = 0
        for key, (request, accepted) in enumerate(zip(requests, self.accepted, strict=True)):
            row = self.calendar.rows.get(key)
            if not accepted:
                broken += row is not None
                continue
            shape, window = SHAPES[request.shape], request.window
            if row is None or (row.since, row.until, row.shape) != (window.start, window.end, shape.name):
                broken += 1
                continue
            others = self.calendar.rows_on(row.position, row.since, row.until)
            legal = row.start in shape.starts and row.mask == span_mask(row.start, shape.size)
            broken += not legal or any(other.mask & row.mask and other.key != key for other in others)
        return broken


def offline_plan(requests: list[Request], kept: list[bool], gpus: int, cells: int) -> list[bool]:
    """Our own placing of requests that are all known beforehand: the oracle's first, the largest of them before the
    small ones, and what else finds room after. Nothing moves."""
    planner = Planner(gpus, cells)
    accepted = [False] * len(requests)
    order = sorted(
        range(len(requests)), key=lambda at: (not kept[at], -SHAPES[requests[at].shape].size, -requests[at].volume)
    )
    for at in order:
        shape, window = SHAPES[requests[at].shape], requests[at].window
        for one in place(shape, 1, planner.calendar, window, SHAPES):
            planner.calendar.hold(at, one.gpu_id, one.start, one.end, window.start, window.end, shape.name, True)
            accepted[at] = True
    return accepted
