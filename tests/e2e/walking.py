"""What a person does on the pages of a reservation, by what the pages say: book, wait, look, release."""

import re
from dataclasses import dataclass

from playwright.sync_api import Locator, Page, expect

POOL, PROFILE = "H100 MIG", "1g.10gb"
WAVES = "Load in waves"
RUNNING_MS, ENDED_MS = 30_000, 45_000  # generous: how fast it is, `make smoke` measures
MOVES_MS = 30_000
ANSWER_MS = 20_000
NODE = "quay-01"  # the only one of the pool


@dataclass(frozen=True)
class Booked:
    """``path`` is the reservation's page, ``number`` its public name."""

    path: str
    number: str
    lease_id: str


def fill_reserve_form(page: Page, workload: str, name: str, pool: str = POOL, profile: str = PROFILE) -> None:
    """One slice from now; every choice is made by its label. Works without script too, where nothing answers."""
    choose_pool(page, pool)
    page.locator("label.pick", has=page.get_by_text(profile, exact=True)).click()
    page.get_by_role("radiogroup", name="End").get_by_text("1 h", exact=True).click()
    page.locator("label.pick", has_text=workload).click()
    page.get_by_label("Name", exact=True).fill(name)


def choose_pool(page: Page, pool: str) -> None:
    """A pool stands there with its model behind it."""
    field = page.get_by_label("Pool", exact=True)
    texts = field.locator("option").all_inner_texts()
    field.select_option(label=next(text for text in texts if text.split(" · ")[0] == pool))


def wait_fits(page: Page) -> None:
    """The form says that what is chosen now fits, and where."""
    answer = page.locator("#answer")
    expect(answer).to_contain_text(NODE, timeout=ANSWER_MS)
    expect(answer).to_contain_text(f"{PROFILE} weighs 1, for 1 h", timeout=ANSWER_MS)
    expect(answer).to_contain_text("It fits")


def wait_running(page: Page) -> str:
    """The page tells by itself when the workload runs; returns the lease's id."""
    expect(state(page)).to_have_text("Active", timeout=RUNNING_MS)
    key = page.locator("[data-value$=':util']").first.get_attribute("data-value") or ""
    return key.split(":")[0].removeprefix("l")


def booked_here(page: Page, lease_id: str) -> Booked:
    found = re.search(r"/reservations/(R-\d+)/", page.url)
    assert found, page.url
    return Booked(found.group(0), found.group(1), lease_id)


def state(page: Page) -> Locator:
    return page.locator("section[aria-labelledby=h-st] header .state")


def wait_moving(page: Page, lease_id: str) -> None:
    """Use is shown above zero, and then as another number: the workload's load rises and falls."""
    shown = page.locator(f"[data-value='l{lease_id}:util']").first
    expect(shown).to_have_text(re.compile(r"^[1-9]\d*$"), timeout=MOVES_MS)
    expect(shown).not_to_have_text(shown.inner_text(), timeout=MOVES_MS)


def wait_log_grows(page: Page) -> None:
    log = page.get_by_role("log")
    expect(log).to_contain_text("tick", timeout=MOVES_MS)
    before = log.inner_text().count("tick")
    page.wait_for_function(
        "before => document.querySelector('pre.log').textContent.split('tick').length - 1 > before",
        arg=before,
        timeout=MOVES_MS,
    )


def release(page: Page) -> None:
    """By the dialog that says what is lost; the page shows the end by itself."""
    page.get_by_role("link", name="Release early…").click()
    dialog = page.get_by_role("dialog")
    expect(dialog).to_contain_text("return to")
    dialog.get_by_role("button", name="Release now").click()
    wait_ended(page)


def wait_ended(page: Page) -> None:
    expect(state(page)).to_have_text("Released early", timeout=ENDED_MS)
