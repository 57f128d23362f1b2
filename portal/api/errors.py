"""One shape for every refusal: a code for programs, a sentence for people."""

from rest_framework.response import Response
from rest_framework.views import exception_handler


def answer(error: Exception, context: dict) -> Response | None:
    """DRF's answer under one key; None leaves what is unknown to Django, which answers 500 and logs."""
    response = exception_handler(error, context)
    if response is None:
        return None
    detail = response.data
    code = getattr(error, "default_code", "error")
    response.data = {"code": code, "detail": detail.get("detail", detail) if isinstance(detail, dict) else detail}
    return response
