"""The quickest decision: of many GPUs at once, one byte each, which have a span free and what it touches in time.

A table turns the byte of slices held into one of spans: a bit for each legal start. The bytes of all GPUs stand in one
long integer, so that each step of the logic is one operation for all of them.
"""

from functools import lru_cache

from scheduler.placement.span_tables import SpanTable

BITS = 8


class Glance:
    """For one shape on GPUs of at most eight slices."""

    def __init__(self, table: SpanTable) -> None:
        sets = range(1 << table.slices)
        self._free = _spans_by_set(table, [[not held & span for span in table.masks] for held in sets])
        self._touched = _spans_by_set(table, [[held & span == span for span in table.masks] for held in sets])
        self._losses: list[list[float]] = table.losses.tolist()
        self._from_first = table.pull >= 0
        # By the set of slices held and the spans to choose from: the span that makes the fewest slices useless.
        self._choice: dict[int, int] = {}

    def best(self, taken: bytes, before: bytes, after: bytes) -> tuple[int, int] | None:
        """(GPU, which of the legal spans), or None where none is free: what another lease touches at both ends, else at
        one, else none; of these the GPU nearest to the side from which GPUs are filled with the shape, and there what
        makes the fewest slices useless."""
        free = int.from_bytes(taken.translate(self._free), "little")
        if not free:
            return None
        earlier = int.from_bytes(before.translate(self._touched), "little")
        later = int.from_bytes(after.translate(self._touched), "little")
        spans = free & earlier & later or free & (earlier | later) or free
        position = ((spans & -spans if self._from_first else spans).bit_length() - 1) // BITS
        key = taken[position] << BITS | spans >> position * BITS & 255
        index = self._choice.get(key)
        return position, self._choose(key) if index is None else index

    def _choose(self, key: int) -> int:
        losses, bits = self._losses[key >> BITS], key & 255
        index = min((index for index in range(BITS) if bits >> index & 1), key=lambda index: (losses[index], index))
        self._choice[key] = index
        return index


def _spans_by_set(table: SpanTable, truth: list[list[bool]]) -> bytes:
    """Of each set of slices the spans for which it is true, a bit each."""
    each = bytes(sum(true << index for index, true in enumerate(spans)) for spans in truth)
    return each + bytes(256 - len(each))


@lru_cache(maxsize=512)
def glance_of(table: SpanTable) -> Glance:
    return Glance(table)
