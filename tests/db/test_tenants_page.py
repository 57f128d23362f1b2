"""Tenants and quotas: the tree, who holds and borrows, and limits edited in their row."""

import pytest
from django.utils import timezone

from portal.quotas.models import Budget, Quota
from portal.reservations.models import LeaseState, State
from portal.tenants.models import Role, Tenant
from tests.factories import (
    HOUR,
    make_budget,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    window,
)

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool():
    return make_pool_with_gpus("H100")


def _rows(client, user, **query) -> dict:
    client.force_login(user)
    answer = client.get("/tenants/", query)
    assert answer.status_code == 200
    return {row.tenant.name: row for row in answer.context["rows"]}


def _running(tenant, pool, start, profile="3g.40gb"):
    return make_reservation(
        tenant, pool, profile, window(timezone.now() - HOUR, 4), places=((pool.gpus.first(), start),),
        state=State.RUNNING, lease_state=LeaseState.ACTIVE)  # fmt: skip


def test_what_is_held_below_is_held_above_and_beyond_the_guarantee_it_is_borrowed(client, org, pool):
    make_quota(org[0], pool, 14, 0)
    make_quota(org[1], pool, 10, 2)
    _running(org[2], pool, 0)
    _running(make_tenant("robotics", org[0]), pool, 4)
    rows = _rows(client, make_user(tenant=org[0], role=Role.VIEWER))
    assert {name: row.held for name, row in rows.items()} == {
        "northquay": 6, "vision-lab": 3, "segmentation": 3, "robotics": 3,
    }  # fmt: skip
    assert (rows["vision-lab"].borrowed, rows["vision-lab"].own) == (1, 2)
    assert rows["northquay"].borrowed == 0
    assert rows["segmentation"].quota is None


def test_a_budget_shows_the_share_spent_and_committed(client, org, pool):
    make_budget(org[1], 6 * 3600)
    start = timezone.now() + HOUR / 100
    made = make_reservation(org[2], pool, "3g.40gb", window(start), places=((pool.gpus.first(), 0),))
    rows = _rows(client, make_user(tenant=org[1]))
    status = rows["vision-lab"].budget
    assert made.price_slice_seconds == 3 * 3600
    assert status.committed in range(1, 3 * 3600 + 1)  # less when the window passes the end of the month
    assert rows["vision-lab"].spent_percent == round(100 * status.committed / (6 * 3600))


def test_readers_see_their_part_of_the_tree_and_nothing_to_edit(client, org, pool):
    make_tenant("robotics", org[0])
    rows = _rows(client, make_user(tenant=org[1]))
    assert set(rows) == {"vision-lab", "segmentation"}
    assert not any(row.may_edit for row in rows.values())
    body = client.get("/tenants/").content.decode()
    assert "as-is" not in body
    assert "robotics" not in body
    assert client.get("/tenants/", {"edit": org[2].pk}).status_code == 404


def test_a_lead_edits_what_lies_below_and_not_its_own_tenant(client, org, pool):
    make_quota(org[1], pool, 10, 4)
    lead = make_user(tenant=org[1], role=Role.LEAD)
    rows = _rows(client, lead)
    assert {name: row.may_edit for name, row in rows.items()} == {"vision-lab": False, "segmentation": True}
    ask = {"pool": pool.pk, "guaranteed": "3", "limit": "7"}
    assert client.post(f"/tenants/{org[2].pk}/quota/", ask).status_code == 302
    quota = Quota.objects.get(tenant=org[2])
    assert (quota.guaranteed, quota.limit) == (3, 7)
    assert client.post(f"/tenants/{org[1].pk}/quota/", ask).status_code == 404
    assert client.post(f"/tenants/{org[0].pk}/quota/", ask).status_code == 404


def test_the_row_opens_for_editing_and_comes_back_as_it_is_now(client, org, pool):
    make_quota(org[0], pool, 14, 14)
    make_quota(org[1], pool, 10, 4)
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    opened = client.get("/tenants/", {"pool": pool.pk, "edit": org[1].pk, "field": "quota"}).content.decode()
    assert f'hx-post="/tenants/{org[1].pk}/quota/"' in opened
    assert 'name="guaranteed"' in opened
    saved = client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, "guaranteed": "1", "limit": "9"},
                        headers={"HX-Request": "true"})  # fmt: skip
    assert saved.status_code == 200
    body = saved.content.decode()
    assert 'name="guaranteed"' not in body
    assert "guaranteed 1, limit 9 slices" in body


@pytest.mark.parametrize("typed, status", [
    ({"guaranteed": "8", "limit": "4"}, 409), ({"guaranteed": "11", "limit": "20"}, 409),
    ({"guaranteed": "-1", "limit": "4"}, 422), ({"guaranteed": "1.5", "limit": "4"}, 422),
    ({"guaranteed": "1", "limit": "1" * 30}, 409), ({"guaranteed": "", "limit": ""}, 422), ({}, 422),
])  # fmt: skip
def test_a_limit_that_is_refused_stays_open_with_the_sentence_below_it(client, org, pool, typed, status):
    make_quota(org[0], pool, 10, 10)
    make_quota(org[1], pool, 10, 4)
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    answer = client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, **typed}, headers={"HX-Request": "true"})
    assert answer.status_code == status
    body = answer.content.decode()
    assert 'id="edit-err" role="alert"' in body
    assert 'aria-invalid="true"' in body
    if typed.get("guaranteed"):
        assert f'name="guaranteed" inputmode="numeric" autofocus value="{typed["guaranteed"]}"' in body
    assert Quota.objects.get(tenant=org[1]).guaranteed == 4


def test_a_budget_is_set_changed_and_taken_away(client, org, pool):
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    path = f"/tenants/{org[1].pk}/budget/"
    assert client.post(path, {"hours": "2000", "period": "month", "pool": pool.pk}).status_code == 302
    assert Budget.objects.get(tenant=org[1]).slice_seconds == 2000 * 3600
    assert client.post(path, {"hours": "x", "period": "month"}).status_code == 422
    assert client.post(path, {"hours": "1", "period": "week"}).status_code == 422
    assert client.post(path, {"hours": "", "period": "month"}).status_code == 302
    assert not Budget.objects.filter(tenant=org[1]).exists()


def test_an_admin_adds_a_tenant_and_others_find_no_such_page(client, org):
    client.force_login(make_user(tenant=org[1], role=Role.ADMIN))
    assert client.get("/tenants/add/").status_code == 200
    assert client.post("/tenants/add/", {"parent": org[1].pk, "name": "video"}).status_code == 302
    assert Tenant.objects.get(name="video").parent == org[1]
    assert client.post("/tenants/add/", {"parent": org[1].pk, "name": "Video"}).status_code == 409
    assert client.post("/tenants/add/", {"parent": org[0].pk, "name": "mine now"}).status_code == 422
    client.force_login(make_user(tenant=org[1], role=Role.LEAD))
    assert client.get("/tenants/add/").status_code == 404


def test_the_chosen_tenant_shows_its_people_and_its_last_changes(client, org, pool):
    admin = make_user("ada", org[0], Role.ADMIN)
    make_user("rosa", org[1])
    client.force_login(admin)
    make_quota(org[0], pool, 20, 20)
    client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, "guaranteed": "3", "limit": "12"})
    client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, "guaranteed": "3", "limit": "16"})
    answer = client.get("/tenants/", {"tenant": org[1].pk})
    assert [(str(one.user), inherited) for one, inherited in answer.context["people"]] == [
        ("rosa", False),
        ("ada", True),
    ]
    assert [words for _, words in answer.context["changes"]] == ["limit 12 → 16", "guaranteed 3, limit 12"]
    assert client.get("/tenants/", {"tenant": 10**17}).status_code == 404


def test_a_filter_narrows_the_tree_by_name(client, org, pool):
    assert set(_rows(client, make_user(tenant=org[0], role=Role.VIEWER), q="SEG")) == {"segmentation"}


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_queries_do_not_grow_with_tenants(client, org, pool, rows, django_assert_max_num_queries):
    for number in range(rows):
        tenant = make_tenant(f"team {number}", org[0])
        make_quota(tenant, pool, 7, 1)
        make_budget(tenant, 3600)
        make_user(tenant=org[0], role=Role.VIEWER)
    client.force_login(make_user(tenant=org[0], role=Role.ADMIN))
    with django_assert_max_num_queries(12):
        answer = client.get("/tenants/")
    assert len(answer.context["rows"]) == rows + 3
