"""The last answer: what no view and no middleware has caught. Asks no database, which may be what is away."""

import sys

from django.db import InterfaceError, OperationalError
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.shortcuts import render
from django.utils.translation import gettext as _


def server_error(request: HttpRequest) -> HttpResponse:
    """503 where the database is away or a lock did not come in time, which passes; 500 for a fault of ours."""
    busy = isinstance(sys.exc_info()[1], OperationalError | InterfaceError)
    status = 503 if busy else 500
    if request.path.startswith("/api/"):
        message = _("Busy. Try again in a moment.") if busy else _("This page failed")
        body: dict[str, object] = {
            "code": "busy" if busy else "error",
            "message": message,
            "evidence": {},
            "alternatives": [],
        }
        answer: HttpResponse = JsonResponse(body, status=status)
    else:
        answer = render(None, "500.html", {"busy": busy}, status=status)
    if busy:
        answer["Retry-After"] = "1"
    return answer
