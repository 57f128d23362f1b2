"""axe on a page as it stands: WCAG 2.0 to 2.2, A and AA, and best practice."""

from axe_playwright_python.base import AXE_FILE_PATH
from playwright.sync_api import Page

TAGS = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
QUICK = {"resultTypes": ["violations"], "preload": False}
OPTIONS = {"runOnly": {"type": "tag", "values": TAGS}, **QUICK}
COLOURS = {"runOnly": {"type": "rule", "values": ["color-contrast", "link-in-text-block"]}, **QUICK}
SCRIPT = AXE_FILE_PATH.read_text()


def violations(page: Page, *, colours_only: bool = False) -> list[str]:
    """One line for each rule that is broken: which, how often, and the first place.

    ``colours_only`` asks again what another theme may change.
    """
    if not page.evaluate("() => 'axe' in window"):
        page.evaluate(SCRIPT)
    options = COLOURS if colours_only else OPTIONS
    found = page.evaluate("options => axe.run(document, options).then((told) => told.violations)", options)
    return [_line(rule) for rule in found]


def _line(rule: dict) -> str:
    first = rule["nodes"][0]
    why = " ".join((first.get("failureSummary") or "").split())
    return f"{rule['id']} x {len(rule['nodes'])}: {first['html'][:160]} | {why[:240]}"
