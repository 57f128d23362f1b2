"""Reports that fit a frame: what is present, and as many events as there is room for."""

from collections.abc import Iterator

from agents.protocol import GpuFact, LeaseEvent, PresentSlice, Report

_EVENTS = 100
_CHARACTERS = 128 * 1024


def reports(
    generation: int, present: tuple[PresentSlice, ...], events: tuple[LeaseEvent, ...], gpus: tuple[GpuFact, ...]
) -> Iterator[Report]:
    """At least one report, oldest events first, each small enough for any frame limit."""
    batch: list[LeaseEvent] = []
    size = 0
    for event in events:
        weight = len(event.log_tail) + len(event.detail)
        if batch and (size + weight > _CHARACTERS or len(batch) >= _EVENTS):
            yield Report(generation, present, tuple(batch), gpus)
            batch, size = [], 0
        batch.append(event)
        size += weight
    yield Report(generation, present, tuple(batch), gpus)
