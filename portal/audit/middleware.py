"""From where a request comes, for whatever it changes."""

from django.http import HttpRequest, HttpResponse

from portal.audit.origin import Via, coming_from

DOORS = (("/api/", Via.API), ("/agent/", Via.AGENT))


class OriginMiddleware:
    """The address is the peer's, or what a proxy says of its client where the web server is told to trust that proxy
    (uvicorn's ``--forwarded-allow-ips``): the same that failed sign-ins are counted by."""

    def __init__(self, get_response):
        self.get_response = get_response

    def __call__(self, request: HttpRequest) -> HttpResponse:
        with coming_from(_via(request.path), request.META.get("REMOTE_ADDR", "")):
            return self.get_response(request)


def _via(path: str) -> Via:
    return next((via for start, via in DOORS if path.startswith(start)), Via.PAGE)
