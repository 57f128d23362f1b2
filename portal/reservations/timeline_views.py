"""The timeline page: who has what when. The same leases as a picture and as a table that sorts."""

from dataclasses import replace
from typing import TYPE_CHECKING

from django.contrib.auth.decorators import login_required
from django.http import HttpRequest, HttpResponse
from django.shortcuts import render
from django.utils import timezone
from django.utils.translation import gettext_lazy as _
from django.views.decorators.http import require_GET

from portal.inventory.models import Node, NodeState, Pool
from portal.reservations.canvas import Rect, Viewer, inspected, viewer_of
from portal.reservations.context import shell_of
from portal.reservations.models import Lease
from portal.reservations.timeline import HEAD_PX, Picture, month_lines, picture, tenants_drawn
from portal.reservations.timeline_asked import Asked, Zoom, asked

if TYPE_CHECKING:
    from django_stubs_ext import StrOrPromise

ZOOMS: tuple[tuple[Zoom, "StrOrPromise"], ...] = (("day", _("Day")), ("week", _("Week")), ("month", _("Month")))
COLUMNS = (
    ("lease", _("Lease")), ("tenant", _("Tenant")), ("profile", _("Profile")),
    ("where", _("Where")), ("window", _("Window")), ("state", _("State")),
)  # fmt: skip


@login_required
@require_GET
def timeline(request: HttpRequest) -> HttpResponse:
    wanted, viewer, now = asked(request.GET), viewer_of(shell_of(request)), timezone.now()
    context = {
        "asked": wanted,
        "head_px": HEAD_PX,
        "pools": Pool.objects.all(),
        "nodes": Node.objects.exclude(state=NodeState.RETIRED),
        "zooms": [(name, label, wanted.zoomed(name).query) for name, label in ZOOMS],
        "canvas_query": replace(wanted, table=False).query,
        "table_query": replace(wanted, table=True).query,
    }
    if wanted.zoom == "month" and not wanted.table:
        lines, height, pages = month_lines(wanted, viewer, now)
        context |= {"month": lines, "height": height, "pages": pages}
    else:
        drawn = picture(wanted, viewer, now)
        pages = drawn.pages
        context |= _drawn(wanted, drawn, viewer)
    context |= _neighbours(wanted, pages)
    return render(request, "timeline/page.html", context)


def _drawn(wanted: Asked, drawn: Picture, viewer: Viewer) -> dict:
    rects = [rect for line in drawn.lines for rect in line.rects]
    return {
        "picture": drawn,
        "count": len(drawn.leases),
        "height": drawn.height,
        "pages": drawn.pages,
        **inspected(rects),
        "tenants": tenants_drawn(drawn.leases, viewer),
        "rows": _table(wanted, drawn) if wanted.table else None,
        "columns": [_column(wanted, name, label) for name, label in COLUMNS],
    }


def _column(wanted: Asked, name: str, label: "StrOrPromise") -> dict:
    sort = {name: "ascending", f"-{name}": "descending"}.get(wanted.sort, "")
    return {"label": label, "query": wanted.sorted_by(name).query, "sort": sort}


def _table(wanted: Asked, drawn: Picture) -> list[tuple[Lease, Rect, bool]]:
    rects = {rect.lease_id: rect for line in drawn.lines for rect in line.rects}
    rows = [(lease, rects[lease.pk], bool(rects[lease.pk].href)) for lease in drawn.leases if lease.pk in rects]
    rows.sort(key=lambda row: _sort_key(wanted.sort.removeprefix("-"), *row), reverse=wanted.sort.startswith("-"))
    return rows


def _sort_key(column: str, lease: Lease, rect: Rect, seen: bool) -> tuple:
    """What the reader may not see never decides an order."""
    reservation, start = lease.reservation, lease.during.lower
    place = (lease.gpu.node.name, lease.gpu.index, lease.span.lower)
    return {
        "lease": (not seen, reservation.workload.name if seen else "", start),
        "tenant": (not seen, reservation.tenant.name if seen else "", start),
        "profile": (reservation.profile.size, reservation.profile.name, start),
        "where": (*place, start),
        "window": (start, lease.during.upper, *place),
        "state": (lease.state, start),
    }[column]


def _neighbours(wanted: Asked, pages: int) -> dict:
    here = min(wanted.page, pages) if pages else 1
    return {
        "page_number": here,
        "page_before": replace(wanted, page=here - 1).query if here > 1 else "",
        "page_after": replace(wanted, page=here + 1).query if here < pages else "",
    }
