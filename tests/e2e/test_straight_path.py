"""The straight path in the browser: on a screen, on a phone, without script; and what another tenant sees of it."""

import csv
import re

import pytest
from playwright.sync_api import Page, Route, expect

from tests.e2e.visitors import PHONE, Visitors
from tests.e2e.walking import (
    POOL,
    PROFILE,
    WAVES,
    Booked,
    booked_here,
    choose_pool,
    fill_reserve_form,
    release,
    wait_fits,
    wait_log_grows,
    wait_moving,
    wait_running,
)
from tests.smoke.bookings import Researcher

pytestmark = [pytest.mark.browser, pytest.mark.stack]
PREVIEW_MS = 15_000


def test_a_newcomer_books_watches_and_releases_without_reloading(visitors: Visitors, researcher: Researcher):
    with visitors.page() as page:
        visitors.sign_in(page, "rosa")
        seconds_before = _seconds_on_usage(page)
        booked = _book(page, "newcomer-run")
        loads: list[str] = []
        page.on("framenavigated", lambda frame: loads.append(frame.url))
        wait_moving(page, booked.lease_id)
        wait_log_grows(page)
        assert loads == []

        _find_on_timeline_and_fleet(page, booked, "newcomer-run")
        alternative = _refused_then_one_click(page, researcher)
        researcher.client.post(f"/api/v1/reservations/{alternative}/release/", {}, expect=200)

        page.goto(booked.path)
        release(page)
        expect(page.get_by_role("link", name="Release early…")).to_have_count(0)
        expect(page.locator("section[aria-labelledby=h-cost]")).to_contain_text("Went back to the budget")
        held = researcher.usage(int(booked.number.removeprefix("R-")))["running"]
        assert held > 0
        assert _seconds_on_usage(page) >= seconds_before + held


def test_a_phone_is_enough_to_book_and_to_release(visitors: Visitors):
    with visitors.page("rosa", PHONE, has_touch=True, is_mobile=True) as page:
        page.goto("/")
        page.get_by_role("navigation", name="Quick").get_by_role("link", name="Reserve").click()
        fill_reserve_form(page, WAVES, "phone-run")
        wait_fits(page)
        page.get_by_role("button", name=re.compile(rf"^Reserve {re.escape(PROFILE)}")).click()
        page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))
        wait_moving(page, wait_running(page))
        release(page)


def test_without_script_forms_and_links_book_and_release(visitors: Visitors):
    with visitors.page(java_script_enabled=False) as page:
        visitors.sign_in(page, "rosa")
        page.goto("/reserve/")
        fill_reserve_form(page, WAVES, "plain-run")
        page.get_by_role("button", name="Check").click()
        expect(page.locator("#answer")).to_contain_text("It fits")
        page.get_by_role("button", name=re.compile("^Reserve")).click()
        page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))
        _reload_until(page, "Active")
        page.get_by_role("link", name="Release early…").click()
        page.get_by_role("button", name="Release now").click()
        _reload_until(page, "Released early")


def test_a_choice_made_while_an_answer_is_on_its_way_is_kept(visitors: Visitors):
    """The answer to the form as it was opened comes after the choice, and before the question about it."""
    with visitors.page("rosa") as page:
        page.route("**/reserve/preview/**", lambda route: _choose_first(page, route), times=1)
        page.goto("/reserve/")
        expect(page.locator("#answer")).to_contain_text("full weighs 7", timeout=PREVIEW_MS)
        expect(page.locator("#f-pool option:checked")).to_contain_text("L40S")


def test_another_tenant_sees_that_a_place_is_held_and_not_by_whom(visitors: Visitors):
    with visitors.page("rosa") as mine, visitors.page("mei") as foreign:
        booked = _book(mine, "secret-run")
        mine.goto("/timeline/")
        expect(mine.locator(f"#lease-{booked.lease_id}")).to_have_attribute("aria-label", re.compile("secret-run"))
        for path in ("/timeline/", "/timeline/?view=table", "/fleet/", "/"):
            foreign.goto(path, wait_until="networkidle")
            shown = foreign.content()
            assert "secret-run" not in shown, path
            assert "Rosa" not in shown, path
            assert booked.number not in shown, path
        foreign.goto("/timeline/")
        held = foreign.locator(f"#lease-{booked.lease_id}")
        expect(held).to_have_attribute("aria-label", re.compile("^held"))
        assert held.get_attribute("href") is None
        answer = foreign.goto(booked.path)
        assert answer and answer.status == 404
        mine.goto(booked.path)
        release(mine)


def _choose_first(page: Page, route: Route) -> None:
    answer = route.fetch()
    choose_pool(page, "L40S")
    route.fulfill(response=answer)


def _book(page: Page, name: str) -> Booked:
    """By the form, which says that it fits before it is sent; waits until the workload runs."""
    page.goto("/")
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Reserve").click()
    fill_reserve_form(page, WAVES, name)
    wait_fits(page)
    page.get_by_role("button", name=re.compile(rf"^Reserve {re.escape(PROFILE)}")).click()
    page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text(name)
    expect(page.locator("section[aria-labelledby=h-where]")).to_contain_text(POOL)
    return booked_here(page, wait_running(page))


def _find_on_timeline_and_fleet(page: Page, booked: Booked, name: str) -> None:
    for place in ("Timeline", "Fleet"):
        page.get_by_role("navigation", name="Main").get_by_role("link", name=place).click()
        lease = page.locator(f"#lease-{booked.lease_id}")
        expect(lease).to_have_attribute("aria-label", re.compile(rf"^{name} · segmentation · {re.escape(PROFILE)}"))
        expect(lease).to_have_class(re.compile(r"\bmine\b"))
        lease.hover()
        expect(page.locator("#inspector")).to_contain_text(name)
    lease.click()
    page.wait_for_url(f"**{booked.path}")


def _refused_then_one_click(page: Page, researcher: Researcher) -> int:
    """With the pool filled up the form says why not and what instead; one click takes the first way on."""
    shapes = [row for row in researcher.pools[POOL]["profiles"] if "+" not in row["name"]]
    for shape in sorted(shapes, key=lambda row: (-row["size"], -row["weight"])):
        while researcher.availability(POOL, shape["name"])["fits"]:
            researcher.book(POOL, shape["name"])
    page.goto("/reserve/")
    fill_reserve_form(page, WAVES, "alternative-run")
    expect(page.locator("#why")).to_be_visible(timeout=PREVIEW_MS)
    expect(page.locator("#go button")).to_be_disabled()
    ways = page.locator("#answer li.alt")
    assert 1 <= ways.count() <= 3
    ways.first.get_by_role("button", name=re.compile("^Reserve: ")).click()
    page.wait_for_url(re.compile(r"/reservations/R-\d+/$"))
    expect(page.get_by_role("heading", level=1)).to_have_text("alternative-run")
    return int(booked_here(page, "").number.removeprefix("R-"))


def _seconds_on_usage(page: Page) -> int:
    """Weighted slice-seconds that ran, of the researcher, this month: by the page's own table and its CSV."""
    page.get_by_role("navigation", name="Main").get_by_role("link", name="Usage").click()
    expect(page.get_by_role("row", name=re.compile("^Rosa Weber"))).to_be_visible()
    with page.expect_download() as download:
        page.get_by_role("link", name="CSV").click()
    with open(download.value.path(), encoding="utf-8-sig", newline="") as file:
        return sum(int(row["running_slice_seconds"]) for row in csv.DictReader(file) if row["member"] == "Rosa Weber")


def _reload_until(page: Page, word: str) -> None:
    """Without script a page shows what is when it is loaded; loading is bounded by the test's own time."""
    heading = page.locator("section[aria-labelledby=h-st] header .state")
    for _turn in range(60):
        if heading.inner_text() == word:
            return
        page.wait_for_timeout(500)
        page.reload()
    raise AssertionError(f"it says {heading.inner_text()}, not {word}")
