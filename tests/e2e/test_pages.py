"""Every page, light and dark, on a screen and on a phone: readable to all, quiet, light, and asking nobody else."""

from pathlib import Path
from urllib.parse import urlsplit

import pytest
from playwright.sync_api import Page

from tests.e2e.accessibility import violations
from tests.e2e.pages import VISITS, Visit, world
from tests.e2e.visitors import DESKTOP, PHONE, Visitors
from tests.e2e.witness import Witness

pytestmark = [pytest.mark.browser, pytest.mark.stack]
SCREENSHOTS = Path(__file__).resolve().parents[2] / "screenshots"
REQUESTS_MOST, GZIPPED_BYTES_MOST = 12, 150_000
SIZES = {1440: DESKTOP, 390: PHONE}


@pytest.fixture(scope="package")
def things(visitors, stack) -> dict[str, str]:
    SCREENSHOTS.mkdir(exist_ok=True)
    return world(visitors, stack.password)


@pytest.mark.parametrize("visit", VISITS, ids=lambda visit: visit.name)
def test_a_page_is_open_to_everybody_and_light(visit: Visit, visitors: Visitors, things):
    with visitors.page(visit.who, SIZES[visit.widths[0]]) as page:
        witness = Witness(page)
        status = witness.open(visit.path.format(**things))
        assert witness.hosts == {urlsplit(visitors.url).netloc}
        assert witness.asked <= REQUESTS_MOST
        assert witness.gzipped_bytes < GZIPPED_BYTES_MOST
        if visit.then is None:
            assert status == visit.status
        else:
            visit.then(page)
        assert [line for width in visit.widths for line in _look(page, visit, width)] == []
        assert _unexpected(witness, visit) == []


@pytest.mark.parametrize("visit", [visit for visit in VISITS if visit.in_chinese], ids=lambda visit: visit.name)
def test_a_page_speaks_traditional_chinese(visit: Visit, visitors: Visitors, things):
    with visitors.page(visit.who, locale="zh-TW") as page:
        page.context.add_cookies([{"name": "berth_language", "value": "zh-hant", "url": visitors.url}])
        page.goto(visit.path.format(**things), wait_until="networkidle")
        assert page.locator("html").get_attribute("lang") == "zh-hant"
        assert _is_chinese(page.title() + page.inner_text("main"))
        _picture(page, f"{visit.name}-1440-light-zh-hant")
        assert _sideways(page) == []


def _look(page: Page, visit: Visit, width: int) -> list[str]:
    """What is wrong with the page in this width; leaves a picture of each theme. The socket runs meanwhile."""
    page.set_viewport_size(SIZES[width])
    wrong = []
    for theme in ("light", "dark"):
        page.emulate_media(color_scheme=theme)
        wrong += [f"{width} {theme} {line}" for line in violations(page, colours_only=theme == "dark")]
        _picture(page, f"{visit.name}-{width}-{theme}")
    return wrong + [f"{width} {line}" for line in _sideways(page)]


def _picture(page: Page, name: str) -> None:
    """The whole page in a window as high as it is, so that bars which stick to an edge cover nothing."""
    size = page.viewport_size or DESKTOP
    height = page.evaluate("() => document.documentElement.scrollHeight")
    page.set_viewport_size({"width": size["width"], "height": max(size["height"], height)})
    page.screenshot(path=SCREENSHOTS / f"{name}.png")
    page.set_viewport_size(size)


def _sideways(page: Page) -> list[str]:
    wide, window = page.evaluate("() => [document.documentElement.scrollWidth, document.documentElement.clientWidth]")
    return [f"{wide} px wide in a window of {window}"] if wide > window else []


def _is_chinese(text: str) -> bool:
    return any("\u4e00" <= sign <= "\u9fff" for sign in text)


def _unexpected(witness: Witness, visit: Visit) -> list[str]:
    """A browser complains about every status from 400 on, of the page itself too: that one is what was asked for."""
    expected = f"status of {visit.status}" if visit.status >= 400 else "\0"
    return [line for line in witness.complaints if expected not in line]
