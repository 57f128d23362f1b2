"""The command line of the benchmarks: what nobody knows is an error, and a figure says by itself whether it is met."""

import argparse

import pytest

from tests.bench.arguments import above_zero, mix, parse
from tests.bench.figures import Board
from tests.bench.registry import BENCHMARKS


def test_each_benchmark_takes_a_seed_and_its_quick_form():
    for name in BENCHMARKS:
        found, options = parse([name, "--seed", "7", "--quick"])
        assert (found, options.seed, options.quick, list(options.seeds)) == (name, 7, True, [7])
    assert list(parse(["web", "--seed", "3"])[1].seeds) == [3, 4, 5, 6, 7]
    assert not parse(["web", "--full"])[1].quick
    assert parse(["all"])[1].quick


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["nonsense"],
        ["web", "--load", "1.1"],
        ["web", "--qui"],
        ["web", "--full", "--quick"],
        ["booking", "more"],
        ["all", "--quick"],
    ],
)
def test_what_a_benchmark_does_not_know_is_an_error(arguments, capsys):
    with pytest.raises(SystemExit) as ended:
        parse(arguments)
    assert ended.value.code == 2
    assert "usage" in capsys.readouterr().err


def test_a_mix_is_six_shares_of_a_hundred_and_a_load_is_above_zero():
    assert mix("30,10,20,20,10,10") == (30, 10, 20, 20, 10, 10)
    for text in ("50,50", "90,0,0,0,0,0", "-10,110,0,0,0,0"):
        with pytest.raises(argparse.ArgumentTypeError):
            mix(text)
    for text in ("0", "-1", "nan"):
        with pytest.raises(argparse.ArgumentTypeError):
            above_zero(text)


def test_a_figure_is_one_line_that_ends_in_ok_or_short(capsys):
    board = Board()
    board.add("web.reservations", "cpu_ms", 12.34, "<=60")
    assert not board.is_short
    board.add("placement.uniform.1.1", "lost", 0.461, "<=0.45", stretch="<=0.35")
    board.add("booking", "double_bookings", 0, "<=0")
    board.note("context")
    told = capsys.readouterr()
    assert told.out.splitlines() == [
        "bench web.reservations cpu_ms=12.3 target<=60 OK",
        "bench placement.uniform.1.1 lost=0.461 target<=0.45 stretch<=0.35 SHORT",
        "bench booking double_bookings=0 target<=0 OK",
    ]
    assert told.err == "context\n"
    assert board.is_short
