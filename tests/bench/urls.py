"""The portal's addresses and an empty view, which costs what Django and the middleware cost."""

from django.http import HttpRequest, HttpResponse
from django.urls import path

from portal import urls


def empty(request: HttpRequest) -> HttpResponse:
    return HttpResponse()


handler500 = urls.handler500
urlpatterns = [path("bench/empty/", empty, name="bench_empty"), *urls.urlpatterns]
