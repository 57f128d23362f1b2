"""REST: quotas and policies of a tenant are read by who sees it and set by who decides about its limits."""

import json

import pytest
from django.test import Client
from django.utils import timezone

from portal.quotas.models import OpenHours, Policy, Quota
from portal.tenants.models import Role
from tests.factories import HOUR, make_org, make_pool_with_gpus, make_quota, make_reservation, make_user, window

pytestmark = pytest.mark.django_db


class Api:
    """northquay > vision-lab > segmentation, asked by an admin of northquay."""

    def __init__(self) -> None:
        self.root, self.team, self.project = make_org()
        self.pool = make_pool_with_gpus("H100", gpus=1)
        make_quota(self.root, self.pool, 14)
        self.http = Client()
        self.http.force_login(make_user(tenant=self.root, role=Role.ADMIN))
        self.quota_path = f"/api/v1/tenants/{self.team.pk}/quota/{self.pool.pk}/"
        self.policy_path = f"/api/v1/tenants/{self.team.pk}/policy/"

    def put(self, path, body, status=200) -> dict:
        answer = self.http.put(path, json.dumps(body), content_type="application/json")
        assert answer.status_code == status, answer.content
        return answer.json()


@pytest.fixture
def api():
    return Api()


QUOTA = {
    "guaranteed": 2, "limit": 7, "valid_from": "2027-01-01T00:00:00Z", "valid_until": "2027-07-01T00:00:00+00:00",
    "hours": [{"weekdays": [1, 2, 3, 4, 5], "opens": "09:00", "closes": "24:00"}],
}  # fmt: skip


def test_a_quota_is_read_back_as_it_was_set_changed_by_its_id_and_removed(api):
    made = api.put(api.quota_path, QUOTA)
    assert made["uncovered"] == []
    shown = api.http.get(api.quota_path).json()
    assert shown == [made["quota"]]
    assert shown[0]["hours"] == QUOTA["hours"] and shown[0]["valid_until"] == "2027-07-01T00:00:00Z"
    changed = api.put(api.quota_path, {"id": shown[0]["id"], "guaranteed": 0, "limit": 6})["quota"]
    assert (changed["id"], changed["limit"], changed["valid_from"]) == (shown[0]["id"], 6, None)
    assert changed["hours"] == QUOTA["hours"]
    assert api.put(api.quota_path, {"guaranteed": 0, "limit": 6, "hours": []})["quota"]["hours"] == []
    assert api.http.delete(f"{api.quota_path}{shown[0]['id']}/").json() == []
    assert api.http.delete(f"{api.quota_path}{shown[0]['id']}/").status_code == 404
    assert api.http.get(api.quota_path).json() == []


@pytest.mark.case("V-24", "Q-07", "V-23")
@pytest.mark.parametrize("change, status, code", [
    ({"limit": 10**18}, 422, "invalid"), ({"guaranteed": 10**18}, 422, "invalid"), ({"limit": -1}, 422, "invalid"),
    ({"limit": 1.5}, 422, "invalid"), ({"limit": None}, 422, "invalid"), ({"guaranteed": 8}, 409, "quota_refused"),
    ({"limit": 99}, 409, "quota_refused"), ({"valid_from": "2028-01-01T00:00:00Z"}, 409, "quota_refused"),
    ({"valid_from": "2027-01-01T00:00:00"}, 422, "invalid"), ({"valid_until": "soon"}, 422, "invalid"),
    ({"hours": QUOTA["hours"] * 2}, 409, "duplicate"), ({"hours": [{"weekdays": []}]}, 422, "invalid"),
    ({"hours": [{"weekdays": [8], "opens": "09:00", "closes": "10:00"}]}, 422, "invalid"),
    ({"hours": [{"weekdays": [1], "opens": "09:00", "closes": "09:00"}]}, 409, "quota_refused"),
    ({"hours": [{"weekdays": [1], "opens": "9", "closes": "25:00"}]}, 422, "invalid"),
    ({"valid": "always"}, 422, "invalid"), ({"id": 987_654_321}, 404, "not_found"), ({"id": 2**70}, 422, "invalid"),
], ids=str)  # fmt: skip
def test_a_quota_that_makes_no_sense_is_refused_and_nothing_is_stored(api, change, status, code):
    answer = api.put(api.quota_path, QUOTA | change, status)
    assert answer["code"] == code
    assert not Quota.objects.filter(tenant=api.team).exists() and not OpenHours.objects.exists()


@pytest.mark.case("V-22")
def test_what_is_no_longer_covered_is_in_the_answer(api):
    booked = make_reservation(api.project, api.pool, "3g.40gb", window(timezone.now() + 24 * HOUR),
                              places=((api.pool.gpus.get(), 0),))  # fmt: skip
    answer = api.put(api.quota_path, {"guaranteed": 0, "limit": 2})
    assert [one["reservation"] for one in answer["uncovered"]] == [booked.pk]
    answer = api.put(api.policy_path, {"profiles": ["1g.10gb"]})
    assert answer["uncovered"] == []  # uncovered before: told once
    assert api.http.delete(f"{api.quota_path}{Quota.objects.get(tenant=api.team).pk}/").json() == []


def test_a_policy_is_set_as_a_whole_and_read_with_what_counts_and_whose_it_is(api):
    Policy.objects.create(tenant=api.root, longest_window_seconds=7200, profiles=["1g.10gb", "2g.20gb"])
    answer = api.put(api.policy_path, {"longest_window_seconds": 3600, "pool_ids": [api.pool.pk]})
    assert answer["own"]["longest_window_seconds"] == 3600 and answer["own"]["profiles"] is None
    assert answer["effective"]["profiles"] == ["1g.10gb", "2g.20gb"]
    assert answer["effective"]["protected_seconds"] == 1800
    assert answer["origins"] == {
        "longest_window_seconds": api.team.pk, "profiles": api.root.pk, "pool_ids": api.team.pk}  # fmt: skip
    assert api.http.get(api.policy_path).json() == {name: answer[name] for name in ("own", "effective", "origins")}
    assert api.put(api.policy_path, {})["own"] == dict.fromkeys(answer["own"])


@pytest.mark.case("Q-07")
@pytest.mark.parametrize("body, status, code", [
    ({"longest_window_seconds": 7201}, 409, "policy_loosened"), ({"most_weight_each": 10**18}, 422, "invalid"),
    ({"longest_window_seconds": 10**18}, 422, "invalid"), ({"most_weight_each": "many"}, 422, "invalid"),
    ({"profiles": []}, 409, "quota_refused"), ({"profiles": ["x" * 65]}, 422, "invalid"),
    ({"pool_ids": [987_654_321]}, 409, "quota_refused"), ({"images": ["UPPER"]}, 409, "quota_refused"),
    ({"anything": 1}, 422, "invalid"),
], ids=str)  # fmt: skip
def test_a_policy_that_makes_no_sense_or_loosens_is_refused(api, body, status, code):
    Policy.objects.create(tenant=api.root, longest_window_seconds=7200)
    assert api.put(api.policy_path, body, status)["code"] == code
    assert not Policy.objects.filter(tenant=api.team).exists()


def test_a_refused_booking_names_the_policy(api):
    Policy.objects.create(tenant=api.team, profiles=["1g.10gb"])
    member = make_user(tenant=api.team)
    api.http.force_login(member)
    start = timezone.now() + 24 * HOUR
    asked = {"tenant": api.team.pk, "pool": api.pool.pk, "profile": "3g.40gb", "start": start.isoformat(),
             "end": (start + HOUR).isoformat(), "workload": {"name": "x", "command": ["x"]}}  # fmt: skip
    answer = api.http.post("/api/v1/reservations/", json.dumps(asked), content_type="application/json")
    assert answer.status_code == 409
    told = answer.json()
    assert (told["code"], told["evidence"]["tenant"], told["evidence"]["field"]) == (
        "policy_refused", "vision-lab", "profile")  # fmt: skip
    assert [one["profile"] for one in told["alternatives"]] == ["1g.10gb"]
