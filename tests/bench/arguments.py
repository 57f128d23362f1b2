"""The command line: ``NAME [--seed N] [--quick]`` and what that benchmark knows besides. Anything else is an error."""

import argparse
from pathlib import Path
from typing import Any

from tests.bench.registry import BENCHMARKS, Options

EVERY = "all"
MIX_PARTS = 6


def mix(text: str) -> tuple[float, ...]:
    """Shares of 1g.10gb, 1g.20gb, 2g.20gb, 3g.40gb, 4g.40gb, 7g.80gb in percent."""
    parts = tuple(float(part) for part in text.split(","))
    if len(parts) != MIX_PARTS or min(parts) < 0 or abs(sum(parts) - 100) > 1e-6:
        raise argparse.ArgumentTypeError(f"six shares that add up to 100, not {text!r}")
    return parts


def above_zero(text: str) -> float:
    if not (value := float(text)) > 0:
        raise argparse.ArgumentTypeError(f"a number above 0, not {text!r}")
    return value


OPTIONS: dict[str, dict[str, Any]] = {
    "trace": {"type": Path, "metavar": "FILE", "help": "a trace to replay"},
    "traces": {"type": Path, "metavar": "DIR", "help": "the folder with the traces"},
    "mix": {"type": mix, "metavar": "A,B,C,D,E,F", "help": mix.__doc__},
    "load": {"type": above_zero, "metavar": "X", "help": "demand as a share of capacity"},
    "gpus": {"type": int, "metavar": "N", "help": "GPUs of the fleet"},
}


def parse(arguments: list[str]) -> tuple[str, Options]:
    """The benchmark's name, or ``all``, and its options. Exits with a sentence for what nobody knows."""
    parser = argparse.ArgumentParser(prog="python -m tests.bench", allow_abbrev=False)
    names = parser.add_subparsers(dest="name", metavar="NAME", required=True)
    for name, benchmark in BENCHMARKS.items():
        one = names.add_parser(name, help=benchmark.what, allow_abbrev=False)
        one.add_argument("--seed", type=int, default=1, metavar="N", help="the first of five seeds")
        form = one.add_mutually_exclusive_group()
        form.add_argument("--quick", action="store_true", help="less of everything, in many one seed")
        form.add_argument("--full", dest="quick", action="store_false", help="five seeds, as without either")
        for option in benchmark.options:
            one.add_argument(f"--{option}", **OPTIONS[option])
    every = names.add_parser(EVERY, help="each of them in its quick form", allow_abbrev=False)
    every.add_argument("--seed", type=int, default=1, metavar="N")
    found = vars(parser.parse_args(arguments))
    name, seed, quick = found.pop("name"), found.pop("seed"), found.pop("quick", True)
    return name, Options(seed, quick, {key: value for key, value in found.items() if value is not None})
