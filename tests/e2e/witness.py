"""What a page does behind its face: what the console says, whom it asks, how much it loads, what its socket brings."""

import gzip
from urllib.parse import urlsplit

from playwright.sync_api import ConsoleMessage, Page, Request, WebSocket

FRAME_MS = 8_000
LIVE = "[data-live], [data-value], [data-fill]"


class Witness:
    """Looks from before the page is opened. ``complaints`` are errors and warnings of the console, CSP's among them."""

    def __init__(self, page: Page) -> None:
        self.complaints: list[str] = []
        self.requests: list[Request] = []
        self.sockets: list[WebSocket] = []
        self._page = page
        page.on("console", self._hear)
        page.on("pageerror", lambda error: self.complaints.append(f"uncaught: {error}"))
        page.on("request", lambda request: self.requests.append(request))
        page.on("websocket", lambda socket: self.sockets.append(socket))

    def open(self, path: str) -> int:
        """Go there, let the page fetch what it wants, and where it shows live values wait for a frame of them."""
        response = self._page.goto(path, wait_until="networkidle")
        assert response is not None
        if self._page.locator(LIVE).count():
            self.next_frame()
        return response.status

    def next_frame(self) -> str:
        """The next frame that carries values."""
        return self.sockets[-1].wait_for_event("framereceived", lambda frame: '"v":' in frame, timeout=FRAME_MS)

    @property
    def asked(self) -> int:
        """Everything that went over the network: documents, parts, files, the socket."""
        return len(self.requests) + len(self.sockets)

    @property
    def hosts(self) -> set[str]:
        addresses = [*(request.url for request in self.requests), *(socket.url for socket in self.sockets)]
        return {urlsplit(address).netloc for address in addresses if not address.startswith("data:")}

    @property
    def gzipped_bytes(self) -> int:
        """What a server that compresses sends, bodies only."""
        return sum(len(gzip.compress(body, 6)) for body in map(_body, self.requests))

    def _hear(self, message: ConsoleMessage) -> None:
        if message.type in ("error", "warning"):
            self.complaints.append(f"{message.type}: {message.text} ({message.location.get('url', '')})")


def _body(request: Request) -> bytes:
    response = request.response()
    if response is None or 300 <= response.status < 400 or response.status == 204:
        return b""
    return response.body()
