"""One shape for every refusal: a code for programs, a sentence for people, numbers as evidence, ways on."""

import logging
from typing import Any

from django.core.exceptions import PermissionDenied, RequestDataTooBig
from django.db import OperationalError
from django.http import Http404
from django.utils.translation import gettext as _
from rest_framework import exceptions
from rest_framework.response import Response
from rest_framework.views import exception_handler, set_rollback

from portal.api.alternatives import alternatives_shown
from portal.inventory.errors import InventoryRefused
from portal.quotas.errors import QuotaRefused
from portal.reservations.errors import ReservationRefused

log = logging.getLogger(__name__)


def answer(error: Exception, context: dict) -> Response | None:
    """The handler of every API view. None leaves what is unknown to Django, which logs it and answers 500."""
    if isinstance(error, ReservationRefused):
        set_rollback()
        return Response(refusal(error), status=error.status)
    if isinstance(error, QuotaRefused):
        set_rollback()
        evidence = error.evidence | ({"field": error.field} if error.field else {})
        return Response(_body(error.code, error.message, evidence), status=409)
    if isinstance(error, InventoryRefused):
        set_rollback()
        return Response(_body("state_conflict", str(error)), status=409)
    if isinstance(error, OperationalError):
        set_rollback()
        log.warning("%s %s: %s", context["request"].method, context["request"].path, error)
        return Response(_body("busy", _("Busy. Try again in a moment.")), status=503, headers={"Retry-After": "1"})
    if isinstance(error, RequestDataTooBig):
        return Response(_body("too_large", _("A request has at most 1 MiB.")), status=413)
    response = exception_handler(error, context)
    if response is not None:
        response.data = _told(error)
        response.status_code = 422 if isinstance(error, exceptions.ValidationError) else response.status_code
    return response


def refusal(error: ReservationRefused) -> dict[str, Any]:
    evidence = dict(error.evidence) | ({"field": error.field} if error.field else {})
    return _body(error.code, error.message, evidence, alternatives_shown(error.alternatives))


def _told(error: Exception) -> dict[str, Any]:
    if isinstance(error, Http404 | exceptions.NotFound):
        return _body("not_found", _("Not here, or not yours."))
    if isinstance(error, PermissionDenied):
        return _body("permission_denied", _("You may not do that."))
    if isinstance(error, exceptions.ValidationError):
        return _body("invalid", _first_sentence(error.detail), {"fields": error.detail})
    if isinstance(error, exceptions.APIException):
        return _body(getattr(error.detail, "code", error.default_code), str(error.detail))
    return _body("error", str(error))


def _first_sentence(detail: Any, where: str = "") -> str:
    """The first complaint, with the field it is about."""
    while isinstance(detail, dict | list) and detail:
        if isinstance(detail, dict):
            key, detail = next(iter(detail.items()))
            where = where if key == "non_field_errors" else f"{where}.{key}".strip(".")
        else:
            detail = detail[0]
    return f"{where}: {detail}" if where else str(detail)


def _body(code: str, message: str, evidence: dict | None = None, alternatives: list | None = None) -> dict[str, Any]:
    return {"code": code, "message": str(message), "evidence": evidence or {}, "alternatives": alternatives or []}
