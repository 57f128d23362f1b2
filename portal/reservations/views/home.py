"""Home: what of mine runs, what is next, what is free; and the list of what was."""

import datetime as dt

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.db.models import F, Func, Prefetch, Q, QuerySet
from django.http import HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.views.decorators.http import require_GET

from portal.reservations.canvas import Frame
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.day_rows import day_rows
from portal.reservations.models import LIVE, OPEN, Lease, Reservation, State
from portal.reservations.selectors import reservations_of
from portal.reservations.use_series import KEPT_AFTER, Stretch, use_series

CARDS_MOST, NEXT_MOST, DAY_MOST, PAGE_ROWS = 25, 10, 8, 50
SPARK = {"step": 10, "points": 60}
WAITING = [State.REQUESTED, State.QUEUED]
LEASES = Lease.objects.select_related("gpu__node").order_by("rank", "-pk")


def _with_all(found: QuerySet[Reservation]) -> QuerySet[Reservation]:
    related = found.select_related("workload", "tenant", "profile", "owner", "pool", "wait")
    return related.prefetch_related(Prefetch("leases", LEASES.filter(state__in=LIVE), to_attr="live_leases"))


@login_required
@require_GET
def home(request: PageRequest) -> HttpResponse:
    """Answers as a page, or as its main column alone to htmx."""
    now = timezone.now()
    frame = _day(now)
    today = Q(during__overlap=(frame.since, frame.until)) & ~Q(state__in=[State.REFUSED, State.CANCELLED])
    mine = reservations_of(request.user).filter(Q(state__in=[*OPEN, *WAITING]) | today, owner=request.user)
    ordered = _with_all(mine).order_by(Func(F("during"), function="lower"), "pk")
    found = list(ordered[: CARDS_MOST + NEXT_MOST + 200])
    running = [one for one in found if one.state == State.RUNNING or (one.state in OPEN and one.starts_at <= now)]
    coming = [one for one in found if one not in running and one.state in [*OPEN, *WAITING]]
    cards = running[:CARDS_MOST]
    _add_use(cards, now)
    context = {
        "cards": cards,
        "offers": [one for one in coming if one.state == State.QUEUED and one.hold_expires_at][:NEXT_MOST],
        "running_count": len(running),
        "coming": coming[:NEXT_MOST],
        "coming_count": len(coming),
        "planned_count": sum(one.state in OPEN for one in coming),
        "waiting_count": sum(one.state in WAITING for one in coming),
        "frame": frame,
        "rows": day_rows(found, frame, DAY_MOST),
        "may_reserve": shell_of(request).may_reserve,
    }
    return render(request, "reservations/home_main.html" if request.htmx else "reservations/home.html", context)


def _day(now: dt.datetime) -> Frame:
    """24 hours in which now lies about a third from the left, on a full hour."""
    hour = timezone.localtime(now).replace(minute=0, second=0, microsecond=0)
    return Frame(hour - dt.timedelta(hours=8), hour + dt.timedelta(hours=16))


def _add_use(cards: list, now: dt.datetime) -> None:
    series = use_series([lease.pk for one in cards for lease in one.live_leases], Stretch(now - KEPT_AFTER, **SPARK))
    for one in cards:
        one.lease = one.live_leases[0] if one.live_leases else None
        one.use_lately = series[one.lease.pk] if one.lease else {}


@login_required
@require_GET
def reservation_list(request: PageRequest) -> HttpResponse:
    """What I may see of the past, or what is open: mine, or of all my tenants."""
    shell = shell_of(request)
    shown = "open" if request.GET.get("show") == "open" else "past"
    everyone = request.GET.get("of") == "all"
    found = reservations_of(request.user)
    if not everyone:
        found = found.filter(owner=request.user)
    elif shell.tenant:
        found = found.filter(tenant__path__startswith=shell.tenant.path)
    states = [*OPEN, *WAITING] if shown == "open" else [State.ENDED, State.REFUSED, State.CANCELLED]
    ordered = found.filter(state__in=states).select_related("workload", "tenant", "profile", "owner", "pool")
    page = Paginator(ordered.order_by("-pk"), PAGE_ROWS).get_page(request.GET.get("page"))
    context = {"page": page, "shown": shown, "of": "all" if everyone else "mine"}
    return render(request, "reservations/list.html", context)
