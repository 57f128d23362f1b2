"""The REST API as a program uses it: reading, booking with a key, refusals, giving back."""

import datetime as dt
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.services import create_token
from portal.reservations.models import Lease, LeaseState, Reservation
from portal.tenants.models import Role
from portal.workloads.models import Template
from tests.factories import (
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    window,
)

pytestmark = pytest.mark.django_db

RUNS = {"name": "train", "command": ["python", "train.py"], "environment": {"SEED": "7"}}


class Program:
    """A client with a token, as a script of that person would have."""

    def __init__(self, person):
        self.person = person
        _, self.text = create_token(person=person, name="script", days=30)
        self.http = Client(headers={"Authorization": f"Bearer {self.text}"}, raise_request_exception=True)

    def get(self, path: str, **query):
        return self.http.get(f"/api/v1/{path}", query)

    def post(self, path: str, body=None, **headers):
        named = {name.replace("_", "-"): value for name, value in headers.items()}
        return self.http.post(f"/api/v1/{path}", body, content_type="application/json", headers=named)


@pytest.fixture
def team():
    return make_org()[1]


@pytest.fixture
def pool(team):
    pool = make_pool_with_gpus("H100", gpus=1)
    make_quota(team.parent, pool, limit=100)
    return pool


@pytest.fixture
def program(team):
    return Program(make_user("ada", team))


def soon(hours: float = 1) -> str:
    return (timezone.now().replace(microsecond=0) + dt.timedelta(hours=hours)).isoformat()


def wanted(team, pool, **other) -> dict:
    asked = {
        "tenant": team.pk,
        "pool": pool.pk,
        "profile": "3g.40gb",
        "start": soon(1),
        "end": soon(2),
        "workload": RUNS,
    }
    return asked | other


def test_me_tells_who_asks(program):
    assert program.get("me/").json()["email"] == program.person.email


def test_tenants_come_with_the_askers_role(program, team):
    rows = {row["name"]: row["role"] for row in program.get("tenants/").json()["results"]}
    assert rows == {"vision-lab": "member", "segmentation": "member"}


def test_pools_list_what_their_gpus_offer(program, pool):
    (row,) = program.get("pools/").json()["results"]
    shapes = {shape["name"]: shape for shape in row["profiles"]}
    assert shapes["3g.40gb"]["starts"] == [0, 4]
    assert shapes["7g.80gb"]["whole"] is True


def test_a_booking_is_read_back_as_it_was_asked(program, team, pool):
    asked = wanted(team, pool)
    made = program.post("reservations/", asked)
    assert made.status_code == 201, made.json()
    told = program.get(f"reservations/{made.json()['id']}/").json()
    assert told == made.json()
    assert (told["state"], told["profile"], told["tenant"]["id"]) == ("confirmed", "3g.40gb", team.pk)
    assert dt.datetime.fromisoformat(told["start"]) == dt.datetime.fromisoformat(asked["start"])
    assert told["price_slice_seconds"] == 3 * 3600
    (lease,) = told["leases"]
    assert lease["span"] in ({"start": 0, "end": 4}, {"start": 4, "end": 8})
    assert told["workload"]["environment_names"] == ["SEED"]
    assert "7" not in told["workload"]["environment_names"]


def test_a_template_of_the_tenant_or_above_can_be_booked_and_no_other(program, team, pool):
    ours = Template.objects.create(tenant=team.parent, name="notebook", command=["jupyter"])
    theirs = Template.objects.create(tenant=make_tenant("robotics", team.parent), name="x", command=["x"])
    asked = {key: value for key, value in wanted(team, pool).items() if key != "workload"}
    assert program.post("reservations/", asked | {"template": ours.pk}).json()["workload"]["command"] == ["jupyter"]
    assert program.post("reservations/", asked | {"template": theirs.pk}).status_code == 404
    assert program.post("reservations/", asked).status_code == 422


def test_the_same_key_and_request_book_once(program, team, pool):
    asked = wanted(team, pool)
    first = program.post("reservations/", asked, Idempotency_Key="k-1")
    again = program.post("reservations/", asked, Idempotency_Key="k-1")
    assert (first.status_code, again.status_code) == (201, 200)
    assert first.json() == again.json()
    assert Reservation.objects.count() == 1


def test_the_same_key_with_another_request_is_a_conflict(program, team, pool):
    program.post("reservations/", wanted(team, pool), Idempotency_Key="k-1")
    other = program.post("reservations/", wanted(team, pool, ranks=2), Idempotency_Key="k-1")
    assert (other.status_code, other.json()["code"]) == (409, "idempotency_conflict")
    assert Reservation.objects.count() == 1


def test_the_same_key_of_somebody_else_is_another_key(program, team, pool):
    asked = wanted(team, pool)
    program.post("reservations/", asked, Idempotency_Key="k-1")
    assert Program(make_user("bob", team)).post("reservations/", asked, Idempotency_Key="k-1").status_code == 201


def test_a_refusal_stores_nothing_and_leaves_the_key_free(program, team, pool):
    refused = program.post("reservations/", wanted(team, pool, ranks=5), Idempotency_Key="k-1")
    assert (refused.status_code, refused.json()["code"]) == (409, "no_capacity")
    assert program.post("reservations/", wanted(team, pool), Idempotency_Key="k-1").status_code == 201


def test_no_room_comes_with_evidence_and_alternatives_that_can_be_booked(program, team, pool):
    assert program.post("reservations/", wanted(team, pool, profile="7g.80gb")).status_code == 201
    refused = program.post("reservations/", wanted(team, pool))
    told = refused.json()
    assert (refused.status_code, told["code"]) == (409, "no_capacity")
    assert told["message"]
    assert 1 <= len(told["alternatives"]) <= 3
    way = told["alternatives"][0]
    taken = {key: way[key] for key in ("pool", "profile", "ranks", "start", "end")}
    assert program.post("reservations/", wanted(team, pool) | taken).status_code == 201


def test_a_quota_is_named_with_its_numbers(program, team, pool):
    make_quota(team, pool, limit=2)
    refused = program.post("reservations/", wanted(team, pool))
    assert (refused.status_code, refused.json()["code"]) == (409, "quota_exceeded")
    assert refused.json()["evidence"]["limit"] == 2


def test_availability_says_what_booking_would_and_books_nothing(program, team, pool):
    asked = {key: value for key, value in wanted(team, pool).items() if key != "workload"}
    told = program.get("availability/", **asked).json()
    assert (told["fits"], told["reason"], told["price_slice_seconds"]) == (True, None, 3 * 3600)
    assert len(told["placements"]) == 1
    refused = program.get("availability/", **asked | {"ranks": 3}).json()
    assert (refused["fits"], refused["reason"]["code"]) == (False, "no_capacity")
    assert refused["alternatives"]
    assert Reservation.objects.count() == 0


def test_free_counts_fall_by_what_is_booked(program, team, pool):
    asked = {"start": soon(1), "end": soon(2)}
    before = {row["profile"]: row["free"] for row in program.get(f"pools/{pool.pk}/free/", **asked).json()}
    program.post("reservations/", wanted(team, pool))
    after = {row["profile"]: row["free"] for row in program.get(f"pools/{pool.pk}/free/", **asked).json()}
    assert (before["3g.40gb"], after["3g.40gb"]) == (2, 1)
    steps = program.get(f"pools/{pool.pk}/free-over-time/", profile="3g.40gb", since=soon(0), hours=4).json()
    assert {row["free"] for row in steps} == {1, 2}


def test_release_before_the_start_cancels_and_a_second_one_is_a_conflict(program, team, pool):
    number = program.post("reservations/", wanted(team, pool)).json()["id"]
    assert program.post(f"reservations/{number}/release/").status_code == 200
    again = program.post(f"reservations/{number}/release/")
    assert (again.status_code, again.json()["code"]) == (409, "state_conflict")


def test_what_has_started_is_released_and_not_cancelled(program, team, pool):
    gpu = pool.gpus.get()
    during = window(timezone.now() - dt.timedelta(minutes=5))
    running = make_reservation(
        team, pool, "3g.40gb", during, places=((gpu, 0),), owner=program.person, state="running",
        lease_state=LeaseState.ACTIVE, frozen_at=during.lower,
    )  # fmt: skip
    refused = program.post(f"reservations/{running.pk}/cancel/")
    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")
    assert Lease.objects.get().state == LeaseState.ACTIVE
    assert program.post(f"reservations/{running.pk}/release/").status_code == 200
    assert Lease.objects.get().state == LeaseState.STOPPING


def test_only_the_owner_and_leads_give_back(program, team, pool):
    number = program.post("reservations/", wanted(team, pool)).json()["id"]
    other, lead = Program(make_user("bob", team)), Program(make_user("lead", team, Role.LEAD))
    assert other.get(f"reservations/{number}/").status_code == 200
    assert other.post(f"reservations/{number}/release/").status_code == 404
    assert lead.post(f"reservations/{number}/cancel/").status_code == 200


def test_a_lead_books_for_a_member_and_a_member_for_nobody_else(program, team, pool):
    lead = Program(make_user("lead", team, Role.LEAD))
    made = lead.post("reservations/", wanted(team, pool, owner=program.person.pk))
    assert made.json()["owner"]["id"] == program.person.pk
    assert program.post("reservations/", wanted(team, pool, owner=lead.person.pk)).status_code == 404
    assert lead.post("reservations/", wanted(team, pool, owner=make_user("stranger").pk)).status_code == 404


def test_lists_are_filtered_and_hold_only_what_may_be_seen(program, team, pool):
    other = make_tenant("robotics", team.parent)
    gpu = pool.gpus.get()
    mine = make_reservation(team, pool, "1g.10gb", window(timezone.now()), places=((gpu, 0),), owner=program.person)
    ours = make_reservation(team, pool, "1g.10gb", window(timezone.now()), places=((gpu, 1),), state="running")
    make_reservation(other, pool, "1g.10gb", window(timezone.now()), places=((gpu, 2),))

    def ids(**query):
        return [row["id"] for row in program.get("reservations/", **query).json()["results"]]

    assert ids() == [ours.pk, mine.pk]
    assert ids(mine="true") == [mine.pk]
    assert ids(state="running") == [ours.pk]
    assert ids(tenant=team.pk) == [ours.pk, mine.pk]
    assert program.get("reservations/", tenant=other.pk).status_code == 404
    assert ids(limit=1) == [ours.pk]


def test_the_fleet_hides_whose_a_slice_is_from_who_may_not_see_the_tenant(program, team, pool):
    other = make_tenant("robotics", team.parent)
    gpu = pool.gpus.get()
    mine = make_reservation(team, pool, "1g.10gb", window(timezone.now()), places=((gpu, 0),))
    make_reservation(other, pool, "1g.10gb", window(timezone.now()), places=((gpu, 2),))
    (node,) = program.get("fleet/").json()["results"]
    (told,) = node["gpus"]
    assert told["slices_held"] == 2
    assert [held["reservation"] for held in told["held"]] == [mine.pk, None]
    assert [held["tenant"] for held in told["held"]] == [team.pk, None]


def test_usage_gives_the_numbers_of_the_page(program, team, pool):
    today = timezone.now().date()
    make_reservation(
        team, pool, "3g.40gb", window(timezone.now()), places=((pool.gpus.get(), 0),), owner=program.person
    )
    span = {"since": today.isoformat(), "until": (today + dt.timedelta(days=1)).isoformat()}
    told = program.get("usage/", tenant=team.pk, **span).json()
    assert told["total"]["reserved"] == 3 * 3600
    assert told["by_member"][0]["name"] == program.person.name
    assert program.get("usage/", tenant=team.parent.pk, **span).status_code == 404
    assert program.get("usage/", tenant=team.pk, since="2026-01-01", until="2025-01-01").status_code == 422


@pytest.mark.parametrize("path", ["reservations/", "fleet/", "pools/", "tenants/"])
def test_lists_take_the_same_number_of_queries_at_1_25_and_200_rows(path, program, team, pool):
    program.get("me/")  # the first use of a token in a minute is noted
    taken = set()
    for count in (1, 24, 175):
        many = make_pool_with_gpus("A100", gpus=count, nodes=count)
        for number, gpu in enumerate(many.gpus.all()):
            make_reservation(team, many, "1g.10gb", window(timezone.now()), places=((gpu, 0),), owner=program.person)
            make_tenant(f"t{count}-{number}", team)
        with CaptureQueriesContext(connection) as seen:
            answer = program.get(path, limit=200)
        taken.add(len(seen))
        assert answer.status_code == 200
    assert len(taken) == 1
    assert max(taken) <= 12
    assert path == "pools/" or len(answer.json()["results"]) == 200


def test_what_is_nowhere_is_said_as_every_refusal_is(program):
    answer = program.get("reservations/null%2Cnull/")
    assert (answer.status_code, answer.json()["code"]) == (404, "not_found")


def test_each_operation_of_the_schema_names_its_refusals(client):
    schema = client.get("/api/schema/?format=json").json()
    operations = [one for path in schema["paths"].values() for method, one in path.items() if method != "parameters"]
    assert len(operations) > 40
    for one in operations:
        expected = {"401", "503"} | ({"400", "422"} if "requestBody" in one else set())
        assert expected | ({"404"} if one.get("parameters") else set()) <= set(one["responses"]), one["operationId"]
    assert "format" not in schema["components"]["schemas"]["SeriesShape"]["properties"]["opens"]


def test_the_schema_and_its_page_are_served(client):
    assert client.get("/api/schema/").status_code == 200
    page = client.get("/api/docs/")
    assert page.status_code == 200
    assert "style-src 'self' 'unsafe-inline'" in page["Content-Security-Policy"]
    assert "script-src" not in page["Content-Security-Policy"]
    assert not re.search(r'(?:src|href)="(?:https?:)?//', page.content.decode())
    assert client.get("/api/docs/?script=").status_code == 200
