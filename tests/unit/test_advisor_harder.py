"""The harder leases keep the targets too, on a seed that no threshold was set with; a seed is a lease."""

import numpy as np

from scheduler.advisor.judging import advise
from tests.bench.advisor.scoring import Score
from tests.traces.harder import HARDER, harder
from tests.traces.leases import lease
from tests.traces.recordings import recording_of


def test_the_targets_hold_where_causes_mix_change_and_hide():
    score = Score()
    for made in harder(seed=31, per_kind=1):
        score.add(made.truth, advise(recording_of(made)))
    assert score.controls > 15 and score.right > 25
    assert score.precision >= 0.95, score.wrong
    assert score.recall >= 0.9, score.wrong
    assert (score.controls_accused, score.forbidden) == (0, 0), score.wrong


def test_a_seed_is_a_lease():
    first, again, other = (lease("input_cpu", 0, 700, seed) for seed in (1, 1, 2))
    assert all(np.array_equal(first.ranks[0][name], again.ranks[0][name], equal_nan=True) for name in first.ranks[0])
    assert not np.array_equal(first.ranks[0]["gr_active"], other.ranks[0]["gr_active"], equal_nan=True)
    assert len({kind for kind in HARDER}) == len(HARDER) > 40
