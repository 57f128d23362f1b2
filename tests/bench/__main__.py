"""``python -m tests.bench NAME [--seed N] ...``: measures and prints one line a figure.

Figures go to stdout, all else to stderr. Exit status: 0 if all targets are met, 1 if any is short, 2 if something could
not be measured at all, whatever the others gave; 143 if told to stop.
"""

import importlib
import os
import signal
import sys
import time
import traceback

import django
from django.core.management import call_command

from tests.bench.arguments import EVERY, parse
from tests.bench.figures import Board
from tests.bench.registry import BENCHMARKS, Options
from tests.bench.summary import FAILED, run_alone, status_of, table_of


def main(arguments: list[str]) -> int:
    name, options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is stopped
    if name == EVERY:
        return _run_every(options)
    benchmark, board, began = BENCHMARKS[name], Board(), time.monotonic()
    board.note(f"{benchmark.what}, {'quick form: less of everything' if options.quick else 'in full'}")
    try:
        if benchmark.needs_servers:
            _start_own_servers()
        benchmark.run(options, board)
    except Exception:  # a fault of the benchmark is no missed target
        traceback.print_exc()
        return FAILED
    board.note(f"{name} took {time.monotonic() - began:.0f} s")
    return int(board.is_short)


def _run_every(options: Options) -> int:
    module = [sys.executable, "-m", "tests.bench"]
    courses = [run_alone([*module, name, "--quick", "--seed", str(options.seed)], name) for name in BENCHMARKS]
    sys.stderr.write("\n".join(["", *table_of(courses), ""]))
    return status_of(courses)


def _start_own_servers() -> None:
    """Whatever the environment names is left alone: what a benchmark fills and stops is its own."""
    for name in ("DATABASE_URL", "REDIS_URL", "BERTH_HOME"):
        os.environ.pop(name, None)
    os.environ["DJANGO_SETTINGS_MODULE"] = "tests.bench.settings"
    os.environ.setdefault("LOG_LEVEL", "ERROR")
    importlib.import_module("tests.servers")  # starts them now, and stops them at the end of the process
    django.setup()
    call_command("migrate", verbosity=0)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
