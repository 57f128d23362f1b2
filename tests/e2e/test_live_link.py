"""What a page says when the link is lost and when it is back; and that what cannot be measured is never a zero."""

import re
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page, WebSocketRoute, expect

from portal.demo.supervisor import Stack
from tests.e2e.pages import running_of
from tests.e2e.visitors import Visitors
from tests.e2e.walking import POOL, PROFILE, wait_ended
from tests.e2e.witness import Witness
from tests.smoke.bookings import Researcher

pytestmark = [pytest.mark.browser, pytest.mark.stack]
LATE_MS, OFFLINE_MS, BACK_MS = 15_000, 45_000, 20_000
UNMEASURED_FRAMES = 3
# The last point of each chart that measures something: "" is a gap.
NEWEST_POINTS = "[...document.querySelectorAll('svg.plot[data-live]')].map((plot) => plot.dataset.v.split(',').at(-1))"


def test_a_lost_link_is_told_and_one_that_is_back_brings_what_is_true_now(visitors: Visitors, stack: Stack):
    with visitors.page("rosa") as page:
        witness = Witness(page)
        witness.open(running_of(stack, "rosa"))
        link, banner = page.locator(".side .pulse"), page.locator("[data-offline]")
        expect(link).to_have_text("Live, 1 s")
        expect(banner).to_be_hidden()
        with _web_down(stack):
            expect(link).to_have_text("Late", timeout=LATE_MS)
            expect(banner).to_be_hidden()
            expect(banner).to_be_visible(timeout=OFFLINE_MS)
            expect(link).to_have_text("Offline")
            expect(banner).to_contain_text(re.compile(r"Values are from \d\d:\d\d:\d\d\. Your containers keep run"))
            assert _newest_points(page) == {""}
        asked = len(witness.requests)
        page.get_by_role("button", name="Try now").click()
        expect(banner).to_be_hidden(timeout=BACK_MS)
        expect(link).to_have_text("Live, 1 s")
        witness.next_frame()
        fetched = [request for request in witness.requests[asked:] if "/reservations/" in request.url]
        assert len(fetched) == 1
        assert fetched[0].headers["hx-request"] == "true"
        page.wait_for_function(f"() => !({NEWEST_POINTS}).includes('')", timeout=BACK_MS)


def test_what_cannot_be_measured_is_never_shown_as_zero(visitors: Visitors, stack: Stack):
    """The A100 has no metrics of a slice: the driver says so, the frame carries null, the page says it in words."""
    with visitors.page("jonas") as page:
        witness = Witness(page)
        witness.open(running_of(stack, "jonas"))
        util = page.locator("[data-value$=':util']").first
        expect(util).to_have_text("not measurable", timeout=BACK_MS)
        for _frame in range(UNMEASURED_FRAMES):
            assert re.search(r'"l\d+:util": ?null', witness.next_frame())
            expect(util).to_have_text("not measurable")
            expect(util.locator("xpath=..")).to_have_class(re.compile(r"\bunmeasured\b"))
        expect(page.locator("svg.plot[data-live$=':util']")).to_have_class(re.compile(r"\bunmeasured\b"))
        expect(page.locator("[data-value$=':mem']").first).to_have_text(re.compile(r"^\d+\.\d$"))
        expect(page.get_by_text("does not tell how busy a slice is")).to_be_visible()
        # as on a device that does measure, before it has: what is awaited is not said to be unknowable
        page.evaluate("() => { document.querySelector('.charts').dataset.since = ''; }")
        expect(util).to_have_text("waiting for the first sample")


def test_what_changed_between_the_page_and_its_socket_is_shown(visitors: Visitors, researcher: Researcher):
    """The socket opens late, and the reservation ends meanwhile: nobody tells that fact again."""
    booked = researcher.book(POOL, PROFILE)
    researcher.until_running(booked["id"])
    with visitors.page("rosa") as page:
        page.route_web_socket("**/live/", lambda link: _after_release(researcher, booked["id"], link))
        page.goto(f"/reservations/{booked['number']}/")
        wait_ended(page)


def _after_release(researcher: Researcher, reservation_id: int, link: WebSocketRoute) -> None:
    researcher.release(reservation_id)
    link.connect_to_server()


@contextmanager
def _web_down(stack: Stack) -> Iterator[None]:
    """The portal's web process is gone, and is back, answering, at the end. Nobody else gets its port meanwhile."""
    web = stack.part("web")
    web.stop()
    try:
        with socket.socket() as kept:
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)  # connections that have just ended do not count
            kept.bind(("127.0.0.1", urlsplit(stack.url).port))
            kept.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 0)  # from here on the port is taken
            yield
    finally:
        web.spawn()
        web.wait_ready(threading.Event())
        assert web.alive


def _newest_points(page: Page) -> set[str]:
    return set(page.evaluate(f"() => {NEWEST_POINTS}"))
