"""Series: listed, read, changed and given back. What is not the reader's is 404."""

import datetime as dt

from django.contrib import messages
from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import Http404, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils.translation import gettext as _
from django.utils.translation import ngettext
from django.views.decorators.http import require_GET, require_http_methods, require_POST

from portal.reservations.context import PageRequest, shell_of
from portal.reservations.errors import ReservationRefused
from portal.reservations.models import Series
from portal.reservations.series_changing import ahead_of, cancel_series, remove_person, skip_occurrence
from portal.reservations.series_forms import ChangeSeriesForm, change_values
from portal.reservations.series_listing import (
    dates_of_series,
    may_change_series,
    mine_among,
    people_of,
    rule_words,
    series_of,
    with_counts,
)
from portal.reservations.series_moving import add_person, change_series

PAGE_ROWS = 50


@login_required
@require_GET
def series_list(request: PageRequest) -> HttpResponse:
    """The reader's own and the classes they are in, or all of their tenants."""
    everyone = request.GET.get("of") == "all"
    rows = series_of(request.user)
    rows = rows if everyone else mine_among(rows, request.user)
    page = Paginator(with_counts(rows).order_by("-pk"), PAGE_ROWS).get_page(request.GET.get("page"))
    listed = [(series, rule_words(series)) for series in page]
    context = {"page": page, "rows": listed, "of": "all" if everyone else "mine", "may": shell_of(request).may_reserve}
    return render(request, "reservations/series.html", context)


@login_required
@require_GET
def series_one(request: PageRequest, number: int) -> HttpResponse:
    return _page(request, get_object_or_404(series_of(request.user), pk=number))


def _page(
    request: PageRequest, series: Series, form: ChangeSeriesForm | None = None, status: int = 200, **more
) -> HttpResponse:
    dates = dates_of_series(series, request.user)
    roster = list(series.roster.order_by("name", "pk"))
    may_change = may_change_series(request.user, series)
    ahead = [one for one in dates if one.can_skip]
    if form is None and ahead:
        form = ChangeSeriesForm(initial=change_values(series, ahead[0].date))
    context = {
        "series": series, "words": rule_words(series), "dates": dates, "ahead": ahead, "roster": roster,
        "may_change": may_change, "opened": _opened(request), "form": form if may_change else None, "typed": "", **more,
    }  # fmt: skip
    return render(request, "reservations/series_one.html", context, status=status)


def _opened(request: PageRequest) -> dt.date | None:
    """The one date whose people are listed: all at once, a class of a term is a page of hundreds."""
    return _date_or_none(request.GET.get("date", ""))


@login_required
@require_POST
def series_change(request: PageRequest, number: int) -> HttpResponse:
    """Other hours from a date on."""
    series = _changeable(request, number)
    form = ChangeSeriesForm(request.POST)
    if not form.is_valid():
        return _page(request, series, form, 422)
    try:
        count = change_series(series=series, actor=request.user, **form.cleaned_data)
    except ReservationRefused as refusal:
        form.refuse(refusal)
        return _page(request, series, form, refusal.status, refusal=refusal)
    said = ngettext("%(n)d occurrence has other hours now.", "%(n)d occurrences have other hours now.", count)
    messages.success(request, said % {"n": count})
    return _see(series)


@login_required
@require_http_methods(["GET", "POST"])
def series_cancel(request: PageRequest, number: int) -> HttpResponse:
    """GET asks, POST cancels what has not begun."""
    series = _changeable(request, number)
    if request.method != "POST":
        return _ask(request, series, None)
    try:
        count = cancel_series(series=series, actor=request.user)
    except ReservationRefused as refusal:
        return _ask(request, series, None, refusal)
    messages.success(request, _given_back(count))
    return _see(series)


@login_required
@require_http_methods(["GET", "POST"])
def series_skip(request: PageRequest, number: int, date: str) -> HttpResponse:
    """GET asks, POST gives this date back for everybody."""
    series = _changeable(request, number)
    day = _date(date)
    if request.method != "POST":
        return _ask(request, series, day)
    try:
        count = skip_occurrence(series=series, date=day, actor=request.user)
    except ReservationRefused as refusal:
        return _ask(request, series, day, refusal)
    messages.success(request, _given_back(count))
    return _see(series)


def _ask(
    request: PageRequest, series: Series, date: dt.date | None, refusal: ReservationRefused | None = None
) -> HttpResponse:
    rows = [one for one in ahead_of(series) if date is None or one.occurrence == date]
    context = {
        "series": series, "date": date, "count": len(rows), "refusal": refusal,
        "back": sum(one.price_slice_seconds for one in rows),
    }  # fmt: skip
    return render(request, "reservations/series_ask.html", context, status=refusal.status if refusal else 200)


@login_required
@require_POST
def series_person_add(request: PageRequest, number: int) -> HttpResponse:
    """By e-mail address; a place in everything ahead, or in nothing."""
    series = _changeable(request, number)
    typed = request.POST.get("email", "").strip().lower()
    person = next((one for one in people_of(series.tenant) if one.email.lower() == typed), None)
    if person is None:
        error = _("Nobody here has that address. Invite them first.")
        return _page(request, series, status=422, typed=request.POST.get("email", ""), person_error=error)
    try:
        add_person(series=series, person=person, actor=request.user)
    except ReservationRefused as refusal:
        return _page(request, series, status=refusal.status, typed=typed, person_error=refusal.message)
    messages.success(request, _("%(person)s is on the roster.") % {"person": person})
    return _see(series)


@login_required
@require_POST
def series_person_remove(request: PageRequest, number: int, user_id: int) -> HttpResponse:
    series = _changeable(request, number)
    person = get_object_or_404(series.roster, pk=user_id)
    try:
        remove_person(series=series, person=person, actor=request.user)
    except ReservationRefused as refusal:
        return _page(request, series, status=refusal.status, refusal=refusal)
    messages.success(request, _("%(person)s is off the roster.") % {"person": person})
    return _see(series)


def _changeable(request: PageRequest, number: int) -> Series:
    series = get_object_or_404(series_of(request.user), pk=number)
    if not may_change_series(request.user, series):
        raise Http404
    return series


def _date(text: str) -> dt.date:
    found = _date_or_none(text)
    if found is None:
        raise Http404
    return found


def _date_or_none(text: str) -> dt.date | None:
    try:
        return dt.date.fromisoformat(text)
    except ValueError:
        return None


def _given_back(count: int) -> str:
    return ngettext("%(n)d reservation is cancelled.", "%(n)d reservations are cancelled.", count) % {"n": count}


def _see(series: Series) -> HttpResponse:
    response = redirect("series_one", number=series.pk)
    response.status_code = 303
    return response
