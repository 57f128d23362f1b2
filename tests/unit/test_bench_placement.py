"""The yardstick of placement on demand: what is counted, what the limit and the peers accept, and how pods are read."""

import numpy as np
import pytest

from tests.bench.figures import Board
from tests.bench.placement import openb
from tests.bench.placement.baselines import FIRST_FIT, Ours, Repacking, WholeGpus, placers
from tests.bench.placement.demand import MIXES, SHAPES, WHOLE, Request, arrivals
from tests.bench.placement.replay import Tally, points_below, replay
from tests.bench.registry import Options

ONE, THREE, FOUR = 0, 3, 4


def by_name(gpus: int = 4, per_node: int = 2) -> dict:
    return {one.name: one for one in (*placers(MIXES["uniform"], gpus, per_node, seed=1), WholeGpus(gpus))}


def test_slice_time_counts_from_the_end_of_the_warm_up_to_the_last_arrival():
    requests = [Request(0, 30, THREE, 1), Request(10, 40, ONE, 1), Request(20, 50, FOUR, 1)]
    tally = replay(requests, Ours(2, 1), warm_up=1)
    assert tally.asked.tolist() == tally.accepted.tolist() == [30, 0, 0, 0, 120, 0]
    assert (tally.seconds, tally.within) == (10, 4 * 10 + 1 * 10)
    assert (tally + tally).within == 2 * tally.within


def test_points_below_are_those_of_the_shape_where_it_is_most():
    asked, nothing = np.array([100.0, 100.0, 0, 0, 0, 0]), (0.0, 1.0)
    ours, peer = ([90.0, 100.0, 0, 0, 0, 0], [95.0, 80.0, 0, 0, 0, 0])
    assert points_below(Tally(asked, np.array(ours), *nothing), Tally(asked, np.array(peer), *nothing)) == 5


def test_the_limit_accepts_what_repacking_would_and_whole_gpus_one_a_gpu():
    split = [Request(0, 9, FOUR, 1), Request(0, 1, FOUR, 1), Request(0, 9, THREE, 1), Request(0, 9, THREE, 1),
             Request(1, 9, WHOLE, 1)]  # fmt: skip
    found = by_name(gpus=2, per_node=1)
    accepted = {name: replay(split, placer).accepted[WHOLE] > 0 for name, placer in found.items()}
    assert not accepted[Repacking.name]  # a 4g and two 3g need both GPUs
    assert replay(split[:4], WholeGpus(2)).accepted.sum() == 4 * 9 + 4 * 1
    crossed = [Request(0, 9, THREE, 1), Request(0, 1, WHOLE, 1), Request(0, 9, ONE, 4), Request(2, 9, WHOLE, 1)]
    assert replay(crossed, Repacking(2)).accepted[WHOLE] == 8 * (1 + 7)


@pytest.mark.parametrize("name", by_name())
def test_nobody_holds_more_than_there_is_and_a_gang_stays_on_one_node(name):
    requests = arrivals(MIXES["uniform"], 1.5, gpus=4, count=400, seed=2)
    tally = replay(requests, by_name()[name])
    assert 0.2 < tally.within / tally.seconds / (8 * 4) <= 1
    gang, limitless = [Request(0, 9, WHOLE, 1), Request(0, 9, WHOLE, 3)], {Repacking.name, WholeGpus.name}
    assert bool(replay(gang, by_name()[name]).accepted[WHOLE] > 8 * 9) == (name in limitless)


def test_pods_of_one_gpu_are_laid_onto_the_shares_by_what_they_ask_for(tmp_path):
    head = "name,num_gpu,gpu_milli,creation_time,deletion_time\n"
    lines = [f"p{number},1,{10 * number},{number},{number + 50}" for number in range(100)]
    (tmp_path / openb.PODS).write_text(head + "\n".join([*lines, "none,0,0,1,2", "gang,4,1000,3,9", "never,1,5,7,7"]))
    requests = openb._requests(openb._pods(tmp_path / openb.PODS), seed=1)
    counts = [sum(request.row == row and request.ranks == 1 for request in requests) for row in range(len(SHAPES))]
    assert counts == list(MIXES["small-heavy"])
    assert [request.ranks for request in requests if request.ranks > 1] == [4]
    assert max(request.start for request in requests if request.row == ONE) == 39


def test_without_the_trace_it_is_skipped_by_name_and_a_wrong_one_is_an_error(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    openb.run(Options(1, True, {}), Board())
    assert "openb is skipped" in capsys.readouterr().err
    with pytest.raises(SystemExit, match="No trace"):
        openb.run(Options(1, True, {"traces": tmp_path}), Board())


def test_first_fit_is_among_the_peers():
    assert {FIRST_FIT, "worst-fit", "best-fit", "mcc", "fgd", "fgd-uniform", "random"} < set(by_name())
