"""When something fits: how many instances of a shape are free, as the start of the window moves through time."""

from collections.abc import Iterable, Iterator, Sequence
from itertools import groupby
from operator import itemgetter

from scheduler.placement.geometry import GpuView, Shape, Window, room


def earliest_start(
    shape: Shape,
    ranks: int,
    gpus: Iterable[GpuView],
    length_seconds: int,
    not_before: int,
    not_after: int,
    shapes: Iterable[Shape] = (),
) -> int | None:
    """The first start in [not_before, not_after] from which all ranks fit for ``length_seconds``, or None.

    Room only grows where something ends, so not_before and the ends of what is held are all the starts to look at.
    ``shapes`` is accepted so that every question to the engine takes the pool's shapes; whether it fits needs them not.
    """
    return next(fitting_starts(shape, ranks, gpus, length_seconds, not_before, not_after), None)


def fitting_starts(
    shape: Shape, ranks: int, gpus: Iterable[GpuView], length_seconds: int, not_before: int, not_after: int
) -> Iterator[int]:
    """Starts from which all ranks fit, in order: not_before and the ends of what is held."""
    views = list(gpus)
    ends = {held.until for gpu in views for held in gpu.held}
    for moment, count in _counts_from(shape, views, length_seconds, not_before, not_after):
        if count >= ranks and (moment == not_before or moment in ends):
            yield moment


def counts_at(shape: Shape, gpus: Iterable[GpuView], length_seconds: int, moments: Sequence[int]) -> list[int]:
    """How many instances fit at once in a window of that length from each of the ascending ``moments``."""
    if not moments:
        return []
    changes = _counts_from(shape, gpus, length_seconds, moments[0], moments[-1])
    result: list[int] = []
    count = next(changes)[1]
    following = next(changes, None)
    for asked in moments:
        while following is not None and following[0] <= asked:
            count = following[1]
            following = next(changes, None)
        result.append(count)
    return result


def _counts_from(
    shape: Shape, gpus: Iterable[GpuView], length_seconds: int, first: int, last: int
) -> Iterator[tuple[int, int]]:
    """(moment, free instances) at ``first`` and wherever the number may change up to ``last``, in order of time.

    A held window is in the way of every start in (since - length, until); at each such border only the GPU that it is
    on is counted anew.
    """
    if last < first:
        return
    views = list(gpus)
    counts = [_room_from(shape, gpu, first, length_seconds) for gpu in views]
    total = sum(counts)
    yield first, total
    for moment, touched in groupby(_borders(views, length_seconds, first, last), key=itemgetter(0)):
        for _moment, position in touched:
            now = _room_from(shape, views[position], moment, length_seconds)
            total += now - counts[position]
            counts[position] = now
        yield moment, total


def _borders(views: Sequence[GpuView], length_seconds: int, first: int, last: int) -> list[tuple[int, int]]:
    """(moment, position of the GPU) wherever a GPU's room may change in (first, last], each once, in order of time."""
    found = {
        (moment, position)
        for position, gpu in enumerate(views)
        for held in gpu.held
        for moment in (held.since - length_seconds + 1, held.until)
        if first < moment <= last
    }
    return sorted(found)


def _room_from(shape: Shape, gpu: GpuView, moment: int, length_seconds: int) -> int:
    return room(shape, gpu, Window(moment, moment + length_seconds))
