"""Whether the usage page has the seconds that a reservation held."""

import datetime as dt

from tests.smoke.bookings import Facts, Researcher
from tests.smoke.client import Unexpected

ROUNDING_SECONDS = 3


def check_accounted(researcher: Researcher, ended: Facts) -> None:
    """Its weighted seconds in today's usage are those between its running and its end; the page itself names it."""
    figures = researcher.usage(ended["id"])
    lease = ended["leases"][0]
    held = dt.datetime.fromisoformat(lease["ended_at"]) - dt.datetime.fromisoformat(lease["active_at"])
    expected = ended["weight"] * held.total_seconds()
    if figures["running"] == 0 or abs(figures["running"] - expected) > ROUNDING_SECONDS * ended["weight"]:
        raise Unexpected(f"usage says {figures['running']} slice-seconds, {expected:.0f} were held")
    page = researcher.client.get(f"/usage/?tenant={researcher.tenant['id']}", expect=200)
    if ended["owner"]["name"] not in page.text:
        raise Unexpected("the usage page does not name the researcher")
