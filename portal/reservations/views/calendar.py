"""Calendar addresses: the page where they are made and revoked, and the files that calendar programs read."""

import datetime as dt

from allauth.core.internal import ratelimit
from django.contrib.auth.decorators import login_required
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect, render
from django.utils import timezone
from django.utils.cache import get_conditional_response
from django.utils.http import quote_etag
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_POST, require_safe

from portal.accounts.requests import number_in
from portal.inventory.models import Node, NodeState
from portal.reservations.calendar_entries import KEPT, MOST_EVENTS
from portal.reservations.calendar_feeds import feed_at, live_feeds, make_feed, note_read, revoke_feed
from portal.reservations.calendar_file import FeedContent
from portal.reservations.context import PageRequest, shell_of
from portal.reservations.models import CalendarFeed, FeedKind
from portal.tenants.selectors import is_platform_admin, tenants_of

OWN = "own"
# From one address of the network, behind which a whole house may sit, and of one calendar address.
READS = {"feed": "600/m/ip,30/10m/key"}
TRY_AGAIN_SECONDS = 600


@require_safe
def calendar_feed(request: HttpRequest, token: str) -> HttpResponse:
    """No session: the address is the right. What is unknown, revoked or no longer its owner's looks the same."""
    if not ratelimit.consume(request, app="calendar", action="feed", config=READS, key=token, limit_get=True):
        return HttpResponse("", status=429, headers={"Retry-After": str(TRY_AGAIN_SECONDS)})
    feed = feed_at(token)
    if feed is None:
        raise Http404
    now = timezone.now()
    content = FeedContent(feed, now)
    changed_at = note_read(feed, content.tag, now)
    return _answer(request, content, changed_at)


def _answer(request: HttpRequest, content: FeedContent, changed_at: dt.datetime) -> HttpResponse:
    tag = quote_etag(content.tag)
    unchanged = get_conditional_response(request, tag, int(changed_at.timestamp()))
    response = unchanged or HttpResponse(content.file(), content_type="text/calendar; charset=utf-8")
    response.headers["ETag"] = tag
    response.headers["Last-Modified"] = f"{changed_at.astimezone(dt.UTC):%a, %d %b %Y %H:%M:%S} GMT"
    response.headers["Cache-Control"] = "private, max-age=60"
    response.headers["Content-Disposition"] = 'inline; filename="berth.ics"'
    response.headers["X-Robots-Tag"] = "noindex"
    return response


@login_required
@require_safe
@never_cache
def calendar(request: PageRequest) -> HttpResponse:
    """One's own addresses, and what one could be made for."""
    return _page(request)


@login_required
@require_POST
@never_cache
def calendar_make(request: PageRequest) -> HttpResponse:
    """Shows the address, this once."""
    kind, _dash, number = request.POST.get("what", "").partition("-")
    pk = number_in(number)
    if kind == FeedKind.TENANT and pk is not None:
        feed, address = make_feed(owner=request.user, tenant=get_object_or_404(tenants_of(request.user), pk=pk))
    elif kind == FeedKind.NODE and pk is not None and is_platform_admin(request.user):
        feed, address = make_feed(owner=request.user, node=get_object_or_404(_nodes(), pk=pk))
    elif kind == OWN and not number:
        feed, address = make_feed(owner=request.user)
    else:
        raise Http404
    return _page(request, new=feed, address=address)


@login_required
@require_POST
def calendar_revoke(request: PageRequest, feed_id: int) -> HttpResponse:
    revoke_feed(feed=get_object_or_404(live_feeds(request.user), pk=feed_id), actor=request.user)
    return redirect("calendar")


def _nodes():
    return Node.objects.exclude(state=NodeState.RETIRED)


def _page(request: PageRequest, **shown: CalendarFeed | str) -> HttpResponse:
    shell = shell_of(request)
    seen = {tenant.pk for tenant in shell.tenants}
    feeds = list(live_feeds(request.user).select_related("tenant", "node"))
    context = {
        "feeds": [(feed, feed.tenant_id is None or feed.tenant_id in seen) for feed in feeds],
        "nodes": _nodes() if shell.is_platform_admin else (),
        "most": MOST_EVENTS,
        "kept_days": KEPT.days,
        **shown,
    }
    return render(request, "reservations/calendar.html", context)
