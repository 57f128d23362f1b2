"""What if there were more nodes, another model, or another way to place?"""

import argparse
import datetime as dt
import unicodedata
from collections.abc import Callable
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

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            rows = [row for pool in _pools(options["pool"]) for row in _rows(pool, options)]
        except (NoSuchFleet, TraceUnreadable, OSError) as error:
            raise CommandError(str(error)) from error
        for line in _table([_head(), *rows]):
            self.stdout.write(line)
        self.stdout.write(
            _(
                "Begun: within the patience. Bound: how many did not begin at once, by what stood in the way. Layout: "
                "packed anew they would have had room."
            )
        )


def _pools(name: str | None) -> list[Pool]:
    pools = Pool.objects.filter(gpus__present=True).distinct()
    chosen = list(pools.filter(name=name) if name else pools)
    if not chosen:
        raise NoSuchFleet(_("There is no such pool with GPUs."))
    return chosen


def _rows(pool: Pool, options: dict[str, Any]) -> list[list[str]]:
    """One as it is, and one as it might be if that is anything else."""
    here = fleet_of(pool)
    asks_on = _demand(pool, options)
    there = changed(here, pool, options["nodes"], options["model"])
    rows = [_row(pool, here, "berth", asks_on, options)]
    if there != here or options["policy"] != "berth":
        rows.append(_row(pool, there, options["policy"], asks_on, options))
    return rows


def _demand(pool: Pool, options: dict[str, Any]) -> AsksOn:
    if options["trace"]:
        trace = read_trace(options["trace"])
        return lambda fleet: asks_in(trace, fleet)
    now = timezone.now()
    reservations = history(pool, now - dt.timedelta(days=options["days"]), now)
    return lambda fleet: asks_of(reservations, pool, fleet)


def _row(pool: Pool, there: PoolFleet, policy: str, asks_on: AsksOn, options: dict[str, Any]) -> list[str]:
    fleet = there.fleet
    outcome = replay(asks_on(there), fleet, POLICIES[policy](fleet), options["patience"] * HOUR_SECONDS)
    nodes = ngettext("%(count)s node", "%(count)s nodes", there.nodes) % {"count": there.nodes}
    told = _("%(nodes)s, %(gpus)d × %(model)s") % {"nodes": nodes, "gpus": len(fleet.gpus), "model": there.model}
    return [pool.name, told, policy, *_figures(outcome)]


def _head() -> list[str]:
    return [
        _("Pool"), _("Fleet"), _("Placing"), _("Asked"), _("Begun"), _("Wait, mean"), _("Wait, 95 %"), _("Allocated"),
        _("Bound: capacity"), _("layout"), _("quota"), _("too large"),
    ]  # fmt: skip


def _figures(outcome: Outcome) -> list[str]:
    mean = sum(outcome.waits) / len(outcome.waits) if outcome.waits else 0
    bounds = (Bound.CAPACITY, Bound.LAYOUT, Bound.QUOTA, Bound.TOO_LARGE)
    return [
        str(outcome.asked), f"{outcome.accepted:.1%}", _hours(mean), _hours(outcome.wait_seconds(0.95)),
        f"{outcome.allocated:.1%}", *(str(outcome.bound[bound]) for bound in bounds),
    ]  # fmt: skip


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
