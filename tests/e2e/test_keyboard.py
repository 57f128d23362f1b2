"""Without a pointer: reserve a slice, walk the timeline's canvas, edit a quota; focus is always to be seen."""

import re

import pytest
from playwright.sync_api import Page, expect

from tests.e2e.visitors import Visitors

pytestmark = [pytest.mark.browser, pytest.mark.stack]
ANSWER_MS = 20_000
TABS_MOST = 80
FOCUSED = """() => {
  const on = document.activeElement, box = on.getBoundingClientRect(), labels = [...(on.labels ?? [])];
  const under = document.elementFromPoint(box.left + box.width / 2, box.top + Math.min(box.height / 2, 20));
  const lease = on.matches(".lease");
  return {
    id: on.id, name: on.getAttribute("name") ?? "", lease,
    words: (on.getAttribute("aria-label") ?? on.textContent).trim(),
    covered: !under || ![on, ...labels].some((one) => one.contains(under) || under.contains(one)),
    ringed: lease || [on, ...labels].some((one) => getComputedStyle(one).outlineStyle !== "none"),
  };
}"""


def test_the_reserve_form_is_filled_in_and_sent_by_keys(visitors: Visitors):
    with visitors.page("rosa") as page:
        page.goto("/reserve/")
        expect(page.locator("#answer")).to_contain_text("weighs", timeout=ANSWER_MS)
        page.keyboard.press("Tab")
        assert _focused(page)["words"] == "Skip to content"
        page.keyboard.press("Enter")
        _tab_to(page, "pool")
        _tab_to(page, "profile")
        page.keyboard.press("ArrowDown")
        page.keyboard.press("ArrowUp")
        _tab_to(page, "length")
        page.keyboard.press("ArrowLeft")
        expect(page.locator("#answer")).to_contain_text("for 1 h", timeout=ANSWER_MS)
        assert _focused(page)["name"] == "length"
        _tab_to(page, "name")
        page.keyboard.type("typed-run")
        _tab_to(page, "tenant")
        page.keyboard.press("Tab")
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))
        expect(page.get_by_role("heading", level=1)).to_have_text("typed-run")
        _release_by_keys(page)


def test_the_canvas_is_one_stop_that_arrows_walk(visitors: Visitors):
    with visitors.page("ada") as page:
        page.goto("/timeline/?zoom=week")
        canvas = page.locator("[data-canvas=inspector]")
        assert canvas.locator(".lease").count() > 5
        expect(canvas.locator(".lease[tabindex='0']")).to_have_count(1)
        _tab_to_lease(page)
        first = _focused(page)
        seen = {first["id"]}
        for key in ("ArrowRight", "ArrowRight", "ArrowDown", "ArrowLeft", "End", "ArrowUp", "Home"):
            page.keyboard.press(key)
            now = _focused(page)
            assert now["lease"], key
            seen.add(now["id"])
            expect(page.locator("#inspector [data-f='0']")).to_have_text(now["words"].split(" · ")[0])
            expect(canvas.locator(".lease[tabindex='0']")).to_have_count(1)
        assert len(seen) > 3
        page.keyboard.press("Tab")
        expect(canvas.locator(".lease:focus")).to_have_count(0)
        page.keyboard.press("Shift+Tab")
        assert _focused(page)["lease"]
        page.keyboard.press("Enter")
        page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))


def test_a_quota_is_edited_in_its_row_and_escape_gives_it_back(visitors: Visitors):
    with visitors.page("ada") as page:
        page.goto("/tenants/")
        value = page.get_by_role("link", name=re.compile(r"^Limit for teaching: "))
        words = value.get_attribute("aria-label")
        value.focus()
        page.keyboard.press("Enter")
        edit = page.locator("#tree tbody form")
        expect(edit.get_by_role("textbox", name="Guaranteed")).to_be_focused()
        page.keyboard.type("99")
        page.keyboard.press("Escape")
        expect(value).to_have_attribute("aria-label", words or "")
        expect(value).to_be_focused()

        page.keyboard.press("Enter")
        edit.get_by_role("textbox", name="Limit").fill("99")
        page.keyboard.press("Enter")
        expect(page.locator("#edit-err")).to_be_visible()
        page.keyboard.press("Escape")
        expect(value).to_have_attribute("aria-label", words or "")


def _release_by_keys(page: Page) -> None:
    opener = page.get_by_role("link", name=re.compile("^(Release early|Cancel)…"))
    opener.focus()
    page.keyboard.press("Enter")
    expect(page.get_by_role("dialog")).to_be_visible()
    page.keyboard.press("Escape")
    expect(page.get_by_role("dialog")).to_be_hidden()
    expect(opener).to_be_focused()
    page.keyboard.press("Enter")
    page.keyboard.press("Enter")
    expect(opener).to_have_count(0, timeout=ANSWER_MS)


def _focused(page: Page) -> dict:
    """What has the focus; nobody may lose sight of it."""
    focused = page.evaluate(FOCUSED)
    assert focused["ringed"], f"{focused} shows no focus"
    assert not focused["covered"], f"{focused} is covered"
    return focused


def _tab_to(page: Page, name: str) -> None:
    for _stop in range(TABS_MOST):
        page.keyboard.press("Tab")
        if _focused(page)["name"] == name:
            return
    raise AssertionError(f"{name} is not reached by Tab")


def _tab_to_lease(page: Page) -> None:
    for _stop in range(TABS_MOST):
        page.keyboard.press("Tab")
        if _focused(page)["lease"]:
            return
    raise AssertionError("no lease is reached by Tab")
