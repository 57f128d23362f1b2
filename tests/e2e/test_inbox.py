"""A notice reaches an open page and a mailbox by itself; reading it takes the badge away."""

import re
import time
from email import message_from_bytes, policy
from pathlib import Path

import pytest
from playwright.sync_api import expect

from portal.demo.names import RESEARCHER_EMAIL
from portal.demo.supervisor import Stack
from tests.e2e.visitors import Visitors

pytestmark = [pytest.mark.browser, pytest.mark.stack]
TOLD_MS, MAIL_SECONDS = 20_000, 40
TELL = """
from portal.accounts.models import User
from portal.notices.models import Kind
from portal.notices.services import notify
notify(users=[User.objects.get(email="{email}")], kind=Kind.FAILED, name="{name}", reason="told by a test")
"""


def test_a_notice_comes_to_the_open_page_and_by_mail_and_is_read(visitors: Visitors, stack: Stack):
    with visitors.page("rosa") as page:
        page.goto("/inbox/", wait_until="networkidle")
        badge, news = page.locator("#unread-side"), page.locator("#inbox-news")
        expect(page.locator(".side .pulse")).to_have_text("Live, 1 s")
        before = int(badge.evaluate("(element) => parseInt(element.textContent) || 0"))
        page.evaluate("() => { window.stayed = true; }")
        stack.manage("shell", "-c", TELL.format(email=RESEARCHER_EMAIL, name="inbox-test"))
        expect(badge).to_contain_text(str(before + 1), timeout=TOLD_MS)
        expect(news).to_contain_text("1 new", timeout=TOLD_MS)
        assert page.evaluate("() => window.stayed"), "the page has not moved"
        expect(page.get_by_text("inbox-test has failed")).to_have_count(0)
        news.get_by_role("link").click()
        expect(page.get_by_role("link", name="inbox-test has failed")).to_be_visible()
        page.get_by_role("button", name="Mark “inbox-test has failed” as read").click()
        expect(badge).to_be_visible() if before else expect(badge).to_be_hidden()
        page.get_by_role("link", name="inbox-test has failed").click()
        expect(page).to_have_url(re.compile(r"/inbox/$"))
    assert "told by a test" in _mail_about("inbox-test", stack.home / "mail")


def _mail_about(name: str, folder: Path) -> str:
    """The text of the one mail whose subject names it; waits for the worker."""
    deadline = time.monotonic() + MAIL_SECONDS
    while time.monotonic() < deadline:
        parts = [part for file in folder.glob("*.log") for part in file.read_bytes().split(b"-" * 79 + b"\n")]
        mails = [message_from_bytes(part, policy=policy.default) for part in parts if part.strip()]
        found = [mail for mail in mails if name in str(mail["Subject"])]
        if found:
            assert len(found) == 1
            assert found[0]["To"] == RESEARCHER_EMAIL
            return found[0].get_content()
        time.sleep(0.2)
    raise AssertionError(f"no mail about {name} in {MAIL_SECONDS} s")
