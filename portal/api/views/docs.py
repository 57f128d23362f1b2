"""The schema, and a page to read and try it."""

from csp.decorators import csp_update
from django.utils.decorators import method_decorator
from drf_spectacular.views import SpectacularAPIView, SpectacularSwaggerSplitView
from rest_framework.permissions import AllowAny

from portal.api.schema import KeptSchema


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
