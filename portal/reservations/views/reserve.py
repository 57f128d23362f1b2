"""Reserve: a form that is answered while it is filled in, and the booking itself."""

import datetime as dt
import uuid
from collections.abc import Mapping
from typing import Any

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse
from django.shortcuts import redirect, render
from django.utils import timezone
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from portal.reservations.answer import NO_ANSWER, Answer, answer_to, field_refused, picks_of
from portal.reservations.availability import with_alternatives
from portal.reservations.booking import book_reservation
from portal.reservations.canvas import viewer_of
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import GroupRefused, IdempotencyConflict, ReservationRefused
from portal.reservations.forms import (
    LENGTHS,
    OWN_COMMAND,
    ReserveForm,
    WindowForm,
    values_at_first,
    with_alternative,
    with_defaults,
)
from portal.reservations.group_form import WAYS
from portal.reservations.models import IdempotencyKey, Reservation, State
from portal.reservations.offer import offer_for
from portal.reservations.outlook import outlook_around
from portal.reservations.queueing import queue_request
from portal.reservations.templatetags.berth_format import moment
from portal.reservations.waitlist import join_waitlist
from portal.workloads.models import RankLoss

TYPED_FIELDS = (
    "ranks", "group", "restarts", "start_date", "start_time", "end_date", "end_time", "command", "name", "tenant",
)  # fmt: skip
SAME_CLICK = dt.timedelta(minutes=2)


@login_required
@require_http_methods(["GET", "POST"])
def reserve(request: PageRequest) -> HttpResponse:
    """GET shows the form, prefilled from the address; POST books and leads to the reservation, or says why not."""
    if not shell_of(request).may_reserve:
        raise PermissionDenied
    if request.method == "POST":
        return _post(request)
    form = _form(request, values_at_first(request.GET.dict()), choose=True)
    checked = "check" in request.GET
    answer = answer_to(form, viewer_of(shell_of(request)), asker=request.user) if checked else NO_ANSWER
    return render(request, "reservations/reserve.html", _context(form, answer, checked=checked))


@login_required
@require_GET
def reserve_preview(request: PageRequest) -> HttpResponse:
    """The answer to what the form says now: fits, where, price; or why not and what instead. Books nothing."""
    shell = shell_of(request)
    if not shell.may_reserve:
        raise PermissionDenied
    form = _form(request, values_at_first({}) | request.GET.dict(), choose=True)
    answer = answer_to(form, viewer_of(shell), asker=request.user)
    return render(request, "reservations/preview.html", _context(form, answer, checked=True))


def _form(request: PageRequest, values: Mapping[str, str], *, choose: bool) -> ReserveForm:
    """The form over what is offered; with ``choose`` the first of each takes the place of what is not offered."""
    when = WindowForm(values)
    when.is_valid()
    offer = offer_for(shell_of(request), values, when.request_window)
    return ReserveForm(offer, with_defaults(offer, values) if choose else values)


def _context(form: ReserveForm, answer: Answer, checked: bool) -> dict:
    """``checked``: errors are shown; a form that was only just opened has none yet."""
    valid = form.is_valid()
    return {
        "form": form,
        "offer": form.offer,
        "values": form.data,
        "answer": answer,
        "picks": picks_of(form.offer, form.request_window),
        "errors": form.errors if checked and not valid else {},
        "lengths": [str(hours) for hours in LENGTHS],
        "own": OWN_COMMAND,
        "group_ways": WAYS,
        "rank_losses": RankLoss.choices,
        "questions": form.questions,
        "typed_fields": TYPED_FIELDS,
    }


def _post(request: PageRequest) -> HttpResponse:
    form = _form(request, with_alternative(request.POST.dict()), choose=False)
    if not form.is_valid():
        return _again(request, form, NO_ANSWER, 422)
    try:
        booked = _book(request, form)
    except IdempotencyConflict as refusal:
        return _asked_before(request, form, refusal)
    except ReservationRefused as refusal:
        return _refused(request, form, refusal)
    messages.success(request, _said(booked) % {"name": booked.workload.name, "until": moment(booked.hold_expires_at)})
    return _see(booked)


def _said(booked: Reservation) -> str:
    if booked.state == State.REQUESTED:
        return _("A lead decides about %(name)s; its place is held until %(until)s.")
    return _("Waits in the queue: %(name)s.") if booked.state == State.QUEUED else _("Reserved: %(name)s.")


def _book(request: PageRequest, form: ReserveForm) -> Reservation:
    asked, during = form.cleaned_data, form.request_window
    assert form.draft is not None and during is not None
    what: dict[str, Any] = {
        "created_by": request.user,
        "owner": request.user,
        "workload": form.draft,
        **{name: asked[name] for name in ("tenant", "pool", "profile", "ranks", "key")},
    }
    if form.soon:
        return queue_request(**what, seconds=int((during.upper - during.lower).total_seconds()))
    if form.joins_waitlist:
        return join_waitlist(**what, during=during)
    return book_reservation(**what, during=during, together=form.together)


def _see(reservation: Reservation) -> HttpResponse:
    response = redirect("reservation", number=reservation.pk)
    response.status_code = 303
    return response


def _asked_before(request: PageRequest, form: ReserveForm, refusal: IdempotencyConflict) -> HttpResponse:
    """A second click a moment later asks for a window that starts a moment later: it is the same request still."""
    key = form.cleaned_data["key"]
    row = IdempotencyKey.objects.filter(user=request.user, key=key).select_related("reservation").first()
    earlier = row.reservation if row else None
    if earlier is not None and _same_click(form, earlier):
        return _see(earlier)
    number = earlier.number if earlier else "–"
    told = _("This form has booked %(number)s already. Send it again to book once more.")
    refusal.message = told % {"number": number}
    return _refused(request, form, refusal)


def _same_click(form: ReserveForm, earlier: Reservation) -> bool:
    asked, window = form.cleaned_data, form.request_window
    wanted = (asked["tenant"].pk, asked["pool"].pk, asked["profile"].pk, asked["ranks"])
    seconds = round((window.upper - window.lower).total_seconds()) if window else 0
    return (
        asked["start"] == "now"
        and wanted == (earlier.tenant_id, earlier.pool_id, earlier.profile_id, earlier.ranks)
        and abs(seconds - earlier.planned_seconds) <= 1
        and timezone.now() - earlier.created_at < SAME_CLICK
    )


def _refused(request: PageRequest, form: ReserveForm, refusal: ReservationRefused) -> HttpResponse:
    """Everything typed is kept; what is malformed stands beside its field, what is full comes with alternatives."""
    if refusal.status == 422 and not isinstance(refusal, GroupRefused):
        field_refused(form, refusal)
        return _again(request, form, NO_ANSWER, 422)
    asked, outlook = form.cleaned_data, None
    if refusal.code in ("no_capacity", "quota_exceeded", "budget_exceeded", "policy_refused"):
        tenant, during = asked["tenant"], form.request_window
        outlook = outlook_around(tenant, during, timezone.now(), owner_id=request.user.pk)
        refusal = with_alternatives(
            refusal, tenant, asked["pool"], asked["profile"], asked["ranks"], during, outlook=outlook
        )
    answer = answer_to(form, viewer_of(shell_of(request)), refusal, outlook, asker=request.user)
    return _again(request, form, answer, refusal.status)


def _again(request: PageRequest, form: ReserveForm, answer: Answer, status: int) -> HttpResponse:
    context = _context(form, answer, checked=True)
    context["values"] = {**form.data, "key": uuid.uuid4().hex}
    return render(request, "reservations/reserve.html", context, status=status)
