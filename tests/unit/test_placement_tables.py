"""The tables of one GPU against trying everything, for the tables of shapes that drivers report."""

from functools import cache

import numpy as np
import pytest

from scheduler.placement.geometry import Shape, disjoint_count, span_mask
from scheduler.placement.tables import SLICES_MOST, GpuTables, gpu_tables
from scheduler.placement.worth import worth_of
from tests.unit.parts import A30, FOUR, H100, ONE, ONE_WIDE, SEVEN, THREE, TWO, WHOLE

A100_40 = (
    Shape("1g.5gb", 1, (0, 1, 2, 3, 4, 5, 6), 1, 7),
    Shape("2g.10gb", 2, (0, 2, 4), 2, 3),
    Shape("3g.20gb", 4, (0, 4), 3, 2),
    Shape("4g.20gb", 4, (0,), 4, 1),
    Shape("7g.40gb", 8, (0,), 7, 1),
)
GRAPHICS = (*A30, Shape("1g.6gb+gfx", 1, (0, 1, 2, 3), 1, 2), Shape("4g.24gb+gfx", 4, (0,), 4, 1))
GEOMETRIES = {
    "A100": (A100_40, 8),
    "H100 with media": (H100, 8),
    "A30 with media": (A30, 4),
    "graphics": (GRAPHICS, 4),
    "no MIG": (WHOLE, 1),
    "equal shares": ((Shape("share", 1, tuple(range(10)), 1, 10),), 10),
    "spans that cross": ((Shape("a", 3, (0, 1, 2, 4), 1, 4), Shape("b", 2, (0, 3, 5), 1, 4), ONE), 8),
}


@pytest.fixture(params=GEOMETRIES)
def geometry(request) -> tuple[tuple[Shape, ...], int]:
    return GEOMETRIES[request.param]


def most_by_trying(shape: Shape, slices: int, held: int) -> int:
    @cache
    def most(taken: int, left: int) -> int:
        spans = [span_mask(start, shape.size) for start in shape.starts if start + shape.size <= slices]
        return max((1 + most(taken | span, left - 1) for span in spans if left and not span & taken), default=0)

    return most(held, shape.max_count)


def test_every_entry_equals_what_trying_everything_finds(geometry):
    shapes, slices = geometry
    tables = gpu_tables(shapes, slices)
    for row, shape in enumerate(shapes):
        for held in range(1 << slices):
            most = most_by_trying(shape, slices, held)
            free = slices - held.bit_count()
            assert tables.room[row, held] == most == disjoint_count(shape, slices, held)
            assert tables.fits[row][held] == (most > 0)
            assert tables.stranded[row, held] == free - most * shape.size
            assert len(tables.open_spans[row][held]) >= most
            assert all(not span & held and span.bit_count() == shape.size for span in tables.open_spans[row][held])


def test_dead_slices_are_those_that_no_free_span_covers(geometry):
    shapes, slices = geometry
    tables = gpu_tables(shapes, slices)
    for held in range(1 << slices):
        covered = {
            slot
            for by_set in tables.open_spans
            for span in by_set[held]
            for slot in range(slices)
            if span >> slot & 1
        }  # fmt: skip
        assert tables.dead[held] == slices - held.bit_count() - len(covered)


def test_the_best_span_is_free_and_none_takes_less(geometry):
    shapes, slices = geometry
    tables = gpu_tables(shapes, slices)
    worth = -tables.stranded.mean(axis=0)
    for row in range(len(shapes)):
        chosen = tables.best_span(worth, row)
        for held in range(1 << slices):
            free = tables.open_spans[row][held]
            assert (chosen[held] in free) if free else chosen[held] == 0
            if free:
                assert worth[held | chosen[held]] >= max(worth[held | span] for span in free) - 1e-9


def test_only_shapes_that_the_driver_counts_below_their_spans_are_counted():
    assert [H100[row].name for row in gpu_tables(H100, 8).counted] == ["1g.10gb+me"]
    assert [GRAPHICS[row].name for row in gpu_tables(GRAPHICS, 4).counted] == ["1g.6gb+me", "1g.6gb+gfx"]
    assert gpu_tables(WHOLE, 1).counted == ()


def test_the_last_slice_beside_a_small_instance_is_dead():
    tables = gpu_tables((ONE, ONE_WIDE, TWO, THREE, FOUR, SEVEN), 8)
    assert tables.dead[0b01111111] == 1
    assert tables.dead[0b00111111] == 0


def test_tables_are_built_once_and_refuse_what_is_too_large():
    assert gpu_tables(H100, 8) is gpu_tables(H100, 8)
    with pytest.raises(ValueError):
        GpuTables((ONE,), SLICES_MOST + 1)


def test_no_span_gains_worth_and_only_free_ones_can_be_taken(geometry):
    shapes, slices = geometry
    worth = worth_of(shapes, slices)
    for row, losses in enumerate(worth.losses):
        spans = worth.tables.spans[row]
        assert losses.shape == (len(worth.by_set), 1 << slices, len(spans))
        for held in range(1 << slices):
            free = [span in worth.tables.open_spans[row][held] for span in spans]
            assert np.isfinite(losses[-1, held]).tolist() == free
        assert losses[-1].min() >= -1e-9
