"""The inbox: what the reader was told, newest first by day, and marking it as read."""

import datetime as dt
from dataclasses import dataclass
from itertools import groupby

from django.contrib.auth.decorators import login_required
from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.http import url_has_allowed_host_and_scheme
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_GET, require_POST

from portal.accounts.requests import number_in
from portal.notices.models import Kind, Notice
from portal.notices.selectors import notices_of
from portal.notices.services import mark_read
from portal.notices.wording import Words, number_of, words_of
from portal.reservations.context import PageRequest

PAGE_ROWS = 50


@dataclass(frozen=True)
class Row:
    """A notice as it is listed."""

    notice: Notice
    words: Words
    number: str


@login_required
@require_GET
@never_cache
def inbox(request: PageRequest) -> HttpResponse:
    """All or the unread, of one kind or of all. Looking at the list marks nothing as read."""
    unread = request.GET.get("show") == "unread"
    kind = request.GET.get("kind", "")
    found = notices_of(request.user.pk)
    newest = found.order_by("-pk").values_list("pk", flat=True).first() or 0
    if unread:
        found = found.filter(read_at__isnull=True)
    if kind in Kind.values:
        found = found.filter(kind=kind)
    page = Paginator(found.order_by("-pk"), PAGE_ROWS).get_page(request.GET.get("page"))
    context = {
        "page": page,
        "days": _by_day(list(page.object_list)),
        "unread": unread,
        "kind": kind if kind in Kind.values else "",
        "kinds": Kind.choices,
        "newest": newest,
        "here": request.get_full_path(),
    }
    return render(request, "notices/inbox.html", context)


def _by_day(notices: list[Notice]) -> list[tuple[dt.datetime, list[Row]]]:
    """Days of the reader's zone, each by the time of its newest notice."""

    def day_of(row: Row) -> dt.date:
        return timezone.localtime(row.notice.created_at).date()

    rows = [Row(notice, words_of(notice), number_of(notice)) for notice in notices]
    grouped = [list(group) for _, group in groupby(rows, day_of)]
    return [(group[0].notice.created_at, group) for group in grouped]


@login_required
@require_GET
@never_cache
def inbox_count(request: PageRequest) -> HttpResponse:
    """The badges of the navigation alone."""
    return render(request, "notices/counts.html")


@login_required
@require_GET
@never_cache
def inbox_news(request: PageRequest) -> HttpResponse:
    """How many came since the newest that the reader's page shows: the line above the list."""
    after = number_in(request.GET.get("after", "")) or 0
    count = notices_of(request.user.pk).filter(pk__gt=after).count()
    return render(request, "notices/news.html", {"count": count, "newest": after})


@login_required
@require_GET
@never_cache
def notice_open(request: PageRequest, notice_id: int) -> HttpResponse:
    """Go to what the notice is about; who goes there has read it."""
    notice = get_object_or_404(notices_of(request.user.pk), pk=notice_id)
    mark_read(user_id=request.user.pk, notice_id=notice.pk)
    return redirect(notice.url)


@login_required
@require_POST
def notice_read(request: PageRequest, notice_id: int) -> HttpResponse:
    notice = get_object_or_404(notices_of(request.user.pk), pk=notice_id)
    mark_read(user_id=request.user.pk, notice_id=notice.pk)
    return _back(request)


@login_required
@require_POST
def inbox_read(request: PageRequest) -> HttpResponse:
    """All of them, whatever the list is narrowed to."""
    mark_read(user_id=request.user.pk)
    return _back(request)


def _back(request: HttpRequest) -> HttpResponse:
    """To the list as it was narrowed."""
    back = request.POST.get("next", "")
    inside = url_has_allowed_host_and_scheme(back, {request.get_host()}, require_https=request.is_secure())
    response = redirect(back if inside and back.startswith("/inbox/") else "inbox")
    response.status_code = 303
    return response
