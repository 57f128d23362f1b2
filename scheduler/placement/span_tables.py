"""What a span does to a GPU, looked up by the slices that are held: a table with an entry for every set of slices."""

import math
from functools import lru_cache

import numpy as np

from scheduler.placement.geometry import Shape, disjoint_count, open_starts, span_mask
from scheduler.placement.glance import BITS, Glance
from scheduler.placement.scores import shapes_by_geometry, stranded_slices

# Beyond this many slices a table for every set of them is too large; so many equal shares of one GPU nobody sells.
SLICES_MOST = 16
# Slices that become useless against the way from the first GPU to the last.
PULL = 2.0


class SpanTable:
    """For one shape beside the shapes of its pool. ``masks`` and ``starts`` are its legal spans.

    By set of slices: ``room``, the instances that still fit. By set of slices and span: ``barred``, infinite where the
    span is not free; ``losses``, the slices that it makes useless; ``edges``, the share of the span that is in the set.
    ``glance`` is None for shapes with a count per GPU and for GPUs of more than eight slices.
    """

    def __init__(self, shape: Shape, shapes: tuple[Shape, ...], slices: int) -> None:
        if slices > SLICES_MOST:
            raise ValueError(f"A GPU of {slices} slices is more than placement on the calendar knows.")
        self.shape = shape
        self.shapes = shapes
        self.slices = slices
        every = np.arange(1 << slices)
        self.room = np.array([disjoint_count(shape, slices, mask) for mask in every.tolist()], dtype=np.int64)
        self.fits = self.room > 0
        self.starts = open_starts(shape, slices, 0)
        self.masks = tuple(span_mask(start, shape.size) for start in self.starts)
        stranded = stranded_slices(shapes_by_geometry((*shapes, shape)), slices)
        value = np.array([stranded[mask] for mask in every.tolist()], dtype=np.float32)
        spans = np.array(self.masks)[None, :]
        sets = every[:, None]
        self.barred = np.where(sets & spans, np.float32(np.inf), np.float32(0))
        self.losses = (value[sets | spans] - value[:, None]).astype(np.float32)
        self.edges = (np.bitwise_count(sets & spans) / shape.size).astype(np.float32)
        # Small shapes come together on the first GPUs and large ones on the last: neither is in the other's way.
        self.pull = PULL * (1 - 2 * math.log(shape.size, max(slices, 2)))
        self.room_after = self.room[sets | spans]
        # Only where the driver's count per GPU says less than the free spans do.
        unlimited = Shape(shape.name, shape.size, shape.starts, shape.compute, slices)
        self.is_counted = disjoint_count(unlimited, slices, 0) > shape.max_count
        self.glance: Glance | None = None
        if slices <= BITS and not self.is_counted:
            self.glance = Glance(self.masks, slices, self.losses.tolist(), self.pull >= 0)


@lru_cache(maxsize=256)
def span_table(shape: Shape, shapes: tuple[Shape, ...], slices: int) -> SpanTable:
    return SpanTable(shape, shapes, slices)
