"""Why a request waits, in one sentence with its numbers."""

import datetime as dt

from django.utils.dateparse import parse_datetime
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from portal.reservations.models import Wait
from portal.reservations.queue_plan import Waits
from portal.reservations.reasons import slice_hours
from portal.reservations.templatetags.berth_format import moment

NUMBERS = ("ahead", "limit", "held", "asked", "at_most", "ranks", "most")


def reason_sentence(wait: Wait) -> str:
    """In the reader's language and zone; evidence that is missing leaves out its part."""
    told = _told(wait)
    if wait.fixed and wait.reason == Waits.NO_ROOM:
        return _("This window is taken still. What becomes free of it is offered in order.")
    sentence = _with_until(wait.reason, told) if told["until"] else _without(wait.reason, told)
    return sentence % told


def _told(wait: Wait) -> dict:
    evidence = {name: 0 for name in NUMBERS} | {"tenant": "–", "period": "–", "hours": "–"} | dict(wait.evidence)
    until = parse_datetime(str(evidence.get("until") or ""))
    evidence["until"] = moment(until) if isinstance(until, dt.datetime) else ""
    evidence["give_up_at"] = moment(wait.give_up_at)
    for name in ("amount", "left"):
        evidence[name] = slice_hours(max(0, int(evidence.get(f"{name}_slice_seconds") or 0)))
    evidence["needs"] = slice_hours(int(evidence.get("asked_slice_seconds") or 0), up=True)
    return evidence


def _with_until(reason: str, told: dict) -> str:
    sentences = {
        Waits.NO_ROOM: _("No room until %(until)s."),
        Waits.MAINTENANCE: _("The machines are in maintenance until %(until)s."),
        Waits.LIMIT: _("%(tenant)s holds %(held)d of its %(limit)d slices until %(until)s."),
        Waits.BUDGET: _("The budget of %(tenant)s allows it from %(until)s on."),
        Waits.PERSON: _("You hold %(held)d of the %(most)d slices that one person of %(tenant)s may, until %(until)s."),
        Waits.HOURS: _("%(tenant)s may use this pool at these hours only: %(hours)s. The next are from %(until)s on."),
        Waits.NOT_BEFORE: _("It was asked for from %(until)s on."),
        Waits.NO_ACCESS: _("%(tenant)s has no quota in this pool before %(until)s."),
        Waits.OFFERED: _("The window is offered to you until %(until)s."),
        Waits.BEHIND: _behind(told, _("It is to start at %(until)s.")),
    }
    return sentences.get(Waits(reason), _("The rules of the tenant allow it from %(until)s on."))


def _without(reason: str, told: dict) -> str:
    sentences = {
        Waits.NO_ROOM: _("No room, and none is in sight before it is given up at %(give_up_at)s."),
        Waits.MAINTENANCE: _("The machines are in maintenance."),
        Waits.NO_DEVICE: _("%(at_most)d of %(ranks)d would fit on the GPUs that are in service now."),
        Waits.LIMIT: _("%(tenant)s holds %(held)d of its %(limit)d slices; this asks for %(asked)d more."),
        Waits.BUDGET: _("%(tenant)s has %(left)s of its %(amount)s slice-h left in %(period)s; this needs %(needs)s."),
        Waits.PERSON: _("You hold %(held)d of the %(most)d slices that one person of %(tenant)s may."),
        Waits.HOURS: _("%(tenant)s may use this pool at these hours only: %(hours)s."),
        Waits.NO_ACCESS: _("Its owner or its tenant may not use this pool any more."),
        Waits.CROWDED_OUT: _("Somebody else was first a moment ago."),
        Waits.DISPLACED: _("It gave way to a guaranteed reservation and looks for another place."),
        Waits.BEHIND: _behind(told, ""),
    }
    if not reason:
        return _("It is about to be looked at.")
    return sentences.get(Waits(reason), _("The rules of the tenant do not allow it now."))


def _behind(told: dict, rest: str) -> str:
    first = ngettext(
        "%(ahead)d request comes first: its tenant used less of its share, or it waits longer.",
        "%(ahead)d requests come first: their tenants used less of their share, or they wait longer.",
        int(told["ahead"]),
    )
    return f"{first} {rest}".strip()
