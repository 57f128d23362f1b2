"""What if there were more nodes, another model, or another way to place?"""

import argparse
import datetime as dt
import json
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import timezone
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.inventory.models import Pool
from portal.reports.replay_demand import TraceUnreadable, asks_in, asks_of, history, read_trace
from portal.reports.replay_fleet import NoSuchFleet, PoolFleet, changed, fleet_of
from scheduler.placement.policies import POLICIES
from scheduler.placement.replaying import Ask, Bound, Outcome, replay

HOUR_SECONDS = 3600
AsksOn = Callable[[PoolFleet], list[Ask]]


class Command(BaseCommand):
    help = (
        "Replay what was asked for, the reservations of the last days or a trace, on the GPUs as they are and as they "
        "might be: how much would have begun, after what wait, how much would have been allocated, and what stood in "
        "the way. Nothing is changed. A trace is CSV with start, end (seconds or ISO 8601), profile or share of a GPU, "
        "and ranks; the openb trace is read as it is."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--trace", type=Path, metavar="FILE", help="replay this instead of the own history")
        parser.add_argument("--days", type=_above_zero, default=30, metavar="N", help="of the own history; 30")
        parser.add_argument("--pool", metavar="NAME", help="only this one")
        parser.add_argument("--nodes", type=int, default=0, metavar="+N", help="so many more, or with --nodes=-N fewer")
        parser.add_argument("--model", metavar="NAME", help="all GPUs of this model, which some node has reported")
        parser.add_argument("--policy", choices=sorted(POLICIES), default="berth", help="how to place")
        parser.add_argument(
            "--patience", type=_above_zero, default=24, metavar="HOURS", help="for which a request waits; 24"
        )
        parser.add_argument("--json", action="store_true", help="for programs, instead of the table")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            runs = [run for pool in _pools(options["pool"]) for run in _runs(pool, options)]
        except (NoSuchFleet, TraceUnreadable, OSError) as error:
            raise CommandError(str(error)) from error
        if options["json"]:
            self.stdout.write(json.dumps(_document(runs, options), indent=2, ensure_ascii=False))
            return
        for line in _table([_head(), *map(_row, runs)]):
            self.stdout.write(line)
        self.stdout.write(
            _(
                "Begun: within the patience. Bound by: how many did not begin at once, by what stood in the way. "
                "Layout: packed anew they would have had room."
            )
        )


@dataclass(frozen=True)
class Run:
    """The demand of a pool, replayed on its fleet or on another."""

    pool: Pool
    there: PoolFleet
    policy: str
    outcome: Outcome


def _pools(name: str | None) -> list[Pool]:
    pools = Pool.objects.filter(gpus__present=True).distinct()
    chosen = list(pools.filter(name=name) if name else pools)
    if not chosen:
        raise NoSuchFleet(_("There is no such pool with GPUs."))
    return chosen


def _runs(pool: Pool, options: dict[str, Any]) -> list[Run]:
    """One as it is, and one as it might be if that is anything else."""
    here = fleet_of(pool)
    asks_on = _demand(pool, options)
    there = changed(here, pool, options["nodes"], options["model"])
    runs = [_run(pool, here, "berth", asks_on, options)]
    if there != here or options["policy"] != "berth":
        runs.append(_run(pool, there, options["policy"], asks_on, options))
    return runs


def _demand(pool: Pool, options: dict[str, Any]) -> AsksOn:
    if options["trace"]:
        trace = read_trace(options["trace"])
        return lambda fleet: asks_in(trace, fleet)
    now = timezone.now()
    reservations = history(pool, now - dt.timedelta(days=options["days"]), now)
    return lambda fleet: asks_of(reservations, pool, fleet)


def _run(pool: Pool, there: PoolFleet, policy: str, asks_on: AsksOn, options: dict[str, Any]) -> Run:
    fleet = there.fleet
    patience_seconds = options["patience"] * HOUR_SECONDS
    return Run(pool, there, policy, replay(asks_on(there), fleet, POLICIES[policy](fleet), patience_seconds))


def _head() -> list[str]:
    return [
        _("Pool"), _("Fleet"), _("Placing"), _("Asked"), _("Begun"), _("Wait, mean"), _("Wait, 95 %"), _("Allocated"),
        _("Bound by"),
    ]  # fmt: skip


def _row(run: Run) -> list[str]:
    nodes = ngettext("%(count)s node", "%(count)s nodes", run.there.nodes) % {"count": run.there.nodes}
    model = run.there.model.removeprefix("NVIDIA ")
    told = _("%(nodes)s, %(gpus)d × %(model)s") % {"nodes": nodes, "gpus": len(run.there.fleet.gpus), "model": model}
    outcome = run.outcome
    return [
        run.pool.name, told, run.policy, str(outcome.asked), f"{outcome.accepted:.1%}", _hours(outcome.wait_mean),
        _hours(outcome.wait_seconds(0.95)), f"{outcome.allocated:.1%}", _bound_by(outcome),
    ]  # fmt: skip


def _bound_by(outcome: Outcome) -> str:
    """What stood in the way of most first."""
    words = {
        Bound.CAPACITY: _("capacity"),
        Bound.LAYOUT: _("layout"),
        Bound.QUOTA: _("quota"),
        Bound.TOO_LARGE: _("too large"),
    }
    return ", ".join(f"{count} {words[bound]}" for bound, count in outcome.bound.most_common()) or "–"


def _document(runs: list[Run], options: dict[str, Any]) -> dict[str, Any]:
    """Shares are between 0 and 1; names do not depend on the language."""
    return {
        "trace": str(options["trace"]) if options["trace"] else None,
        "days": None if options["trace"] else options["days"],
        "patience_seconds": options["patience"] * HOUR_SECONDS,
        "runs": [
            {
                "pool": run.pool.name,
                "nodes": run.there.nodes,
                "gpus": len(run.there.fleet.gpus),
                "model": run.there.model,
                "policy": run.policy,
                "asked": run.outcome.asked,
                "begun": len(run.outcome.waits),
                "accepted": run.outcome.accepted,
                "wait_mean_seconds": run.outcome.wait_mean,
                "wait_p95_seconds": run.outcome.wait_seconds(0.95),
                "allocated": run.outcome.allocated,
                "bound_by": {bound.value: run.outcome.bound[bound] for bound in Bound},
            }
            for run in runs
        ],
    }


def _hours(seconds: float) -> str:
    return _("%(count)s h") % {"count": f"{seconds / HOUR_SECONDS:.1f}"}


def _table(rows: list[list[str]]) -> list[str]:
    widths = [max(map(_width, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(cell + " " * (width - _width(cell)) for cell, width in zip(row, widths, strict=True)).rstrip()
        for row in rows
    ]


def _width(text: str) -> int:
    """In columns of a terminal, of which a wide character takes two."""
    return sum(2 if unicodedata.east_asian_width(letter) in "WF" else 1 for letter in text)


def _above_zero(text: str) -> float:
    if not (value := float(text)) > 0:
        raise argparse.ArgumentTypeError("a number above 0")
    return value
