"""All benchmarks in a row: one that fails, hangs or is short hides no other, and the end says by how much."""

import sys
import textwrap

import numpy as np
import pytest

from tests.bench import __main__ as bench
from tests.bench.figures import Figure, bound, figure_in
from tests.bench.placement.baselines import FIRST_FIT, Ours, Repacking
from tests.bench.placement.ondemand import lost
from tests.bench.placement.replay import Tally
from tests.bench.placement.rounds import noise_in, together
from tests.bench.registry import Benchmark, Options
from tests.bench.summary import Course, run_alone, status_of, table_of

MET = Figure("web.list", "cpu_ms", 12.0, bound("<=60"))
MISSED = Figure("booking.spread", "of_peer", 0.8, bound(">=1"), bound(">=3"))


def script(text: str) -> list[str]:
    return [sys.executable, "-c", textwrap.dedent(text)]


@pytest.mark.parametrize("figure", [MET, MISSED, Figure("a.b", "lost", 0.31, bound("<=0.3"), bound("<=0.2"), 0.05)])
def test_a_figure_is_read_from_its_line_as_it_was_printed(figure):
    assert figure_in(f"{figure}\n") == figure
    assert figure_in("12 passed in 3 s") is None


def test_within_the_noise_of_a_quick_form_nothing_is_short():
    assert Figure("a", "lost", 0.34, bound("<=0.3"), None, 0.05).is_met
    assert not Figure("a", "lost", 0.36, bound("<=0.3"), None, 0.05).is_met
    assert not Figure("a", "share", 0.9, bound(">=1"), None, 0.05).is_met


def test_figures_pass_through_and_a_crash_a_hang_and_silence_are_failures(capsys):
    fine = run_alone(script(f"print('{MET}'); print('{MISSED}'); raise SystemExit(1)"), "web")
    crashed = run_alone(script(f"print('{MET}'); raise SystemExit(2)"), "gang")
    hanging = run_alone(script("import time\nwhile True: time.sleep(60)"), "speed", seconds_most=0.5)
    silent = run_alone(script("pass"), "openb")
    assert capsys.readouterr().out.splitlines() == [str(MET), str(MISSED), str(MET)]
    assert (fine.figures, fine.failure) == ((MET, MISSED), "")
    assert crashed.figures == (MET,) and "exit status 2" in crashed.failure
    assert hanging.status < 0 and hanging.failure and silent.failure
    assert [status_of(some) for some in ([silent, fine], [fine], [Course("web", 0, 1.0, (MET,))])] == [2, 1, 0]


def test_the_table_says_by_how_much_and_what_failed():
    lines = table_of([Course("booking", 1, 61.2, (MET, MISSED)), Course("gang", 2, 3.0, ())])
    assert lines[1].split() == ["booking", "61", "1/2"]
    assert lines[2].strip() == "booking.spread of_peer=0.8, target >=1: short by 0.2 (20%)"
    assert "exit status 2" in lines[3]
    assert lines[4].endswith("1 met, 1 short, 1 failed")


def test_a_benchmark_that_fails_is_told_from_one_that_is_short(monkeypatch, capsys):
    monkeypatch.setitem(bench.BENCHMARKS, "web", Benchmark("tests.bench.no_such_module", "nothing"))
    monkeypatch.setattr(bench.signal, "signal", lambda *_: None)
    assert bench.main(["web"]) == 2
    assert "ModuleNotFoundError" in capsys.readouterr().err


def a_round(lost_share: float) -> dict[str, Tally]:
    def tally(total: float) -> Tally:
        return Tally(np.array([200.0]), np.array([total]), 0.0, 1.0)

    return {FIRST_FIT: tally(100), Repacking.name: tally(200), Ours.name: tally(200 - 100 * lost_share)}


def test_noise_is_that_of_a_mean_where_all_seeds_weigh_the_same():
    """Of a mean the jackknife's error is the standard error."""
    shares = [0.3, 0.35, 0.2, 0.4, 0.25]
    expected = 2.13 * np.std(shares, ddof=1) / np.sqrt(5)
    quick, full = Options(1, True, {}), Options(1, False, {})
    rounds = [a_round(share) for share in shares]
    assert lost(together(rounds)) == pytest.approx(np.mean(shares))
    assert (noise_in(rounds, lost, quick), noise_in(rounds, lost, full)) == (pytest.approx(expected), 0)
    assert noise_in([a_round(0.3)] * 5, lost, quick) == pytest.approx(0)
    assert noise_in([a_round(0.3)], lost, quick) == float("inf")
