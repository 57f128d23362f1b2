"""Every address of the portal. Each app lists its own."""

from django.http import HttpRequest, HttpResponse
from django.urls import path


def health(request: HttpRequest) -> HttpResponse:
    """The process answers; what it depends on is not asked."""
    return HttpResponse("ok", content_type="text/plain")


urlpatterns = [
    path("healthz", health, name="health"),
]
