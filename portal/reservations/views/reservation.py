"""One reservation: is it working, how long still, what it used, its log, and giving it back."""

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy as _lazy
from django.views.decorators.http import require_GET, require_http_methods

from portal.reservations.changing import release_reservation
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Reservation, State
from portal.reservations.queue_line import number_in_line
from portal.reservations.selectors import reservations_of
from portal.reservations.story import Story, may_change_here, story_of

RANGE_LABELS = [("10m", _lazy("10 min")), ("1h", _lazy("1 h")), ("all", _lazy("All"))]
RELATED = ("workload", "tenant", "profile", "owner", "pool", "wait")


def _seen(request: PageRequest, number: int) -> Reservation:
    return get_object_or_404(reservations_of(request.user).select_related(*RELATED), pk=number)


def _story(request: PageRequest, number: int) -> Story:
    reservation = _seen(request, number)
    rank = request.GET.get("rank", "0")
    shown = int(rank) if rank.isdecimal() and len(rank) < 5 else 0
    return story_of(reservation, shell_of(request), shown, request.GET.get("range", ""))


@login_required
@require_GET
def reservation(request: PageRequest, number: int) -> HttpResponse:
    """Answers as a page, or as its body alone to htmx."""
    story = _story(request, number)
    name = "reservations/reservation_body.html" if request.htmx else "reservations/reservation.html"
    waits = story.reservation.state == State.QUEUED
    number_shown = number_in_line(story.reservation, story.now) if waits else None
    context = {"story": story, "reservation": story.reservation, "number_in_line": number_shown}
    return render(request, name, {**context, "ranges": RANGE_LABELS})


@login_required
@require_http_methods(["GET", "POST"])
def reservation_release(request: PageRequest, number: int) -> HttpResponse:
    """GET asks, POST gives everything back; what is over already answers 409 and says so."""
    story = _story(request, number)
    if not may_change_here(shell_of(request), story.reservation):
        raise Http404
    context = {"story": story, "reservation": story.reservation}
    if request.method != "POST":
        return render(request, "reservations/release.html", context)
    return _release(request, story, context)


def _release(request: PageRequest, story: Story, context: dict) -> HttpResponse:
    try:
        done = release_reservation(reservation=story.reservation, actor=request.user)
    except ReservationRefused as refusal:
        context["refusal"] = refusal
        return render(request, "reservations/release.html", context, status=refusal.status)
    said = _("%(name)s is cancelled.") if done.state == "cancelled" else _("%(name)s is being released.")
    messages.success(request, said % {"name": story.reservation.workload.name})
    response = redirect("reservation", number=done.pk)
    response.status_code = 303
    return response


@login_required
@require_GET
def reservation_log(request: PageRequest, number: int) -> HttpResponse:
    """The kept tail of the log as a text file; a log that still grows comes over the socket instead."""
    story = _story(request, number)
    if story.stored_log is None:
        raise Http404
    response = HttpResponse(story.stored_log, content_type="text/plain; charset=utf-8")
    response["Content-Disposition"] = f'attachment; filename="{story.reservation.number}-{story.rank}.log"'
    return response
