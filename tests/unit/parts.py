"""Shapes of real GPUs for the tests of placement, as their drivers report them."""

from scheduler.placement.geometry import GpuView, Held, Shape

ONE = Shape("1g.10gb", 1, (0, 1, 2, 3, 4, 5, 6), 1, 7)
ONE_ME = Shape("1g.10gb+me", 1, (0, 1, 2, 3, 4, 5, 6), 1, 1)
ONE_WIDE = Shape("1g.20gb", 2, (0, 2, 4, 6), 1, 4)
TWO = Shape("2g.20gb", 2, (0, 2, 4), 2, 3)
THREE = Shape("3g.40gb", 4, (0, 4), 3, 2)
FOUR = Shape("4g.40gb", 4, (0,), 4, 1)
SEVEN = Shape("7g.80gb", 8, (0,), 7, 1)
H100 = (ONE, ONE_ME, ONE_WIDE, TWO, THREE, FOUR, SEVEN)

A30 = (
    Shape("1g.6gb", 1, (0, 1, 2, 3), 1, 4),
    Shape("1g.6gb+me", 1, (0, 1, 2, 3), 1, 1),
    Shape("2g.12gb", 2, (0, 2), 2, 2),
    Shape("4g.24gb", 4, (0,), 4, 1),
)
WHOLE = (Shape("whole GPU", 1, (0,), 1, 1),)
PARTS = {8: H100, 4: A30, 1: WHOLE}


def gpu(gpu_id: int, *held: Held, node_id: int = 1, slices: int = 8) -> GpuView:
    return GpuView(gpu_id, node_id, gpu_id, slices, held)


def hold(shape: Shape, start: int, since: int = 0, until: int = 1000) -> Held:
    return Held(start, start + shape.size, since, until, shape.name)
