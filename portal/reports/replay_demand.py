"""What was asked for, to be replayed: the reservations that held a pool, or the lines of a trace."""

import csv
import datetime as dt
from collections import defaultdict
from collections.abc import Callable
from math import isfinite
from pathlib import Path

from django.utils.translation import gettext as _

from portal.inventory.models import Pool, Profile
from portal.quotas.models import Quota
from portal.reports.replay_fleet import PoolFleet
from portal.reservations.models import Reservation, State
from scheduler.placement.replaying import Ask

HELD = [State.CONFIRMED, State.RUNNING, State.ENDED]
# The columns of a trace by the names that are understood; the second are those of the openb trace.
START, END = ("start", "creation_time"), ("end", "deletion_time")
PROFILE, RANKS, SHARE = ("profile",), ("ranks", "num_gpu"), ("share", "gpu_milli")

# The number of a line, and its values by column.
Line = tuple[int, dict[str, str]]


class TraceUnreadable(ValueError):
    """The message names the line."""


def history(pool: Pool, since: dt.datetime, until: dt.datetime) -> list[Reservation]:
    """Reservations that held a place in the pool and began in this time. What was refused left no row."""
    rows = Reservation.objects.filter(pool=pool, state__in=HELD, during__startswith__gte=since)
    return list(rows.filter(during__startswith__lt=until).select_related("tenant", "profile"))


def asks_of(reservations: list[Reservation], pool: Pool, there: PoolFleet) -> list[Ask]:
    """With the limits of today's quotas; hours at which a quota may be used, budgets and policies are not replayed."""
    quotas: defaultdict[int, list[Quota]] = defaultdict(list)
    for quota in Quota.objects.filter(pool=pool):
        quotas[quota.tenant_id].append(quota)
    asks = []
    for one in reservations:
        profile = there.profile_for(one.profile)
        weight = one.weight if profile == one.profile else profile.weight if profile else 0
        ended = min(one.ended_at or one.during.upper, one.during.upper)
        limits = tuple(
            (quota.pk, quota.limit)
            for tenant_id in one.tenant.ancestor_ids
            for quota in quotas[tenant_id]
            if quota.part_of(one.during)
        )
        asks.append(
            Ask(
                start=one.during.lower.timestamp(),
                planned_seconds=one.planned_seconds,
                seconds=max(0.0, (ended - one.during.lower).total_seconds()),
                shape=profile.name if profile else None,
                ranks=one.ranks,
                weight=weight * one.ranks,
                limits=limits,
            )
        )
    return asks


def read_trace(path: Path) -> list[Line]:
    """The lines of a CSV file with a head, by their numbers. Which columns it needs is said where one is missing."""
    with path.open(newline="", encoding="utf-8-sig") as lines:
        reader = csv.DictReader(lines, strict=True)
        try:
            names = set(reader.fieldnames or ())
            if not (names & set(START) and names & set(END) and names & {*PROFILE, *SHARE}):
                raise TraceUnreadable(
                    _("A trace needs the columns start and end, and profile or share; ranks may be given.")
                )
            return [_line(row, reader.line_num) for row in reader]
        except csv.Error as error:
            raise _unreadable(reader.line_num + 1, _("it is no CSV: %(error)s.") % {"error": error}) from error
        except UnicodeDecodeError as error:
            raise TraceUnreadable(_("%(file)s is not in UTF-8.") % {"file": path}) from error


def _line(row: dict[str, str], number: int) -> Line:
    if None in row:
        raise _unreadable(number, _("it has more values than there are columns."))
    return number, row


def _unreadable(number: int, reason: str) -> TraceUnreadable:
    return TraceUnreadable(_("Line %(number)s: %(reason)s") % {"number": number, "reason": reason})


def asks_in(trace: list[Line], there: PoolFleet) -> list[Ask]:
    """Lines without a GPU, and those that end as they begin, ask for nothing."""
    by_name = {profile.name: profile for profile in there.profiles}
    return [ask for number, row in trace if (ask := _ask(row, number, by_name, there))]


def _ask(row: dict[str, str], number: int, by_name: dict[str, Profile], there: PoolFleet) -> Ask | None:
    start, end = _value(row, number, START, _moment), _value(row, number, END, _moment)
    ranks = int(_value(row, number, RANKS, _count, "1"))
    if end < start:
        raise _unreadable(number, _("it ends before it begins."))
    if not ranks or end == start:
        return None
    if _column(row, PROFILE):
        profile = by_name.get(row["profile"])
    else:
        profile = there.profile_for_share(1 if ranks > 1 else _share(row, number))
    return Ask(start, end - start, end - start, profile.name if profile else None, ranks)


def _share(row: dict[str, str], number: int) -> float:
    share = _value(row, number, SHARE, _finite)
    share = share / 1000 if _column(row, SHARE) == "gpu_milli" else share
    if not 0 < share <= 1:
        raise _unreadable(number, _("a share of a GPU is above 0 and at most 1, not %(share)g.") % {"share": share})
    return share


def _value(
    row: dict[str, str], number: int, names: tuple[str, ...], read: Callable[[str], float], default: str = ""
) -> float:
    column = _column(row, names)
    text = row[column] if column else default
    try:
        return read(text)
    except ValueError as error:
        if not column:
            raise _unreadable(number, _("%(column)s is missing.") % {"column": names[0]}) from error
        reason = _("“%(text)s” is no %(column)s.") % {"text": text, "column": column}
        raise _unreadable(number, reason) from error


def _column(row: dict[str, str], names: tuple[str, ...]) -> str | None:
    return next((name for name in names if row.get(name)), None)


def _finite(text: str) -> float:
    if not isfinite(value := float(text)):
        raise ValueError(text)
    return value


def _count(text: str) -> float:
    value = _finite(text)
    if value < 0 or value != int(value):
        raise ValueError(text)
    return value


def _moment(text: str) -> float:
    """Seconds, or a time by ISO 8601, of which one without a zone is UTC."""
    if text.replace(".", "", 1).isdigit():
        return float(text)
    moment = dt.datetime.fromisoformat(text)
    return (moment if moment.tzinfo else moment.replace(tzinfo=dt.UTC)).timestamp()
