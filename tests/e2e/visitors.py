"""People at their browsers: real Chromium, one context a visit, one sign-in a person."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from playwright.sync_api import Browser, BrowserContext, Page, Playwright, StorageState, ViewportSize

from portal.demo.names import DOMAIN
from tests.needs import chromium

DESKTOP: ViewportSize = {"width": 1440, "height": 900}
PHONE: ViewportSize = {"width": 390, "height": 844}
PATIENCE_MS = 20_000
# As root there is no sandbox; the rest keeps the browser from asking other hosts by itself.
FLAGS = (
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-dev-shm-usage", "--no-first-run",
    "--disable-background-networking", "--disable-component-update", "--disable-sync",
)  # fmt: skip


def launch(playwright: Playwright) -> Browser:
    return playwright.chromium.launch(executable_path=chromium(), args=list(FLAGS))


class Visitors:
    """Contexts with a cold cache; each person types their password once and is signed in from then on."""

    def __init__(self, browser: Browser, url: str, password: str) -> None:
        self.url = url
        self._browser = browser
        self._password = password
        self._sessions: dict[str, StorageState] = {}

    @contextmanager
    def page(self, name: str = "", size: ViewportSize = DESKTOP, **options: Any) -> Iterator[Page]:
        """A page of a context of its own; ``name`` is the first part of a demo address, "" a stranger."""
        context = self._context(size, storage_state=self._session(name) if name else None, **options)
        try:
            yield context.new_page()
        finally:
            context.close()

    def sign_in(self, page: Page, name: str) -> None:
        """As a person does it, from the page that Berth shows to strangers."""
        page.goto("/sign-in/")
        page.fill("input[name=login]", f"{name}@{DOMAIN}")
        page.fill("input[name=password]", self._password)
        page.press("input[name=password]", "Enter")
        page.wait_for_selector("main#main h1")

    def _session(self, name: str) -> StorageState:
        if name not in self._sessions:
            context = self._context(DESKTOP)
            self.sign_in(context.new_page(), name)
            self._sessions[name] = context.storage_state()
            context.close()
        return self._sessions[name]

    def _context(self, size: ViewportSize, **options: Any) -> BrowserContext:
        options = {"locale": "en-GB", "timezone_id": "Europe/Berlin", "reduced_motion": "reduce", **options}
        context = self._browser.new_context(base_url=self.url, viewport=size, **options)
        context.set_default_timeout(PATIENCE_MS)
        return context
