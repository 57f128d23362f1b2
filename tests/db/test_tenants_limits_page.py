"""The panels beside the tree: quota with dates and hours, the split among sub-teams, the policy, what is uncovered."""

import datetime as dt

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.inventory.models import Pool
from portal.quotas.hours import Hours, hours_held
from portal.quotas.models import OpenHours, Policy, Quota
from portal.tenants.models import Role
from tests.factories import (
    HOUR,
    make_org,
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    window,
)

pytestmark = pytest.mark.django_db
DAY = 24 * HOUR


@pytest.fixture
def org():
    return make_org("Europe/Berlin")


@pytest.fixture
def pool() -> Pool:
    return make_pool_with_gpus("H100")


@pytest.fixture
def admin(client, org):
    person = make_user("ada", org[0], Role.ADMIN)
    client.force_login(person)
    return person


def body_of(answer, status=200) -> str:
    assert answer.status_code == status
    return answer.content.decode()


def policy(**typed) -> dict:
    return {"longest_window_hours": "", "images": "", **typed}


def test_members_read_what_counts_and_where_it_comes_from(client, org, pool):
    Policy.objects.create(tenant=org[0], longest_window_seconds=7 * 86400, profiles=["1g.10gb"], pool_ids=[pool.pk])
    Policy.objects.create(tenant=org[1], longest_window_seconds=86400)
    client.force_login(make_user(tenant=org[1], role=Role.VIEWER))
    answer = client.get("/tenants/", {"tenant": org[1].pk})
    rows = {str(row.label): (row.value, row.origin, row.own) for row in answer.context["policy"]}
    assert rows["Longest window"] == ("1 day", org[1], True)
    assert rows["Profiles"] == ("1g.10gb", org[0], False)
    assert rows["Pools"] == (pool.name, org[0], False)
    assert rows["Book ahead"] == ("as the pool allows", None, False)
    assert rows["Protected run time"][:2] == ("30 min", None)
    body = body_of(answer)
    assert "from northquay" in body and "Edit policy" not in body
    assert client.get("/tenants/", {"edit": org[1].pk, "field": "policy"}).status_code == 404
    assert client.post(f"/tenants/{org[1].pk}/policy/", policy()).status_code == 404


def test_a_policy_is_set_to_the_second_and_comes_back_as_it_was_typed(client, org, pool, admin):
    typed = policy(longest_window_hours="24.5", book_ahead_days="14", most_weight_each="7", approval_slice_hours="48",
                   protected_minutes="20", profiles=["1g.10gb"], pool_ids=[pool.pk],
                   images="registry/a/*\r\nubuntu:24.04\n")  # fmt: skip
    assert client.post(f"/tenants/{org[1].pk}/policy/", typed).status_code == 302
    found = Policy.objects.get(tenant=org[1])
    assert (found.longest_window_seconds, found.book_ahead_seconds, found.most_weight_each) == (88200, 14 * 86400, 7)
    assert (found.approval_above_slice_seconds, found.protected_seconds) == (48 * 3600, 1200)
    assert (found.profiles, found.pool_ids, found.images) == (["1g.10gb"], [pool.pk], ["registry/a/*", "ubuntu:24.04"])
    Policy.objects.filter(pk=found.pk).update(longest_window_seconds=86401, book_ahead_seconds=1, protected_seconds=59)
    form = client.get("/tenants/", {"edit": org[1].pk, "field": "policy"}).context["policy_form"]
    again = {name: form[name].value() for name in form.fields if form[name].value() not in (None, "")}
    assert client.post(f"/tenants/{org[1].pk}/policy/", again).status_code == 302
    found.refresh_from_db()
    assert (found.longest_window_seconds, found.book_ahead_seconds, found.protected_seconds) == (86401, 1, 59)
    assert client.post(f"/tenants/{org[1].pk}/policy/", policy()).status_code == 302
    found.refresh_from_db()
    assert found.longest_window_seconds is found.profiles is found.images is None


@pytest.mark.parametrize("typed, status, field", [
    ({"longest_window_hours": "x"}, 422, "longest_window_hours"), ({"book_ahead_days": "-1"}, 422, "book_ahead_days"),
    ({"most_weight_each": "1" * 30}, 422, "most_weight_each"), ({"protected_minutes": "NaN"}, 422, "protected_minutes"),
    ({"longest_window_hours": "48"}, 409, "longest_window_hours"), ({"images": "a b!c"}, 409, "images"),
    ({"pool_ids": ["987654321"]}, 422, "pool_ids"), ({"profiles": ["9g.900gb"]}, 422, "profiles"),
])  # fmt: skip
def test_what_a_policy_cannot_be_is_said_beside_its_field_and_nothing_typed_is_lost(
    client, org, pool, admin, typed, status, field
):
    Policy.objects.create(tenant=org[0], longest_window_seconds=86400)
    answer = client.post(f"/tenants/{org[1].pk}/policy/", policy(approval_slice_hours="12.25", **typed))
    body = body_of(answer, status)
    form = answer.context["policy_form"]
    assert list(form.errors) == [field]
    assert f'id="id_{field}-err"' in body
    assert 'value="12.25"' in body
    assert not Policy.objects.filter(tenant=org[1]).exists()


def period(pool, **typed) -> dict:
    return {"pool": pool.pk, "quota": "", "guaranteed": "0", "limit": "4", "valid_from": "", "valid_until": "", **typed}


def test_a_quota_gets_dates_and_hours_in_the_panel(client, org, pool, admin):
    make_quota(org[0], pool, 14)
    path = f"/tenants/{org[1].pk}/quota/period/"
    typed = period(pool, valid_from="2027-01-01T00:00", valid_until="2027-07-01T00:00",
                   **{"days-0": ["0", "1"], "opens-0": "09:00", "closes-0": "17:00",
                      "days-3": ["6"], "opens-3": "18:00", "closes-3": "00:00"})  # fmt: skip
    assert client.post(path, typed).status_code == 302
    row = Quota.objects.get(tenant=org[1])
    assert row.valid.lower == dt.datetime(2027, 1, 1, tzinfo=dt.UTC)
    assert hours_held(row) == [Hours(0b0000011, 540, 1020), Hours(0b1000000, 1080, 1440)]
    assert client.post(path, period(pool, valid_from="2027-07-01T00:00", limit="9")).status_code == 302
    body = body_of(client.get("/tenants/", {"tenant": org[1].pk, "pool": pool.pk}))
    assert "2027-01-01 to 2027-07-01" in body and "from 2027-07-01 on" in body
    assert "Mon–Tue 09:00–17:00, Sun 18:00–24:00 (Europe/Berlin)" in body
    assert "none now; 2027-01-01 to 2027-07-01" in body
    ask = {"edit": org[1].pk, "field": "period", "quota": row.pk, "pool": pool.pk}
    form = client.get("/tenants/", ask).context["period_form"]
    again = {name: form[name].value() for name in ("quota", "guaranteed", "limit", "valid_from", "valid_until")}
    lines = {
        f"{name}-{line.number}": getattr(line, name)
        for line in form.shown_lines for name in ("days", "opens", "closes") if line.number
    }  # fmt: skip
    assert client.post(path, {"pool": pool.pk, **again, **lines}).status_code == 302
    assert hours_held(Quota.objects.get(pk=row.pk)) == [Hours(0b1000000, 1080, 1440)]


@pytest.mark.parametrize("typed, status, words", [
    ({"valid_from": "2027-02-01T00:00", "valid_until": "2027-01-01T00:00"}, 422, "The end must be after the start."),
    ({"valid_from": "yesterday"}, 422, "Choose a day and a time."),
    ({"valid_from": "9999-12-31T23:59"}, 409, "Dates lie between the years 2000 and 9000."),
    ({"limit": "1" * 30}, 422, "Use a whole number from 0 to 1000000000."),
    ({"guaranteed": "5"}, 409, "The guarantee of 5 is above the limit"),
    ({"limit": "99"}, 409, "may hold 99, more than the limit of 14"),
    ({"days-0": ["0"], "opens-0": "25:00", "closes-0": "26:00"}, 422, "Write hours as in 09:00."),
    ({"days-0": ["0"], "opens-0": "17:00", "closes-0": "09:00"}, 409, "The closing time must be after"),
    ({"opens-0": "09:00", "closes-0": "17:00"}, 422, "Choose at least one day of the week."),
    ({f"{name}-{number}": value for number in (0, 1) for name, value in
      (("days", ["0"]), ("opens", "09:00"), ("closes", "17:00"))}, 409, "Mon 09:00–17:00 is there already."),
    ({"valid_until": "2026-12-31T00:00", "quota": "987654321"}, 404, ""),
])  # fmt: skip
def test_dates_and_hours_that_make_no_sense_are_said_and_nothing_typed_is_lost(
    client, org, pool, admin, typed, status, words
):
    make_quota(org[0], pool, 14)
    answer = client.post(f"/tenants/{org[1].pk}/quota/period/", period(pool, **typed))
    body = body_of(answer, status)
    assert words in body
    if status != 404:
        assert answer.context["period_form"].data["guaranteed"] == typed.get("guaranteed", "0")
        assert [f'value="{value}"' in body for key, value in typed.items() if key.startswith(("opens", "valid"))].count(
            False) == 0  # fmt: skip
    assert not Quota.objects.filter(tenant=org[1]).exists()


def test_a_local_time_that_is_no_instant_is_asked_about(client, org, pool, admin):
    make_quota(org[0], pool, 14)
    type(admin).objects.filter(pk=admin.pk).update(time_zone="Europe/Berlin")
    answer = client.post(f"/tenants/{org[1].pk}/quota/period/", period(pool, valid_from="2027-03-28T02:30"))
    assert "interpreted in time zone Europe/Berlin" in body_of(answer, 422)


def test_a_row_is_taken_away_and_one_that_is_not_there_is_not_found(client, org, pool, admin):
    top, row = make_quota(org[0], pool, 14), make_quota(org[1], pool, 7)
    refused = client.post(f"/tenants/{org[0].pk}/quota/{top.pk}/remove/")
    assert "vision-lab below northquay has a quota" in body_of(refused, 409)
    assert client.post(f"/tenants/{org[2].pk}/quota/{row.pk}/remove/").status_code == 404
    assert client.post(f"/tenants/{org[1].pk}/quota/{row.pk}/remove/").status_code == 302
    assert list(Quota.objects.all()) == [top]


def test_the_row_s_own_form_keeps_dates_and_hours(client, org, pool, admin):
    make_quota(org[0], pool, 14)
    row = make_quota(org[1], pool, 7)
    valid = DateTimeTZRange(None, timezone.now() + DAY, "[)")
    Quota.objects.filter(pk=row.pk).update(valid=valid)
    OpenHours.objects.create(quota=row, opens=0, closes=60)
    client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, "guaranteed": "1", "limit": "5"})
    row.refresh_from_db()
    assert (row.guaranteed, row.limit, row.valid.upper, row.hours.count()) == (1, 5, valid.upper, 1)


def test_a_lead_who_splits_the_quota_reads_what_is_left_of_it(client, org, pool):
    make_quota(org[0], pool, 28)
    make_quota(org[1], pool, 20, 12)
    make_quota(org[2], pool, 8, 4)
    make_quota(make_tenant("video", org[1]), pool, 4, 3)
    client.force_login(make_user(tenant=org[1], role=Role.LEAD))
    shown = client.get("/tenants/", {"tenant": org[1].pk, "pool": pool.pk}).context["split_selected"]
    assert (shown.promise, shown.given, shown.left) == (12, 7, 5)
    body = body_of(client.get("/tenants/", {"edit": org[2].pk, "field": "quota", "pool": pool.pk}))
    assert "vision-lab has 5 of its 12 left to guarantee." in body


@pytest.mark.case("V-22")
@pytest.mark.parametrize("headers", [{}, {"HX-Request": "true"}], ids=["page", "htmx"])
def test_who_narrows_a_quota_reads_what_is_no_longer_covered_with_links(client, org, pool, admin, headers):
    make_quota(org[0], pool, 14)
    booked = make_reservation(org[2], pool, "3g.40gb", window(timezone.now() + DAY), places=((pool.gpus.first(), 0),))
    typed = {"pool": pool.pk, "guaranteed": "0", "limit": "2"}
    saved = client.post(f"/tenants/{org[1].pk}/quota/", typed, headers=headers)
    body = body_of(saved)
    row = body[body.index(f'<tbody id="tenant-{org[1].pk}"'):]
    row = row[: row.index("</tbody>")]
    assert "1 future reservation is no longer covered" in row
    assert f'href="/reservations/R-{booked.pk}/"' in row and "vision-lab may hold 2 slices" in row
    booked.refresh_from_db()
    assert booked.state == "confirmed"


def test_sixty_tenants_with_policies_cost_no_query_more(client, org, pool, admin, django_assert_max_num_queries):
    make_quota(org[0], pool, 1000, 1000)
    for number in range(60):
        tenant = make_tenant(f"team {number}", org[number % 3])
        OpenHours.objects.create(quota=make_quota(tenant, pool, 7, 1), opens=0, closes=60)
        Policy.objects.create(tenant=tenant, longest_window_seconds=3600)
    with django_assert_max_num_queries(14):
        assert len(client.get("/tenants/", {"tenant": org[0].pk}).context["rows"]) == 63


def test_changes_of_a_policy_name_its_pools_beside_the_tree_and_in_the_audit_log(client, org, pool, admin):
    root, team, _below = org
    assert client.post(f"/tenants/{team.pk}/policy/", policy(pool_ids=[pool.pk])).status_code in (200, 302, 303)
    assert f"Pools {pool.name}" in body_of(client.get("/tenants/", {"tenant": team.pk}))
    trail = body_of(client.get("/audit/"))
    assert f"[&quot;{pool.name}&quot;]" in trail and f"[{pool.pk}]" not in trail


def test_what_a_narrower_quota_uncovered_stays_on_a_page_until_it_is_settled(client, org, pool, admin):
    root, team, _below = org
    make_quota(root, pool, 14)
    mine = make_reservation(team, pool, "1g.10gb", window(timezone.now() + DAY, 2), places=((pool.gpus.first(), 0),))
    address = f"/tenants/{team.pk}/uncovered/"
    assert "All are covered" in body_of(client.get(address))
    client.post(f"/tenants/{team.pk}/policy/", policy(longest_window_hours="1"))
    for _again in range(2):
        shown = body_of(client.get(address))
        assert f"/reservations/R-{mine.pk}/" in shown and "All are covered" not in shown
    assert address in body_of(client.get("/tenants/", {"tenant": team.pk}))


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_the_page_of_what_is_not_covered_takes_few_queries_whatever_its_length(client, org, pool, admin, rows):
    _root, team, _below = org
    Policy.objects.create(tenant=team, longest_window_seconds=3600)
    for number in range(rows):
        during = window(timezone.now() + (1 + number) * DAY, 2)
        make_reservation(team, pool, "1g.10gb", during, places=((pool.gpus.first(), 0),))
    with CaptureQueriesContext(connection) as told:
        assert f'<span class="count">{rows}' in body_of(client.get(f"/tenants/{team.pk}/uncovered/"))
    assert len(told) <= 12


def test_a_row_whose_only_quota_has_dates_ahead_leads_to_those_dates(client, org, pool, admin):
    """What is typed into a row is for always, and would meet them: the row says what is ahead and opens it."""
    make_quota(org[0], pool, 14, 14)
    days = DateTimeTZRange(timezone.now() + 5 * DAY, timezone.now() + 12 * DAY)
    dated = make_quota(org[1], pool, 4, 1)
    Quota.objects.filter(pk=dated.pk).update(valid=days)
    body = body_of(client.get("/tenants/", {"pool": pool.pk}))
    assert "none now; " in body and "guaranteed 1, limit 4" in body
    opened = client.get("/tenants/", {"pool": pool.pk, "edit": org[1].pk, "field": "quota"})
    assert opened.context["period_form"]["quota"].value() == dated.pk and "edit-line" not in body_of(opened)
    refused = client.post(f"/tenants/{org[1].pk}/quota/", {"pool": pool.pk, "guaranteed": "0", "limit": "4"})
    assert "choose dates that do not meet it" in body_of(refused, 409)


def test_a_saved_row_brings_its_own_panels_and_a_word(client, org, pool, admin):
    make_quota(org[0], pool, 14, 14)
    typed = {"pool": pool.pk, "guaranteed": "0", "limit": "4"}
    saved = client.post(f"/tenants/{org[1].pk}/quota/", typed, headers={"HX-Request": "true"})
    assert saved.context["selected"] == org[1] and "Saved: vision-lab." in body_of(saved)
    assert 'id="details"' in body_of(saved)
