"""The legal spans of a GPU as a tree, and its kinds of spans by size from the poorest to the richest."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cmp_to_key
from itertools import combinations

import numpy as np
from numpy.typing import NDArray

from scheduler.placement.geometry import Shape

Span = tuple[int, int]
Free = dict[int, NDArray[np.int64]]


@dataclass(frozen=True)
class Kind:
    """Spans that are alike: the same shapes may take them, and they fall into parts that are alike."""

    size: int
    takers: frozenset[int]
    parts: tuple["Kind", ...]

    def beats(self, other: "Kind") -> bool:
        """Whether whatever fits into the other fits here too: its shapes, and each of its parts into one of ours."""
        return self.takers >= other.takers and _holds(list(self.parts), list(other.parts))


@dataclass(frozen=True)
class Level:
    """All kinds of one size, poorest first, as numbers; ``takers``: (columns of counts, kinds they may take), the
    shapes with the fewest legal kinds first. ``parts``: what one open span of a kind falls into."""

    root: int
    kinds: tuple[int, ...]
    takers: tuple[tuple[tuple[int, ...], tuple[int, ...]], ...]
    parts: dict[int, tuple[int, ...]]

    def take(self, counts: NDArray[np.int64], free: Free) -> NDArray[np.bool_]:
        """Give every instance of this size its span, and open what is left. Rows of counts for which there is enough;
        what is left for the others means nothing."""
        fitting = np.ones(len(counts), dtype=bool)
        for columns, kinds in self.takers:
            wanted = counts[:, list(columns)].sum(axis=1)
            for kind in kinds:
                if kind in free:
                    taken = np.minimum(wanted, free[kind])
                    free[kind] = free[kind] - taken
                    wanted = wanted - taken
            fitting &= wanted == 0
        for kind in self.kinds:
            if kind in free:
                left = free.pop(kind)
                for part in self.parts[kind]:
                    free[part] = free[part] + left if part in free else left
        return fitting

    def take_one(self, counts: Sequence[int], free: dict[int, int]) -> bool:
        """The same for one row of counts; False as soon as there is not enough."""
        for columns, kinds in self.takers:
            wanted = sum([counts[column] for column in columns])
            for kind in kinds:
                if wanted and (open_spans := free.get(kind)):
                    taken = min(wanted, open_spans)
                    free[kind] = open_spans - taken
                    wanted -= taken
            if wanted:
                return False
        for kind in self.kinds:
            if left := free.pop(kind, 0):
                for part in self.parts[kind]:
                    free[part] = free.get(part, 0) + left
        return True


def levels_of(shapes: Iterable[Shape], slices: int) -> tuple[Level, ...] | None:
    """The levels from the whole GPU down; None where spans cross, or kinds of one size cannot be ranked."""
    takers: dict[Span, set[int]] = {(0, slices): set()}
    for column, shape in enumerate(shapes):
        for start in shape.starts:
            if start + shape.size <= slices:
                takers.setdefault((start, shape.size), set()).add(column)
    if any(_cross(one, other) for one, other in combinations(takers, 2)):
        return None
    kinds: dict[Span, Kind] = {}
    for span in sorted(takers, key=lambda span: (span[1], span[0])):
        parts = [kinds[part] for part in _parts_of(span, takers)]
        kinds[span] = Kind(span[1], frozenset(takers[span]), tuple(sorted(parts, key=repr)))
    ranked = [_ranked(size, set(kinds.values())) for size in sorted({kind.size for kind in kinds.values()})[::-1]]
    if any(rank is None for rank in ranked):
        return None
    return _numbered([rank for rank in ranked if rank], kinds[0, slices])


def _cross(one: Span, other: Span) -> bool:
    (begin, size), (start, length) = sorted((one, other))
    return begin < start < begin + size < start + length


def _parts_of(span: Span, spans: Iterable[Span]) -> list[Span]:
    """The largest spans within this one."""
    within = [one for one in spans if one != span and span[0] <= one[0] and sum(one) <= sum(span)]
    return [one for one in within if not any(_is_inside(one, other) for other in within)]


def _is_inside(one: Span, other: Span) -> bool:
    return one != other and other[0] <= one[0] and sum(one) <= sum(other)


def _holds(ours: list[Kind], theirs: list[Kind]) -> bool:
    """Whether each of theirs finds one of ours of its own that beats it; larger ones fall apart where needed."""
    for part in sorted(theirs, key=lambda kind: -kind.size):
        enough = [kind for kind in ours if kind.size == part.size and kind.beats(part)]
        if enough:
            ours.remove(min(enough, key=lambda kind: (len(kind.takers), len(kind.parts))))
            continue
        larger = [kind for kind in ours if kind.size > part.size and kind.parts]
        if not larger:
            return False
        ours.remove(larger[0])
        return _holds([*ours, *larger[0].parts], [part, *(one for one in theirs if one is not part)])
    return True


def _ranked(size: int, kinds: set[Kind]) -> list[Kind] | None:
    """Kinds of this size, each beating all before it; None where two beat each other in different ways."""
    these = sorted((kind for kind in kinds if kind.size == size), key=repr)
    in_order = sorted(these, key=cmp_to_key(_compare))
    pairs = zip(in_order, in_order[1:], strict=False)
    return in_order if all(richer.beats(poorer) for poorer, richer in pairs) else None


def _compare(one: Kind, other: Kind) -> int:
    return int(one.beats(other)) - int(other.beats(one))


def _numbered(ranked: list[list[Kind]], root: Kind) -> tuple[Level, ...]:
    number = {kind: position for position, kind in enumerate(kind for kinds in ranked for kind in kinds)}
    levels = []
    for kinds in ranked:
        legal: dict[tuple[int, ...], list[int]] = {}
        for column in sorted({column for kind in kinds for column in kind.takers}):
            legal.setdefault(tuple(number[kind] for kind in kinds if column in kind.takers), []).append(column)
        takers = tuple((tuple(legal[those]), those) for those in sorted(legal, key=lambda those: (len(those), those)))
        parts = {number[kind]: tuple(number[part] for part in kind.parts) for kind in kinds}
        levels.append(Level(number[root], tuple(parts), takers, parts))
    return tuple(levels)
