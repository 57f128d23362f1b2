"""The schema, and a page to read and try it."""

from typing import ClassVar

from csp.decorators import csp_update
from django.utils.decorators import method_decorator
from django.utils.translation import get_language
from drf_spectacular.generators import SchemaGenerator
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny
from rest_framework.request import Request


class KeptSchema(SchemaGenerator):
    """Built once a process and language: it is the same for everyone and takes half a second of CPU."""

    kept: ClassVar[dict[str, dict]] = {}

    def get_schema(self, request: Request | None = None, public: bool = False) -> dict:
        language = get_language() or ""
        if language not in self.kept:
            self.kept[language] = super().get_schema(request, public)
        return self.kept[language]


class SchemaView(SpectacularAPIView):
    generator_class = KeptSchema
    authentication_classes = ()
    permission_classes = (AllowAny,)


@method_decorator(csp_update({"style-src": ["'self'", "'unsafe-inline'"]}), name="dispatch")
class DocsView(SpectacularSwaggerSplitView):
    """Swagger writes style attributes; this page alone allows them. Its script is a file of ours."""

    authentication_classes = ()
    permission_classes = (AllowAny,)
    url_name = "api_schema"
