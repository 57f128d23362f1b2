"""What one GPU can hold at once, as counts of shapes, and a search that gives every GPU one of these layouts."""

from scheduler.placement.geometry import Shape, counted_as, disjoint_count, open_starts, span_mask

Counts = tuple[int, ...]


def full_layouts(shapes: tuple[Shape, ...], slices: int) -> tuple[Counts, ...]:
    """Counts of what one GPU holds when nothing more fits; none is part of another."""
    kinds = [counted_as(shape.name) for shape in shapes]
    counted_with = [[column for column, kind in enumerate(kinds) if kind == this] for this in kinds]
    seen: set[tuple[int, Counts]] = set()
    found: set[Counts] = set()

    def extend(mask: int, counts: Counts) -> None:
        if (mask, counts) in seen:
            return
        seen.add((mask, counts))
        found.add(counts)
        for column, shape in enumerate(shapes):
            if sum(counts[other] for other in counted_with[column]) < shape.max_count:
                more = tuple(count + (at == column) for at, count in enumerate(counts))
                for start in open_starts(shape, slices, mask):
                    extend(mask | span_mask(start, shape.size), more)

    extend(0, (0,) * len(shapes))
    return tuple(sorted((one for one in found if not any(_is_part(one, other) for other in found)), reverse=True))


class GpuSearch:
    """Gives one GPU after the other a layout, that of the largest shape still to place first."""

    def __init__(self, shapes: tuple[Shape, ...], slices: int) -> None:
        self.shapes = shapes
        self.slices = slices
        self.by_size = sorted(range(len(shapes)), key=lambda column: (-shapes[column].size, column))
        # The shapes of which a GPU takes fewer than its free spans would.
        self.counted = tuple(column for column, shape in enumerate(shapes) if _is_counted(shape, slices))
        self._layouts: tuple[Counts, ...] | None = None

    def may_fit(self, counts: Counts, gpus: int, steps: int) -> bool:
        """False if the counts surely do not fit; True if they fit, or if the steps do not suffice to tell."""
        if self._layouts is None:
            self._layouts = full_layouts(self.shapes, self.slices)
        left = [steps]
        failed: set[tuple[Counts, int]] = set()
        return self._place(counts, gpus, failed, left)

    def _place(self, counts: Counts, gpus: int, failed: set[tuple[Counts, int]], left: list[int]) -> bool:
        if not any(counts):
            return True
        left[0] -= 1
        if left[0] < 0:
            return True
        if not gpus or (counts, gpus) in failed:
            return False
        largest = next(column for column in self.by_size if counts[column])
        tried = set()
        for layout in self._layouts or ():
            used = tuple(map(min, layout, counts))
            if used[largest] and used not in tried:
                tried.add(used)
                if self._place(
                    tuple(had - less for had, less in zip(counts, used, strict=True)), gpus - 1, failed, left
                ):
                    return True
        failed.add((counts, gpus))
        return False


def _is_part(one: Counts, other: Counts) -> bool:
    return one != other and all(few <= many for few, many in zip(one, other, strict=True))


def _is_counted(shape: Shape, slices: int) -> bool:
    unlimited = Shape(shape.name, shape.size, shape.starts, shape.compute, slices)
    return disjoint_count(unlimited, slices, 0) > shape.max_count
