"""The last answer: what no view and no middleware has caught. Asks no database, which may be what is away."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _
from django.views import defaults


def bad_request(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return _refusal("malformed", _("This request cannot be read."), 400)
    return defaults.bad_request(request, exception)


def not_found(request: HttpRequest, exception: Exception) -> HttpResponse:
    if _is_api(request):
        return _refusal("not_found", _("Not here, or not yours."), 404)
    return defaults.page_not_found(request, exception)


def server_error(request: HttpRequest) -> HttpResponse:
    """503 where the database is away or a lock did not come in time, which passes; 500 for a fault of ours."""
    busy = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if busy else 500
    if _is_api(request):
        message = _("Busy. Try again in a moment.") if busy else _("This page failed")
        answer = _refusal("busy" if busy else "error", message, status)
    else:
        answer = render(None, "500.html", {"busy": busy}, status=status)
    if busy:
        answer["Retry-After"] = "1"
    return answer


def _is_api(request: HttpRequest) -> bool:
    return request.path.startswith("/api/")


def _refusal(code: str, message: str, status: int) -> HttpResponse:
    return JsonResponse({"code": code, "message": message, "evidence": {}, "alternatives": []}, status=status)
