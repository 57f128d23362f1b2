"""Keeps other sites' pages away from the browsers' socket: a WebSocket carries cookies wherever it comes from."""

from typing import Any
from urllib.parse import urlsplit

from django.conf import settings

DEFAULT_PORTS = {"http": 80, "https": 443, "ws": 80, "wss": 443}


class SameOrigin:
    """Lets through what PORTAL_URL or CSRF_TRUSTED_ORIGINS name, or the very host that was asked, port included."""

    def __init__(self, application: Any) -> None:
        self._application = application

    async def __call__(self, scope: dict, receive: Any, send: Any) -> None:
        headers = {key: value.decode("latin-1") for key, value in scope["headers"]}
        if not is_own_origin(headers.get(b"origin", ""), headers.get(b"host", ""), scope.get("scheme", "ws")):
            await receive()
            await send({"type": "websocket.close", "code": 4403})  # before it is accepted: HTTP 403
            return
        await self._application(scope, receive, send)


def is_own_origin(origin: str, host: str, scheme: str) -> bool:
    """Scheme, host and port are compared exactly; a missing Origin is no browser of ours."""
    came_from = _parts(origin)
    if came_from is None:
        return False
    trusted = {_parts(each) for each in settings.CSRF_TRUSTED_ORIGINS}
    if came_from in trusted:
        return True
    web_scheme = "https" if scheme in ("wss", "https") else "http"
    own = _parts(f"{web_scheme}://{host}")
    return own == came_from and _is_allowed(came_from[1])


def _parts(origin: str) -> tuple[str, str, int] | None:
    try:
        url = urlsplit(origin)
        port = url.port or DEFAULT_PORTS.get(url.scheme)
    except ValueError:
        return None
    if url.scheme not in ("http", "https") or not url.hostname or port is None:
        return None
    return url.scheme, url.hostname, port


def _is_allowed(hostname: str) -> bool:
    """A name that someone points at us (DNS rebinding) is not ours by being in the Host header."""
    return "*" in settings.ALLOWED_HOSTS or hostname in {each.strip("[]") for each in settings.ALLOWED_HOSTS}
