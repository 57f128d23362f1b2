"""Pages of maintenance: everybody reads when, admins see who is affected before they save."""

import datetime as dt
import re
import zoneinfo

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.inventory.models import Gpu, GpuState, Node, NodeState
from portal.reservations.models import Maintenance, State
from portal.tenants.models import Role
from tests.db.test_maintenance import hold, on, plan, running, site
from tests.factories import HOUR, make_user, window

pytestmark = pytest.mark.django_db
__all__ = ["site"]
MOST_QUERIES = 12


@pytest.fixture
def admin(site):
    return signed_in(site["admin"])


def signed_in(person) -> Client:
    client = Client()
    client.force_login(person)
    return client


def text(answer) -> str:
    return answer.content.decode()


def typed(site, target="", start=24.0, hours=2.0, **more) -> dict[str, str]:
    when = site["now"] + start * HOUR
    end = when + hours * HOUR
    return {
        "target": target or f"n{site['first'].node_id}", "reason": "new driver",
        "start_date": f"{when:%Y-%m-%d}", "start_time": f"{when:%H:%M}",
        "end_date": f"{end:%Y-%m-%d}", "end_time": f"{end:%H:%M}", **more,
    }  # fmt: skip


def test_who_is_affected_is_shown_before_saving_and_the_same_is_done(site, admin):
    site["admin"].time_zone = "UTC"
    site["admin"].save()
    moves, stays = hold(site, hours_from_now=25), hold(site, hours_from_now=27, profile="7g.80gb")
    hold(site, "second", hours_from_now=27)
    seen = text(admin.get("/maintenance/preview/", typed(site, hours=8)))
    assert "gets another place" in seen and "has no other place" in seen
    assert f"/reservations/R-{moves.pk}/" in seen and f"/reservations/R-{stays.pk}/" in seen
    assert not Maintenance.objects.exists()
    answer = admin.post("/maintenance/plan/", typed(site, hours=8), follow=True)
    assert answer.status_code == 200 and "new driver" in text(answer)
    assert [lease.reservation for lease in on(site["first"])] == [stays]


def test_a_local_hour_that_does_not_exist_or_exists_twice_is_asked_about(site, admin):
    site["admin"].time_zone = "Europe/Berlin"
    site["admin"].save()
    spring = {"start_date": "2027-03-28", "start_time": "02:30", "end_date": "2027-03-28", "end_time": "05:00"}
    autumn = {"start_date": "2027-10-31", "start_time": "01:00", "end_date": "2027-10-31", "end_time": "02:30"}
    for when, said in ((spring, "does not exist"), (autumn, "exists twice")):
        answer = admin.post("/maintenance/plan/", {**typed(site), **when})
        assert answer.status_code == 422 and said in text(answer)
    assert not Maintenance.objects.exists()


def test_the_choices_for_an_unclear_hour_come_while_one_types_and_at_a_drain_too(site, admin):
    site["admin"].time_zone = "Europe/Berlin"
    site["admin"].save()
    twice = {"start_date": "2027-10-31", "start_time": "01:00", "end_date": "2027-10-31", "end_time": "02:30"}
    live = text(admin.get("/maintenance/preview/", {**typed(site), **twice}))
    assert 'id="question-end" hx-swap-oob="true"' in live and live.count('name="end_fold"') == 2
    node = f"/nodes/{site['first'].node_id}/state/"
    drain = {"state": "draining", "until_date": "2027-10-31", "until_time": "02:30"}
    asked = text(admin.post(node, drain))
    assert asked.count('name="until_fold"') == 2
    second = re.findall(r'name="until_fold" value="(\d+)"', asked)[1]
    assert admin.post(node, {**drain, "until_fold": second}).status_code == 302
    site["first"].node.refresh_from_db()
    assert int(site["first"].node.drain_until.timestamp()) == int(second)


@pytest.mark.parametrize("wrong", [
    {"target": "n0"}, {"target": ""}, {"reason": ""}, {"end_date": "2020-01-01"}, {"start_date": "2020-01-01"},
    {"start_time": "25:00"}, {"end_date": "9999-12-31"}, {"reason": "x" * 201},
])  # fmt: skip
def test_what_makes_no_sense_is_refused_beside_its_field(site, admin, wrong):
    answer = admin.post("/maintenance/plan/", typed(site) | wrong)
    assert answer.status_code == 422
    assert 'aria-invalid="true"' in text(answer)
    assert admin.get("/maintenance/preview/", typed(site) | wrong).status_code == 200
    assert not Maintenance.objects.exists()


def test_everybody_reads_when_and_why_and_only_admins_change_it(site, admin):
    row, _done = plan(site, window(site["now"] + HOUR, 2))
    reader = signed_in(make_user(tenant=site["tenant"], role=Role.VIEWER))
    assert "new driver" in text(reader.get("/maintenance/"))
    page = text(reader.get(f"/maintenance/{row.pk}/"))
    assert "new driver" in page and "Move its end" not in page and "/end/" not in page
    assert reader.post(f"/maintenance/{row.pk}/end/").status_code == 404
    later = site["now"] + 5 * HOUR
    moved = {"end_date": f"{later:%Y-%m-%d}", "end_time": f"{later:%H:%M}"}
    assert reader.post(f"/maintenance/{row.pk}/", moved).status_code == 404
    assert admin.post(f"/maintenance/{row.pk}/", moved).status_code == 303
    row.refresh_from_db()
    assert row.during.upper == later.replace(second=0)
    assert admin.post(f"/maintenance/{row.pk}/end/").status_code == 303
    row.refresh_from_db()
    assert row.cancelled_at
    assert admin.post(f"/maintenance/{row.pk}/", moved).status_code == 409
    assert admin.post(f"/maintenance/{row.pk}/end/", follow=True).status_code == 200


def test_who_has_no_other_place_moves_to_another_time_with_one_click(site):
    mine = hold(site, profile="7g.80gb")
    Gpu.objects.filter(pk=site["second"].pk).update(state=GpuState.FAULTY)
    plan(site, window(site["now"] + 23 * HOUR, 3))
    owner = signed_in(site["owner"])
    page = text(owner.get(f"/maintenance/R-{mine.pk}/"))
    (first, *_others) = [part.split('"')[0] for part in page.split('name="take" value="')[1:]]
    assert "new driver" in page
    assert owner.post(f"/maintenance/R-{mine.pk}/", {"take": first}).status_code == 303
    before = mine.during
    mine.refresh_from_db()
    assert mine.during != before and mine.state == State.CONFIRMED
    assert owner.post(f"/maintenance/R-{mine.pk}/", {"take": "x"}).status_code == 422
    stranger = signed_in(make_user())
    assert stranger.get(f"/maintenance/R-{mine.pk}/").status_code == 404


def test_another_size_leads_to_the_form_with_the_values_filled_in(site):
    mine = hold(site, profile="7g.80gb")
    hold(site, "second", profile="3g.40gb", hours=23)
    plan(site, window(site["now"] + 23 * HOUR, 24 * 8))
    owner = signed_in(site["owner"])
    page = text(owner.get(f"/maintenance/R-{mine.pk}/"))
    (href,) = [part.split('"')[0] for part in page.split('href="') if part.startswith("/reserve/?")]
    form = owner.get(href.replace("&amp;", "&"))
    assert form.status_code == 200 and "It fits" in text(form)


def test_a_drain_is_asked_about_with_who_is_affected(site, admin):
    mine = running(site)
    node = site["first"].node
    page = text(admin.get(f"/nodes/{node.pk}/state/", {"state": "draining"}))
    assert "runs to its end" in page and f"/reservations/R-{mine.pk}/" in page
    until = site["now"] + HOUR
    deadline = {"state": "draining", "until_date": f"{until:%Y-%m-%d}", "until_time": f"{until:%H:%M}"}
    assert "is cut short" in text(admin.get(f"/nodes/{node.pk}/state/", deadline))
    assert admin.post(f"/nodes/{node.pk}/state/", {**deadline, "until_time": ""}).status_code == 422
    assert admin.post(f"/nodes/{node.pk}/state/", {**deadline, "until_date": "2020-01-01"}).status_code == 422
    assert admin.post(f"/nodes/{node.pk}/state/", deadline).status_code == 302
    node.refresh_from_db()
    assert node.state == NodeState.DRAINING and "ends by" in text(admin.get(f"/nodes/{node.pk}/"))


def test_pages_of_node_and_pool_say_what_comes_next(site, admin):
    for path in (f"/nodes/{site['first'].node_id}/", f"/nodes/pools/{site['pool'].pk}/"):
        assert "None is planned." in text(admin.get(path))
        Maintenance.objects.all().delete()
        plan(site, window(site["now"] + HOUR, 2), node=None, reason="power works")
        assert "power works" in text(admin.get(path))
        Maintenance.objects.all().delete()


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_the_list_takes_few_queries_whatever_its_length(site, admin, rows):
    for number in range(rows):
        during = window(site["now"] + number * HOUR)
        over = timezone.now() if number % 2 else None
        Maintenance.objects.create(
            node=site["first"].node, during=during, reason="x", created_by=site["admin"], ended_at=over)  # fmt: skip
    with CaptureQueriesContext(connection) as seen:
        assert admin.get("/maintenance/").status_code == 200
    assert len(seen) <= MOST_QUERIES


@pytest.mark.parametrize("rows", [1, 13])
def test_who_is_affected_takes_as_many_queries_for_one_as_for_many(site, admin, rows):
    for number in range(rows):
        hold(site, hours_from_now=24 + number)
    with CaptureQueriesContext(connection) as seen:
        assert admin.get("/maintenance/preview/", typed(site, start=20, hours=40)).status_code == 200
    assert len(seen) <= 16


@pytest.mark.case("R-07")
def test_the_free_time_around_a_maintenance_is_the_same_for_people_of_five_zones(site):
    """22:00 to 24:00 in the zone of the site, typed there."""
    taipei = zoneinfo.ZoneInfo("Asia/Taipei")
    site["admin"].time_zone = taipei.key
    site["admin"].save()
    day = timezone.localtime(timezone.now(), taipei).date() + dt.timedelta(days=2)
    asked = {
        "target": f"p{site['pool'].pk}", "start_date": f"{day}", "start_time": "22:00",
        "end_date": f"{day + dt.timedelta(days=1)}", "end_time": "00:00", "reason": "power",
    }  # fmt: skip
    assert signed_in(site["admin"]).post("/maintenance/plan/", asked).status_code == 303
    answers = set()
    noon = dt.datetime.combine(day, dt.time(12), tzinfo=taipei)
    for zone in ("Asia/Taipei", "Europe/Berlin", "America/New_York", "Australia/Lord_Howe", "Pacific/Chatham"):
        person = make_user(tenant=site["tenant"])
        person.time_zone = zone
        person.save()
        since = noon.astimezone(zoneinfo.ZoneInfo(zone)).isoformat()
        path = f"/api/v1/pools/{site['pool'].pk}/free-over-time/"
        answer = signed_in(person).get(path, {"profile": "7g.80gb", "since": since, "hours": 24, "step_minutes": 30})
        answers.add(answer.content)
    assert len(answers) == 1
    free = [one["free"] for one in answer.json()]
    assert free == [2] * 20 + [0] * 4 + [2] * 24


def test_a_node_whose_state_nobody_knows_is_asked_about_again(site, admin):
    node = Node.objects.get(pk=site["first"].node_id)
    assert admin.get(f"/nodes/{node.pk}/state/").status_code == 422
    assert admin.post(f"/nodes/{node.pk}/state/", {"state": "retired"}).status_code == 422


def test_timeline_and_fleet_draw_it_with_its_reason(site, admin):
    plan(site, window(site["now"] + HOUR / 2, 2))
    for path in (f"/timeline/?zoom=week&node={site['first'].node_id}", "/fleet/"):
        page = text(admin.get(path))
        assert "new driver" in page, path
    other = text(admin.get(f"/timeline/?zoom=week&node={site['second'].node_id}"))
    assert "new driver" not in other


def test_a_request_that_maintenance_stops_is_told_so_with_when(site):
    plan(site, window(site["now"] + 2 * HOUR, 2))
    hold(site, "second", hours_from_now=2, profile="7g.80gb")
    owner = signed_in(site["owner"])
    start, end = ((site["now"] + hours * HOUR).isoformat() for hours in (2.5, 3))
    what = {"tenant": site["tenant"].pk, "pool": site["pool"].pk, "profile": "7g.80gb", "start": start, "end": end}
    answer = owner.get("/api/v1/availability/", what).json()["reason"]
    assert answer["evidence"]["why"] == "maintenance"
    assert f"{site['first'].node} is in maintenance from" in answer["message"]
