"""Every address of the portal. Each app lists its own."""

from django.http import HttpRequest, HttpResponse
from django.urls import include, path
from django.views.decorators.http import require_safe


@require_safe
def health(request: HttpRequest) -> HttpResponse:
    """The process answers; what it depends on is not asked."""
    return HttpResponse("ok", content_type="text/plain")


handler400 = "portal.accounts.views.failures.bad_request"
handler404 = "portal.accounts.views.failures.not_found"
handler500 = "portal.accounts.views.failures.server_error"
urlpatterns = [
    path("healthz", health, name="health"),
    path("", include("portal.reservations.urls")),
    path("", include("portal.reservations.inbox_urls")),
    path("", include("portal.reservations.change_urls")),
    path("", include("portal.reservations.series_urls")),
    path("", include("portal.reservations.maintenance_urls")),
    path("", include("portal.reservations.calendar_urls")),
    path("", include("portal.accounts.urls")),
    path("", include("portal.tenants.urls")),
    path("", include("portal.live.urls")),
    path("", include("portal.api.urls")),
    path("", include("portal.reservations.timeline_urls")),
    path("", include("portal.inventory.urls")),
    path("", include("portal.reports.urls")),
    path("", include("portal.live.fleet_urls")),
]
