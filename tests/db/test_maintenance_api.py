"""Maintenance and a node's service by REST: the same rules as on the pages, every refusal with its reason."""

import pytest

from portal.inventory.models import Node
from portal.reservations.maintenance_sweep import run_maintenance
from tests.db.test_maintenance import hold, on, plan, running, site
from tests.db.test_maintenance_pages import signed_in
from tests.factories import HOUR, make_user, window

pytestmark = pytest.mark.django_db
__all__ = ["site"]
PATH = "/api/v1/maintenance/"


@pytest.fixture
def admin(site):
    return signed_in(site["admin"])


def asked(site, start=24.0, hours=2.0, **more) -> dict:
    when = site["now"] + start * HOUR
    times = {"start": when.isoformat(), "end": (when + hours * HOUR).isoformat()}
    return {"node": site["first"].node_id, "reason": "new driver", **times, **more}


def post(client, path, body=None):
    return client.post(path, body or {}, content_type="application/json")


def test_it_is_previewed_planned_moved_and_cancelled(site, admin):
    mine = hold(site)
    what = asked(site, 20, 8)
    preview = admin.get(PATH + "preview/", {key: text for key, text in what.items() if key != "reason"}).json()
    answer = post(admin, PATH, what)
    assert answer.status_code == 201
    body = answer.json()
    assert body["affected"] == preview == [
        {"reservation": mine.pk, "owner": mine.owner_id, "tenant": mine.tenant_id, "fate": "moved", "ends_at": None}
    ]  # fmt: skip
    assert on(site["first"]) == []
    one = f"{PATH}{body['maintenance']['id']}/"
    end = (site["now"] + 40 * HOUR).isoformat()
    changed = admin.patch(one, {"end": end}, content_type="application/json").json()["maintenance"]
    assert changed == admin.get(one).json() and changed["end"] == end
    assert post(admin, one + "end/").json()["code"] == "state_conflict"
    assert post(admin, one + "cancel/").json()["cancelled_at"]
    assert post(admin, one + "cancel/").status_code == 409
    assert admin.get(PATH, {"open": "true"}).json()["results"] == []
    assert len(admin.get(PATH).json()["results"]) == 1


@pytest.mark.parametrize("wrong, status", [
    ({"start": "2027-03-28T02:30:00"}, 422), ({"end": "x"}, 422), ({"reason": ""}, 422), ({"pool": 1}, 422),
    ({"node": 2**40}, 404), ({"node": -1}, 422), ({"surprise": 1}, 422), ({"end": "2026-01-01T00:00:00Z"}, 422),
    ({"end": "8999-01-01T00:00:00Z"}, 422), ({"reason": "a\u0000b"}, 422),
])  # fmt: skip
def test_what_makes_no_sense_is_refused(site, admin, wrong, status):
    answer = post(admin, PATH, asked(site) | wrong)
    assert answer.status_code == status
    assert answer.json()["code"] and answer.json()["message"]
    assert admin.get(PATH).json()["results"] == []


def test_a_node_is_drained_and_put_back(site, admin):
    mine = running(site)
    path = f"/api/v1/nodes/{site['first'].node_id}/state/"
    until = site["now"] + 2 * HOUR
    told = post(admin, path, {"state": "draining", "until": until.isoformat()}).json()
    assert (told["state"], told["until"]) == ("draining", until.isoformat())
    assert [(one["reservation"], one["fate"]) for one in told["affected"]] == [(mine.pk, "cut")]
    assert post(admin, path, {"state": "cordoned", "until": until.isoformat()}).status_code == 422
    assert post(admin, path, {"state": "ready"}).json()["state"] == "ready"
    assert Node.objects.get(pk=site["first"].node_id).drain_until is None
    plan(site, window(site["now"], 2))
    run_maintenance()
    refused = post(admin, path, {"state": "ready"})
    assert (refused.status_code, refused.json()["code"]) == (409, "state_conflict")


def test_everybody_reads_it_and_nobody_else_changes_it(site):
    row, _done = plan(site, window(site["now"] + HOUR, 2))
    reader = signed_in(make_user(tenant=site["tenant"]))
    assert reader.get(PATH).json()["results"][0]["reason"] == "new driver"
    assert reader.get(f"{PATH}{row.pk}/").status_code == 200
    for path in (PATH, f"{PATH}{row.pk}/cancel/", f"{PATH}{row.pk}/end/", f"/api/v1/nodes/{row.node_id}/state/"):
        assert post(reader, path, asked(site)).status_code == 404
