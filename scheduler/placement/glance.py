"""The quickest decision: of many GPUs at once, one byte each, which have a span free and what it touches in time.

A table turns the byte of slices held into one of spans: a bit for each legal start. The bytes of all GPUs stand in one
long integer, so that each step of the logic is one operation for all of them.
"""

from collections.abc import Sequence

BITS = 8

_number = int.from_bytes


class Glance:
    """For the legal spans of one shape, on GPUs of at most eight slices. ``losses``: by set of slices held and span,
    what becomes useless. ``from_first``: whether GPUs are filled with the shape from the first one on."""

    def __init__(self, masks: Sequence[int], slices: int, losses: Sequence[Sequence[float]], from_first: bool) -> None:
        sets = range(1 << slices)
        self._free = _spans_by_set([[not held & span for span in masks] for held in sets])
        self._touched = _spans_by_set([[held & span == span for span in masks] for held in sets])
        self._losses = losses
        self.from_first = from_first
        # By the set of slices held and the spans to choose from: the span that makes the fewest slices useless.
        self._choice: dict[int, int] = {}

    def first(self, taken: bytes) -> int:
        """The GPU with room that is filled first, or -1."""
        free = _number(taken.translate(self._free), "little")
        return ((free & -free if self.from_first else free).bit_length() - 1) // BITS

    def best(self, taken: bytes, before: bytes, after: bytes) -> tuple[int, int] | None:
        """(GPU, which of the legal spans), or None where none is free: what another lease touches at both ends, else at
        one, else none; of these the GPU that is filled first, and there what makes the fewest slices useless."""
        free = _number(taken.translate(self._free), "little")
        if not free:
            return None
        earlier = _number(before.translate(self._touched), "little")
        later = _number(after.translate(self._touched), "little")
        spans = free & earlier & later or free & (earlier | later) or free
        position = ((spans & -spans if self.from_first else spans).bit_length() - 1) // BITS
        key = taken[position] << BITS | spans >> position * BITS & 255
        index = self._choice.get(key)
        return position, self._choose(key) if index is None else index

    def _choose(self, key: int) -> int:
        losses, bits = self._losses[key >> BITS], key & 255
        index = min((index for index in range(BITS) if bits >> index & 1), key=lambda index: (losses[index], index))
        self._choice[key] = index
        return index


def _spans_by_set(truth: list[list[bool]]) -> bytes:
    """Of each set of slices the spans for which it is true, a bit each."""
    each = bytes(sum(true << index for index, true in enumerate(spans)) for spans in truth)
    return each + bytes(256 - len(each))
