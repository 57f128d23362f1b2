"""Whatever is sent: the answer is a refusal in one shape with a code and a sentence, nothing is stored, never a 5xx."""

import datetime as dt
import json

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.services import create_token, disable
from portal.reservations.models import IdempotencyKey, Reservation
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_reservation, make_tenant, make_user, window

pytestmark = pytest.mark.django_db

BOOK = "/api/v1/reservations/"
NOW = timezone.now().replace(microsecond=0)


def at(hours: float) -> str:
    return (timezone.now().replace(microsecond=0) + dt.timedelta(hours=hours)).isoformat()


@pytest.fixture
def team():
    return make_org()[1]


@pytest.fixture
def pool(team):
    pool = make_pool_with_gpus("H100", gpus=1)
    make_quota(team.parent, pool, limit=100)
    return pool


@pytest.fixture
def person(team):
    return make_user("ada", team)


@pytest.fixture
def http(person) -> Client:
    _, text = create_token(person=person, name="script", days=30)
    return Client(headers={"Authorization": f"Bearer {text}"}, raise_request_exception=True)


@pytest.fixture
def asked(team, pool) -> dict:
    return {
        "tenant": team.pk, "pool": pool.pk, "profile": "1g.10gb", "ranks": 1, "start": at(1), "end": at(2),
        "workload": {"name": "train", "command": ["train"]},
    }  # fmt: skip


def send(http: Client, body, path: str = BOOK, **headers):
    data = body if isinstance(body, bytes | str) else json.dumps(body)
    return http.post(path, data, content_type="application/json", headers=headers)


def assert_refused(answer, *statuses: int, code: str | None = None):
    told = answer.json()
    assert answer.status_code in statuses, told
    assert set(told) == {"code", "message", "evidence", "alternatives"}
    assert told["message"]
    assert code in (None, told["code"])
    assert not Reservation.objects.exists()
    assert not IdempotencyKey.objects.exists()


def test_what_is_changed_below_would_have_been_booked_as_it_stands(http, asked):
    assert send(http, asked).status_code == 201


COUNTS = [0, -1, 1.5, "1.5", 10**18, 10**400, 2**31, "many", None, True, [], {}, "", "1e3"]


@pytest.mark.parametrize("ranks", COUNTS, ids=lambda count: repr(count)[:12])
@pytest.mark.case("R-19", "Q-07")
def test_a_count_that_is_none_is_refused(http, asked, ranks):
    assert_refused(send(http, asked | {"ranks": ranks}), 409, 422)


WINDOWS = {
    "started long ago": (-48, -47, "window_refused"),
    "started two minutes ago": (-2 / 60, 1, "window_refused"),
    "empty": (1, 1, "window_refused"),
    "reversed": (2, 1, "window_refused"),
    "a second too short": (1, 1 + 59 / 3600, "window_refused"),
    "a second too long": (1, 1 + 7 * 24 + 1 / 3600, "window_refused"),
    "years long": (1, 3 * 8766, "window_refused"),
    "years ahead": (8766, 8767, "window_refused"),
}


@pytest.mark.case("R-01", "V-11", "V-12", "V-13")
@pytest.mark.parametrize("name", WINDOWS)
def test_a_window_that_makes_no_sense_is_refused(http, asked, name):
    start, end, code = WINDOWS[name]
    assert_refused(send(http, asked | {"start": at(start), "end": at(end)}), 422, code=code)


TIMES = [
    "2027-03-28T02:30:00", "2027-03-28", "28.3.2027", "tomorrow", "", None, 0, 1e300, [], {}, "infinity", "-infinity",
    "now", "2027-13-01T00:00:00Z", "2027-02-30T00:00:00Z", "2027-01-01T25:00:00Z", "0001-01-01T00:00:00+14:00",
    "9999-12-31T23:59:59-14:00", "99999-01-01T00:00:00Z", "2027-01-01T00:00:00+99:99", "2027-01-01T00:00:00Z\0",
    "2027-01-01T00:00:00Z" * 1000, "２０２７-01-01T00:00:00Z",
]  # fmt: skip


@pytest.mark.parametrize("side", ["start", "end"])
@pytest.mark.parametrize("time", TIMES, ids=lambda time: repr(time)[:30])
@pytest.mark.case("R-05", "V-23")
def test_a_malformed_or_naive_time_is_refused(http, asked, side, time):
    assert_refused(send(http, asked | {side: time}), 422)


def test_a_naive_time_is_told_what_it_lacks(http, asked):
    answer = send(http, asked | {"start": "2027-03-28T02:30:00"})
    assert "offset" in answer.json()["message"]


@pytest.mark.case("R-05")
def test_an_offset_decides_which_of_two_equal_clock_times_is_meant(http, asked, pool):
    day = (NOW + dt.timedelta(days=3)).date()
    for offset, length in (("+02:00", 1), ("+01:00", 1)):
        start = dt.datetime.fromisoformat(f"{day}T02:30:00{offset}")
        body = asked | {"start": start.isoformat(), "end": (start + dt.timedelta(hours=length)).isoformat()}
        answer = send(http, body)
        assert answer.status_code == 201
        assert dt.datetime.fromisoformat(answer.json()["start"]) == start


TEXTS = ["", " ", "4g.banana", "1g.10gb\0", "x" * 10_000, "1g.10gb' OR 1=1", None, 7, [], {}, "\u202e1g"]


@pytest.mark.parametrize("profile", TEXTS, ids=lambda text: repr(text)[:16])
def test_a_profile_that_the_pool_does_not_have_is_refused(http, asked, profile):
    assert_refused(send(http, asked | {"profile": profile}), 422)


IDS = [0, -1, 10**18, 2**63, 10**400, "x", None, 1.5, True, [], {}]


@pytest.mark.parametrize("field", ["tenant", "pool", "owner", "template"])
@pytest.mark.parametrize("number", IDS, ids=lambda number: repr(number)[:12])
def test_an_id_that_is_nobodys_is_refused(http, asked, field, number):
    body = {key: value for key, value in asked.items() if field != "template" or key != "workload"}
    assert_refused(send(http, body | {field: number}), 404, 422)


def test_another_tenants_ids_are_answered_like_unknown_ones(http, asked, team, pool):
    other = make_tenant("robotics", team.parent)
    theirs = make_reservation(other, pool, "1g.10gb", window(NOW), places=((pool.gpus.get(), 0),))
    for verb, path in (("get", ""), ("post", "release/"), ("post", "cancel/"), ("get", "log/")):
        foreign = getattr(http, verb)(f"{BOOK}{theirs.pk}/{path}")
        unknown = getattr(http, verb)(f"{BOOK}{theirs.pk + 10**6}/{path}")
        assert (foreign.status_code, foreign.json()) == (unknown.status_code, unknown.json()) == (404, foreign.json())
    theirs.leases.all().delete()
    theirs.delete()
    foreign, unknown = (send(http, asked | {"tenant": number}) for number in (other.pk, other.pk + 10**6))
    assert foreign.json() == unknown.json()
    assert_refused(foreign, 404, code="not_found")


WORKLOADS = [
    {"name": "a\0b"}, {"name": ""}, {"name": "x" * 65}, {"name": "a\nb"}, {"name": "\ud800"}, {"command": []},
    {"command": "rm -rf /"}, {"command": ["-x"]}, {"command": ["a\0"]}, {"command": ["x"] * 65}, {"command": [[]]},
    {"command": ["x" * 4000] * 9}, {"environment": {"A": "\u6e2c" * 8000}},
    {"command": ["x" * 5000]}, {"image": "../x\0"}, {"image": "$(id)"}, {"environment": {"LD_PRELOAD": "x"}},
    {"environment": {"A\0": "x"}}, {"environment": {"A": "x\0"}}, {"environment": {"A": "\ud800"}},
    {"environment": {"\ud800": "x"}}, {"environment": []}, {"environment": {f"A{n}": "x" for n in range(300)}},
    {"grace_seconds": -1}, {"grace_seconds": 10**9}, {"privileged": True},
]  # fmt: skip


@pytest.mark.parametrize("part", WORKLOADS, ids=lambda part: json.dumps(part)[:40])
def test_a_workload_outside_the_grammar_is_refused(http, asked, part):
    assert_refused(send(http, asked | {"workload": asked["workload"] | part}), 422)


BODIES = [
    b"", b"{", b"null", b"[]", b"7", b'"x"', b"\xff\xfe", b"\0", b"{}" * 9, b"[" * 100_000, b'{"a":' * 100_000,
    b'{"ranks": NaN}', b'{"ranks": Infinity}', b'{"tenant": ' + b"9" * 5000 + b"}",
    b'{"x": "' + b"y" * 1_100_000 + b'"}',
]  # fmt: skip


@pytest.mark.parametrize("body", BODIES, ids=lambda body: repr(body[:12]))
def test_a_body_that_is_no_request_is_refused(http, body):
    assert_refused(send(http, body), 400, 413, 422)


def test_another_type_of_body_is_refused(http, asked):
    answer = http.post(BOOK, {"tenant": asked["tenant"]})
    assert_refused(answer, 415)


@pytest.mark.parametrize("key", ["x" * 101, "caf\xe9", "a\tb", "x" * 100_000], ids=lambda key: key[:6])
def test_a_key_that_cannot_be_kept_is_refused(http, asked, key):
    assert_refused(send(http, asked, **{"Idempotency-Key": key}), 422)


@pytest.mark.parametrize(
    "field",
    ["state", "price_slice_seconds", "weight", "id", "created_by", "leases", "end_reason", "is_staff", "created_at"],
)
def test_what_only_the_server_decides_cannot_be_sent(http, asked, field):  # T4
    assert_refused(send(http, asked | {field: 1}), 422, code="invalid")


QUERIES = [
    "limit=0", "limit=201", "limit=-1", "limit=x", "cursor=%00", "cursor=x", "state=banana", "state=%00", "tenant=x",
    "tenant=99999999999999999999", "pool=-1", "mine=perhaps", "cursor=" + "A" * 600,
]  # fmt: skip


@pytest.mark.parametrize("query", QUERIES)
def test_a_list_refuses_what_it_does_not_know(http, query):
    assert_refused(http.get(f"{BOOK}?{query}"), 404, 422)


@pytest.mark.parametrize("number", ["0", "99999999999999999999", "-1", "x", "%00", "1.5"])
def test_a_number_that_is_no_reservation_is_not_found(http, number):
    assert http.get(f"{BOOK}{number}/").status_code == 404


AVAILABILITIES = [
    "", "start=x", "ranks=1000000000000000000", "tenant=0", "hours=3", "start=2027-01-01T00:00:00", "profile=%00",
]  # fmt: skip


@pytest.mark.parametrize("query", AVAILABILITIES)
def test_availability_refuses_what_it_cannot_read(http, query):
    assert_refused(http.get(f"/api/v1/availability/?{query}"), 422)


@pytest.mark.parametrize("query", ["since=x&hours=1", "hours=10000", "step_minutes=0", "profile=x", ""])
def test_free_over_time_is_bounded(http, pool, query):
    assert_refused(http.get(f"/api/v1/pools/{pool.pk}/free-over-time/?{query}"), 422)


def test_free_counts_of_years_are_refused(http, pool):
    answer = http.get(f"/api/v1/pools/{pool.pk}/free/", {"start": at(1), "end": at(9000)})
    assert_refused(answer, 422, code="window_refused")


@pytest.mark.parametrize(
    "days", ["since=x&until=x", "since=2026-01-01&until=9999-12-31", "since=0001-01-01&until=0001-01-02"]
)
def test_usage_of_impossible_days_is_refused(http, team, days):
    assert_refused(http.get(f"/api/v1/usage/?tenant={team.pk}&{days}"), 422)


HEADERS = [
    "Bearer",
    "Bearer x",
    "Bearer a b",
    "Bearer \xff",
    "Bearer berth_",
    "Bearer a\x01",
    "Basic x",
    "Token x",
    "Bearer " + "x" * 9000,
]


@pytest.mark.parametrize("header", HEADERS, ids=lambda header: repr(header[:14]))
def test_a_token_that_is_none_is_401(header):
    answer = Client(raise_request_exception=True).get("/api/v1/me/", headers={"Authorization": header})
    assert answer.status_code == 401
    assert answer["WWW-Authenticate"] == "Bearer"
    assert set(answer.json()) == {"code", "message", "evidence", "alternatives"}


def test_a_token_in_the_address_is_not_looked_at(person):
    _, text = create_token(person=person, name="script", days=30)
    assert Client().get(f"/api/v1/me/?token={text}&access_token={text}").status_code == 401


@pytest.mark.case("S-01")
def test_a_token_dies_with_its_time_and_with_its_person(http, person):
    assert http.get("/api/v1/me/").status_code == 200
    person.auth_token_set.update(expiry=timezone.now() - dt.timedelta(seconds=1))
    assert http.get("/api/v1/me/").status_code == 401
    _, text = create_token(person=person, name="other", days=30)
    alive = Client(headers={"Authorization": f"Bearer {text}"})
    assert alive.get("/api/v1/me/").status_code == 200
    disable(person=person, actor=person)
    assert alive.get("/api/v1/me/").status_code == 401
