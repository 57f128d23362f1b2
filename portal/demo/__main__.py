"""``python -m portal.demo``: what ``make demo`` and ``make demo-reset`` run."""

import argparse
import logging
import os
import shutil
import signal
import sys
import time
from pathlib import Path

from portal.demo.lock import HomeInUse, HomeLock, stop_left_over
from portal.demo.places import places_of
from portal.demo.ports import PortBusy, choose_port, wanted_port
from portal.demo.processes import StartCancelled, StartFailed
from portal.demo.servers import ServerFailed
from portal.demo.supervisor import Stack

HOME = Path(os.environ.get("BERTH_HOME") or ".berth").resolve()


def tell(line: str) -> None:
    sys.stdout.write(f"{line}\n")
    sys.stdout.flush()


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m portal.demo", description=__doc__)
    parser.add_argument("--reset", action="store_true", help="forget the data of the demo and end")
    arguments = parser.parse_args()
    logging.basicConfig(level=logging.WARNING, format="  %(message)s")
    try:
        return reset() if arguments.reset else run()
    except (HomeInUse, PortBusy, StartFailed, ServerFailed) as refusal:
        sys.stderr.write(f"{refusal}\n")
        return 1


def run() -> int:
    """Start, say where, keep it going until Ctrl-C or TERM, stop. A signal that comes while it starts stops it too.

    The handlers stay until the end: the stop is under way and bounded, and a second Ctrl-C must not tear it.
    """
    wanted = wanted_port(os.environ.get("PORT", ""))
    end_left_over(HOME)
    port = choose_port(wanted)
    stack = Stack(HOME, port, password=os.environ.get("BERTH_DEMO_PASSWORD") or "berth-demo", tell=tell)
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, lambda *_: stack.cancelled.set())
    tell(f"Starting Berth in {HOME} ...")
    try:
        _welcome(stack, stack.start())
    except StartCancelled:
        tell("Stopped before it was ready.")
        return 0
    stack.watch()
    began = time.monotonic()
    tell("\nStopping ...")
    stack.stop()
    tell(f"Stopped after {time.monotonic() - began:.1f} s. The data stays in {HOME}.")
    return 0


def end_left_over(home: Path) -> None:
    """Stop what a killed demo left running here, before a port is chosen: its web may hold it still."""
    lock = HomeLock(home)
    lock.take()
    try:
        for name in stop_left_over(home):
            tell(f"  {name:<12} left over by a stack that was killed: stopped")
    finally:
        lock.release()


def reset() -> int:
    end_left_over(HOME)
    servers = places_of(HOME).servers
    for folder in (servers, HOME):
        if folder.exists():
            shutil.rmtree(folder)
    tell(f"{HOME} is forgotten.")
    if os.environ.get("DATABASE_URL"):
        tell("DATABASE_URL names a server of your own: what the demo wrote there stays.")
    return 0


def _welcome(stack: Stack, seconds: float) -> None:
    tell(f"\nBerth is ready after {seconds:.0f} s:  {stack.url}\n")
    for account in stack.accounts:
        tell(f"  {account['email']:<28} {account['what']}")
    tell(f"  password for all: {stack.password}\n")
    tell("Begin as rosa: Home, Reserve now. Then lin answers a question, ada looks at Fleet and cordons a node.\n")
    if not os.environ.get("EMAIL_HOST"):
        tell(f"E-mails are files in {HOME / 'mail'}.")
    tell(f"Ctrl-C stops everything; the data stays in {HOME} (make demo-reset forgets it).")


if __name__ == "__main__":
    sys.exit(main())
