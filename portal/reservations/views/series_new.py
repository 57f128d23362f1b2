"""A new series: a form that says which of its dates fit while it is filled in, and the booking of them all."""

import uuid

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.exceptions import PermissionDenied
from django.http import HttpResponse, QueryDict
from django.shortcuts import redirect, render
from django.utils.translation import gettext as _
from django.views.decorators.http import require_GET, require_http_methods

from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.forms import OWN_COMMAND
from portal.reservations.offer import choices_for
from portal.reservations.series_booking import book_series
from portal.reservations.series_forms import SeriesForm, last_values, values_of
from portal.reservations.series_listing import people_of
from portal.reservations.series_preview import SeriesPreview, preview_series
from portal.tenants.models import Role


@login_required
@require_http_methods(["GET", "POST"])
def series_new(request: PageRequest) -> HttpResponse:
    """GET shows the form, with its answer where it was asked to check; POST books all or says why not."""
    if not shell_of(request).may_reserve:
        raise PermissionDenied
    if request.method == "POST":
        return _post(request)
    form = _form(request, request.GET, choose=True)
    checked = "check" in request.GET
    return _page(request, form, *(_seen(form) if checked else (None, None)), checked=checked)


@login_required
@require_GET
def series_preview(request: PageRequest) -> HttpResponse:
    """The answer to what the form says now. Books nothing."""
    if not shell_of(request).may_reserve:
        raise PermissionDenied
    form = _form(request, request.GET, choose=True, only_named=True)
    seen, refusal = _seen(form)
    context = _context(form, seen, refusal, checked=True)
    return render(request, "reservations/series_answer.html", context)


def _form(request: PageRequest, typed: QueryDict, *, choose: bool, only_named: bool = False) -> SeriesForm:
    """A lead chooses among the people of the tenant; with ``only_named`` these are read only where some are named."""
    shell = shell_of(request)
    offer = choices_for(shell, last_values(typed))
    leads = offer.tenant is not None and shell.may(offer.tenant, Role.LEAD)
    wanted = leads and not (only_named and not typed.get("roster") and not typed.get("emails"))
    people = people_of(offer.tenant) if wanted and offer.tenant else []
    return SeriesForm(offer, values_of(offer, typed, choose=choose), request.user, people)


def _seen(form: SeriesForm) -> tuple[SeriesPreview | None, ReservationRefused | None]:
    """The form takes no tenant and no people but those for whom its reader may ask."""
    if not form.is_valid() or form.asked is None:
        return None, None
    try:
        return preview_series(form.asked, skip=form.skip_dates, known=form.offer.known, known_people=True), None
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return None, refusal


def _post(request: PageRequest) -> HttpResponse:
    form = _form(request, request.POST, choose=False)
    if not form.is_valid() or form.asked is None:
        return _page(request, form, None, None, checked=True, status=422)
    try:
        series = book_series(form.asked, skip=form.skip_dates, key=form.cleaned_data["key"])
    except ReservationRefused as refusal:
        seen, whole = _seen(form)
        if seen is not None and refusal.field not in ("", "skip"):
            form.refuse(refusal)
        return _page(request, form, seen, whole or refusal, checked=True, status=refusal.status)
    waits = series.reservations.filter(approval__isnull=False).exists()
    said = _("Asked for: %(name)s. A lead decides.") if waits else _("Reserved: %(name)s.")
    messages.success(request, said % {"name": series.name})
    response = redirect("series_one", number=series.pk)
    response.status_code = 303
    return response


def _page(
    request: PageRequest,
    form: SeriesForm,
    seen: SeriesPreview | None,
    refusal: ReservationRefused | None,
    *,
    checked: bool,
    status: int = 200,
) -> HttpResponse:
    return render(request, "reservations/series_new.html", _context(form, seen, refusal, checked), status=status)


def _context(form: SeriesForm, seen: SeriesPreview | None, refusal: ReservationRefused | None, checked: bool) -> dict:
    valid = form.is_valid()
    values = form.typed
    return {
        "form": form,
        "offer": form.offer,
        "values": values,
        "errors": form.errors if checked and not valid else {},
        "seen": seen,
        "refusal": refusal,
        "own": OWN_COMMAND,
        "key": uuid.uuid4().hex,
        "chosen_people": values.getlist("roster"),
        "chosen_days": values.getlist("weekdays"),
    }
