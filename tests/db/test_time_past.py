"""A window that has begun already is refused on every path that takes one, beside its field, and nothing is touched."""

import datetime as dt

import pytest

from portal.inventory.models import Node, Pool
from portal.reservations.models import Reservation
from tests.db.house import House
from tests.db.test_time import asked, page, text_of
from tests.factories import HOUR

pytestmark = pytest.mark.django_db


def parts(side: str, when: dt.datetime) -> dict[str, str]:
    return {f"{side}_date": f"{when:%Y-%m-%d}", f"{side}_time": f"{when:%H:%M}"}


def state_of_everything() -> tuple:
    """What a refusal must leave as it is."""
    rows = Reservation.objects.order_by("pk").values_list("pk", "during", "state", "changes")
    return list(rows), list(Node.objects.values_list("generation")), list(Pool.objects.values_list("revision"))


@pytest.mark.case("R-01")
@pytest.mark.parametrize("hours_ago", [5, 0.05])
def test_a_start_in_the_past_is_refused_in_pages_and_api_alike_and_nothing_is_touched(hours_ago):
    house = House()
    booked = house.book(start=house.start, hours=2)
    client, start, end = page(house.owner), house.now - hours_ago * HOUR, house.now + 2 * HOUR
    before = state_of_everything()
    one = f"/api/v1/reservations/{booked.pk}/"
    body = {
        "tenant": house.team.pk, "pool": house.pool.pk, "profile": "1g.10gb", "start": start.isoformat(),
        "end": end.isoformat(), "workload": {"name": "x", "command": ["x"]},
    }  # fmt: skip
    window = parts("start", start) | parts("end", end)
    pages = [
        client.post("/reserve/", asked(house, length="until", **window)),
        client.post(f"/reservations/R-{booked.pk}/change/", {"name": "kept as typed"} | window),
    ]
    for answer in pages:
        assert answer.status_code == 422
        assert 'aria-invalid="true"' in text_of(answer) and "in the past" in text_of(answer)
        assert 'value="kept as typed"' in text_of(answer)
    programs = [
        client.post("/api/v1/reservations/", body, content_type="application/json"),
        client.patch(one, {"start": body["start"], "end": body["end"]}, content_type="application/json"),
    ]
    for answer in programs:
        assert (answer.status_code, answer.json()["evidence"]["field"]) == (422, "start")
    assert state_of_everything() == before
