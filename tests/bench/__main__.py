"""``python -m tests.bench NAME [--seed N] ...``: measures, prints one line a figure, and exits with 1 if any is short.

Figures go to stdout, all else to stderr.
"""

import importlib
import os
import signal
import subprocess
import sys
import time

import django
from django.core.management import call_command

from tests.bench.arguments import EVERY, parse
from tests.bench.figures import Board
from tests.bench.registry import BENCHMARKS, Options


def main(arguments: list[str]) -> int:
    name, options = parse(arguments)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that what was started is stopped
    if name == EVERY:
        return _run_every(options)
    benchmark, board, began = BENCHMARKS[name], Board(), time.monotonic()
    board.note(f"{benchmark.what}, {'quick form: one seed and less of everything' if options.quick else 'in full'}")
    if benchmark.needs_servers:
        _start_own_servers()
    benchmark.run(options, board)
    board.note(f"{name} took {time.monotonic() - began:.0f} s")
    return int(board.is_short)


def _run_every(options: Options) -> int:
    """Each in a process of its own, so that none inherits another's servers or warm caches."""
    return int(any([_run_alone(name, options) for name in BENCHMARKS]))


def _run_alone(name: str, options: Options) -> int:
    """A benchmark that is told to stop stops its servers first."""
    process = subprocess.Popen([sys.executable, "-m", "tests.bench", name, "--quick", "--seed", str(options.seed)])
    try:
        return process.wait()
    finally:
        process.terminate()
        process.wait()


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
