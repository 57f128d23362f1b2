"""The test of capacity against brute force: every packing of one and of two GPUs, for tables that drivers report."""

import random
from itertools import combinations_with_replacement, product

import pytest

from scheduler.placement.capacity import capacity_of
from scheduler.placement.geometry import Shape
from scheduler.placement.layouts import Counts, full_layouts
from tests.unit.parts import A30, FOUR, H100, ONE, ONE_WIDE, SEVEN, THREE, TWO, WHOLE

CLEAN = (ONE, ONE_WIDE, TWO, THREE, FOUR, SEVEN)
TABLES = {
    "H100 without media": (CLEAN, 8),
    "H100": (H100, 8),
    "A30": (A30, 4),
    "A30 with both media variants": ((*A30, Shape("2g.12gb+me", 2, (0, 2), 2, 1)), 4),
    "no MIG": (WHOLE, 1),
    "equal shares": ((Shape("share", 1, tuple(range(10)), 1, 10),), 10),
    "graphics": ((*A30, Shape("1g.6gb+gfx", 1, (0, 1, 2, 3), 1, 4), Shape("4g.24gb+gfx", 4, (0,), 4, 1)), 4),
    "spans that cross": ((Shape("a", 3, (0, 1, 2, 4), 1, 4), Shape("b", 2, (0, 3, 5), 1, 4), ONE), 8),
}
ROWS_MOST = 3000


def packed(layouts: tuple[Counts, ...], gpus: int) -> set[Counts]:
    """All counts that so many GPUs hold, by trying every layout on each."""
    sums = {tuple(map(sum, zip(*those, strict=True))) for those in combinations_with_replacement(layouts, gpus)}
    return {part for whole in sums for part in product(*(range(count + 1) for count in whole))}


@pytest.mark.parametrize("gpus", [1, 2])
@pytest.mark.parametrize("table", TABLES)
def test_the_test_of_capacity_equals_brute_force(table, gpus):
    shapes, slices = TABLES[table]
    capacity = capacity_of(shapes, slices)
    possible = packed(full_layouts(shapes, slices), gpus)
    most = [max(counts) for counts in zip(*possible, strict=True)]
    chance = random.Random(gpus)
    rows = list(product(*(range(count + 2) for count in most)))
    rows = chance.sample(rows, min(len(rows), ROWS_MOST)) + sorted(possible)[:: 1 + len(possible) // ROWS_MOST]
    truth = [row in possible for row in rows]
    assert [bool(fits) for fits in capacity.fit_rows(rows, gpus)] == truth
    assert [capacity.fits(row, gpus) for row in rows] == truth
    assert True in truth and False in truth


def test_only_tables_of_plain_trees_claim_to_be_exact():
    assert capacity_of(CLEAN, 8).is_exact
    assert not capacity_of(H100, 8).is_exact
    assert not capacity_of(*TABLES["spans that cross"]).is_exact


def test_a_hundred_gpus_full_to_the_last_slice_fit_and_one_more_does_not():
    capacity = capacity_of(H100, 8)
    full = {"4g.40gb": 100, "2g.20gb": 100, "1g.20gb": 99, "1g.10gb+me": 1}
    assert capacity.fits(full, 100)
    assert not capacity.fits(full | {"1g.10gb": 1}, 100)
    assert capacity.fits({"1g.10gb+me": 100, "7g.80gb": 0}, 100)
    assert not capacity.fits({"1g.10gb+me": 101}, 100)


def test_each_row_may_have_its_own_number_of_gpus():
    rows = [{"7g.80gb": 3}.get(shape.name, 0) for shape in H100]
    assert capacity_of(H100, 8).fit_rows([rows, rows], [3, 2]).tolist() == [True, False]


def test_thousands_of_gpus_are_no_deeper_a_search_than_python_bears():
    capacity = capacity_of(H100, 8)
    assert capacity.fits({"1g.10gb+me": 5_000, "1g.10gb": 50_000}, 10_000)
    assert not capacity.fits({"1g.10gb+me": 5_000, "1g.10gb": 66_000}, 10_000)
