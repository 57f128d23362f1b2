"""The advisor's claims on labelled recordings: the plain causes, the harder ones, or a folder of the same format.

The thresholds were set with the seeds from 101 on in view; the default seeds are others.
"""

from collections.abc import Iterable, Iterator
from typing import Any

from scheduler.advisor.judging import advise
from scheduler.advisor.recording import Recording
from scheduler.advisor.trace_files import read_folder
from tests.bench.advisor.scoring import Score, confusion
from tests.bench.figures import Board
from tests.bench.registry import Options
from tests.traces.causes import CAUSES
from tests.traces.harder import harder
from tests.traces.leases import lease
from tests.traces.recordings import recording_of

PER_CAUSE, QUICK_PER_CAUSE = 6, 2
SECONDS = 1800
Case = tuple[Recording, dict[str, Any]]


def run(options: Options, board: Board) -> None:
    per_cause = QUICK_PER_CAUSE if options.quick else PER_CAUSE
    if folder := options.more.get("traces"):
        _judge(board, f"advisor.{folder.name}", ((one.recording, one.truth) for one in read_folder(folder)))
        return
    board.note(f"{per_cause} leases of each cause, seeds {options.seeds.start} to {options.seeds.stop - 1}")
    _judge(board, "advisor.causes", _plain(options.seeds, per_cause))
    _judge(board, "advisor.harder", _harder(options.seeds, per_cause))


def _plain(seeds: Iterable[int], per_cause: int) -> Iterator[Case]:
    for seed in seeds:
        for cause in CAUSES:
            for index in range(per_cause):
                made = lease(cause, index, SECONDS, seed)
                yield recording_of(made), made.truth


def _harder(seeds: Iterable[int], per_cause: int) -> Iterator[Case]:
    for seed in seeds:
        for made in harder(seed, per_cause):
            yield recording_of(made), made.truth


def _judge(board: Board, name: str, cases: Iterable[Case]) -> None:
    score = Score()
    for recording, truth in cases:
        score.add(truth, advise(recording))
    board.note(f"{name}: what was claimed, by cause")
    for line in (*confusion(score), *(f"  wrong: {wrong}" for wrong in score.wrong)):
        board.note(line)
    board.note(f"  right {score.right}, false {score.false}, missed {score.missed}, controls {score.controls}, "
               f"rebooking as labelled {score.sizes_right} of {score.sizes}")  # fmt: skip
    board.add(name, "precision", score.precision, ">=0.95")
    board.add(name, "recall", score.recall, ">=0.9")
    board.add(name, "controls_accused", score.controls_accused, "==0")
    board.add(name, "forbidden", score.forbidden, "==0")
