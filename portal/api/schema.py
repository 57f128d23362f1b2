"""The schema, and what it says of every operation, so that no view has to repeat it."""

from typing import Any, ClassVar

from django.utils.translation import get_language
from drf_spectacular.extensions import OpenApiSerializerFieldExtension
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.openapi import AutoSchema
from rest_framework.request import Request

REFUSAL = {"$ref": "#/components/schemas/RefusalShape"}
METHODS = ("get", "put", "post", "delete", "patch")


class KeptSchema(SchemaGenerator):
    """Built once a process and language: it is the same for everyone and takes half a second of CPU."""

    kept: ClassVar[dict[str, dict]] = {}

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict:
        language = get_language() or ""
        if language not in self.kept:
            self.kept[language] = super().get_schema(request, public)
        return self.kept[language]


def name_refusals(result: dict[str, Any], generator: SchemaGenerator, request: object, public: bool) -> dict[str, Any]:
    """A hook of drf-spectacular: each operation also lists the refusals that any of its kind may answer."""
    for operations in result["paths"].values():
        for method in METHODS:
            if method in operations:
                _complete(operations[method])
    return result


def _complete(operation: dict[str, Any]) -> None:
    refusals = {"401": "who asks is not known", "403": "not allowed", "503": "busy: try again in a moment"}
    if operation.get("parameters"):
        refusals |= {"404": "not here, or not yours", "422": "not understood, or not possible"}
    if "requestBody" in operation:
        refusals |= {"400": "the body is malformed", "413": "too large", "415": "not JSON"}
        refusals |= {"404": "not here, or not yours", "422": "not understood, or not possible"}
    for status, description in refusals.items():
        content = {"application/json": {"schema": REFUSAL}}
        operation["responses"].setdefault(status, {"description": description, "content": content})
    operation["responses"] = dict(sorted(operation["responses"].items()))


class LocalTimes(OpenApiSerializerFieldExtension):
    """The hours of a wall clock: the schema's own ``time`` would want an offset from UTC."""

    target_class = "rest_framework.serializers.TimeField"

    def map_serializer_field(self, auto_schema: AutoSchema, direction: str) -> dict[str, Any]:
        return {"type": "string", "pattern": "^[0-9]{2}:[0-9]{2}(:[0-9]{2})?$", "example": "14:00"}
