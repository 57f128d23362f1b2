"""Every page of Berth as it is visited: by whom, where, and what has to be done first."""

import re
from collections.abc import Callable
from dataclasses import dataclass
from urllib.parse import urlencode

from playwright.sync_api import Page, expect

from portal.demo.names import DOMAIN
from portal.demo.supervisor import Stack
from tests.e2e.visitors import Visitors
from tests.smoke.client import Client

SHOWN_MS = 20_000


@dataclass(frozen=True)
class Visit:
    """``path`` may name ``{things}`` of the world; ``then`` is done once the page is there; ``status`` is its last."""

    name: str
    who: str
    path: str
    then: Callable[[Page], None] | None = None
    status: int = 200
    widths: tuple[int, ...] = (1440, 390)

    @property
    def in_chinese(self) -> bool:
        """What is only another state or another reader of the same page is looked at in English alone."""
        return self.then is None and len(self.widths) > 1


def _refused(page: Page) -> None:
    """Sent although the form says no, as without script; the answer is a page of its own with ways on."""
    page.locator("label.pick", has_text="whole GPU").click()
    expect(page.locator("#why")).to_be_visible(timeout=SHOWN_MS)
    with page.expect_navigation():
        page.evaluate("() => document.getElementById('reserve-form').submit()")
    expect(page.locator("#why")).to_be_visible()


def _malformed(page: Page) -> None:
    page.locator("#f-ranks").fill("-1")
    with page.expect_navigation():
        page.evaluate("() => document.getElementById('reserve-form').submit()")
    expect(page.get_by_role("alert").first).to_be_visible()


def _answered(page: Page) -> None:
    expect(page.locator("#answer")).to_contain_text("It fits", timeout=SHOWN_MS)


def _slices_apart(page: Page) -> None:
    expect(page.locator("#why")).to_contain_text("cannot work as one group", timeout=SHOWN_MS)


def _previewed(page: Page) -> None:
    expect(page.locator("#series-answer")).to_contain_text("8 of 8 fit", timeout=SHOWN_MS)


def _dialog(page: Page) -> None:
    page.locator("[data-open='#ask-release']").click()
    expect(page.get_by_role("dialog")).to_be_visible()


def _menu(page: Page) -> None:
    page.get_by_label("Menu", exact=True).first.click()
    expect(page.locator("details.menu .menu-in")).to_be_visible()


def _node_added(page: Page) -> None:
    page.locator("#id_name").fill("pier-01")
    with page.expect_navigation():
        page.locator("main form button.btn-go").click()
    expect(page.locator("#join")).to_be_visible()


def _editing(page: Page) -> None:
    page.locator("#tree a.as-is").first.click()
    expect(page.locator("#tree form.row input[autofocus]")).to_be_visible()


VISITS = (
    Visit("sign-in", "", "/sign-in/"),
    Visit("password-reset", "", "/password/reset/"),
    Visit("password-reset-done", "", "/password/reset/done/"),
    Visit("password-link-gone", "", "/password/reset/key/0-none/", status=404),
    Visit("invitation", "", "{invitation}"),
    Visit("invitation-gone", "", "/invitation/none/", status=404),
    Visit("home", "rosa", "/"),
    Visit("home-menu", "rosa", "/", _menu, widths=(390,)),
    Visit("home-empty", "viktor", "/"),
    Visit("find", "rosa", "/find/?q=train"),
    Visit("reserve", "rosa", "/reserve/?{h100}", _answered),
    Visit("reserve-refused", "rosa", "/reserve/?ranks=2&{h100}", _refused, status=409),
    Visit("reserve-group", "rosa", "/reserve/?ranks=2&group=one&{h100}", _slices_apart),
    Visit("reserve-malformed", "rosa", "/reserve/", _malformed, status=422),
    Visit("reservation-active", "rosa", "{running}"),
    Visit("reservation-not-measurable", "jonas", "{unmeasured}"),
    Visit("reservation-dialog", "rosa", "{running}", _dialog),
    Visit("reservation-planned", "rosa", "{planned}"),
    Visit("reservation-ended", "rosa", "{ended}"),
    Visit("release", "rosa", "{running}release/"),
    Visit("change-running", "rosa", "{running}change/"),
    Visit("change-planned", "rosa", "{planned}change/"),
    Visit("reservation-queued", "rosa", "{queued}"),
    Visit("approvals", "ada", "/approvals/"),
    Visit("queue", "rosa", "/queue/"),
    Visit("series", "mei", "/series/"),
    Visit("series-new", "rosa", "/series/new/", _previewed),
    Visit("class", "olga", "{class}"),
    Visit("maintenance", "ada", "/maintenance/"),
    Visit("maintenance-plan", "ada", "/maintenance/plan/"),
    Visit("maintenance-one", "ada", "{maintenance}"),
    Visit("calendar", "rosa", "/calendar/"),
    Visit("audit", "ada", "/audit/"),
    Visit("reservations", "rosa", "/reservations/"),
    Visit("timeline-day", "rosa", "/timeline/"),
    Visit("timeline-week", "rosa", "/timeline/?zoom=week"),
    Visit("timeline-month", "rosa", "/timeline/?zoom=month"),
    Visit("timeline-table", "rosa", "/timeline/?view=table"),
    Visit("timeline-admin", "ada", "/timeline/?zoom=week", widths=(1440,)),
    Visit("fleet", "rosa", "/fleet/"),
    Visit("fleet-admin", "ada", "/fleet/", widths=(1440,)),
    Visit("usage", "rosa", "/usage/"),
    Visit("inbox", "rosa", "/inbox/"),
    Visit("undelivered-mail", "ada", "/mail/"),
    Visit("tenants", "ada", "/tenants/"),
    Visit("tenants-edit", "ada", "/tenants/", _editing),
    Visit("tenant-add", "ada", "/tenants/add/"),
    Visit("people", "ada", "{people}"),
    Visit("nodes", "ada", "/nodes/"),
    Visit("node", "ada", "{node}"),
    Visit("node-add", "ada", "/nodes/add/"),
    Visit("node-enrol", "ada", "/nodes/add/", _node_added),
    Visit("pool", "ada", "{pool}"),
    Visit("pool-add", "ada", "/nodes/pools/add/"),
    Visit("profile", "rosa", "/profile/"),
    Visit("not-found", "rosa", "/nowhere/", status=404),
    Visit("not-yours", "mei", "{running}", status=404),
)


def world(visitors: Visitors, password: str) -> dict[str, str]:
    """Paths of things that the demo has, by the names that visits use."""
    rosa, jonas, ada, olga = (_client(visitors.url, name, password) for name in ("rosa", "jonas", "ada", "olga"))
    pools = {row["name"]: row for row in _rows(ada, "/api/v1/pools/")}
    tenants = {row["name"]: row["id"] for row in _rows(ada, "/api/v1/tenants/")}
    node = _rows(ada, "/api/v1/fleet/")[0]
    return {
        "h100": urlencode({"pool": pools["H100 MIG"]["id"]}),
        "running": _newest(rosa, "running"),
        "planned": _newest(rosa, "confirmed"),
        "ended": _newest(rosa, "ended"),
        "queued": _newest(rosa, "queued"),
        "class": f"/series/{_rows(olga, '/api/v1/series/')[0]['id']}/",
        "maintenance": f"/maintenance/{_rows(ada, '/api/v1/maintenance/')[0]['id']}/",
        "unmeasured": _newest(jonas, "running"),
        "node": f"/nodes/{node['id']}/",
        "pool": f"/nodes/pools/{pools['H100 MIG']['id']}/",
        "people": f"/tenants/{tenants['segmentation']}/people/",
        "invitation": _invitation(visitors, tenants["segmentation"]),
    }


def running_of(stack: Stack, name: str) -> str:
    """The page of what this person's calendar has running."""
    return _newest(_client(stack.url, name, stack.password), "running")


def _client(url: str, name: str, password: str) -> Client:
    client = Client(url)
    client.sign_in(f"{name}@{DOMAIN}", password)
    return client


def _rows(client: Client, path: str) -> list[dict]:
    return client.get(f"{path}{'&' if '?' in path else '?'}limit=200", expect=200).json["results"]


def _newest(client: Client, state: str) -> str:
    """The page of the newest reservation in this state that the reader may change: their own."""
    me = client.get("/api/v1/me/", expect=200).json
    rows = _rows(client, f"/api/v1/reservations/?state={state}")
    mine = next(row for row in rows if row["owner"]["id"] == me["id"])
    return f"/reservations/{mine['number']}/"


def _invitation(visitors: Visitors, tenant_id: int) -> str:
    """A fresh one, read off the page of people, where it is shown once."""
    with visitors.page("lin") as page:
        page.context.add_cookies([{"name": "berth_language", "value": "en", "url": visitors.url}])
        page.goto(f"/tenants/{tenant_id}/people/")
        page.locator("#id_email").fill(f"guest-{re.sub(r'[^a-z0-9]', '', visitors.url)}@example.org")
        page.get_by_role("button", name="Invite", exact=True).click()
        return page.locator("#link").inner_text().removeprefix(visitors.url)
