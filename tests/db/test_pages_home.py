"""Home, the list, the shell and one reservation, through Django's client: what is shown to whom, in few queries."""

import datetime as dt
from urllib.parse import quote

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone

from portal.inventory.models import Gpu
from portal.reservations.models import Approval, LeaseState, Reservation, State
from portal.tenants.models import Role
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
)  # fmt: skip

pytestmark = pytest.mark.django_db
MOST_QUERIES = 12


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def pool(org):
    pool = make_pool_with_gpus("H100", gpus=30)
    make_quota(org[0], pool, limit=500)
    make_budget(org[0], 10_000 * 3600)
    return pool


@pytest.fixture
def member(org):
    return make_user("rosa", org[1])


@pytest.fixture
def page(client: Client, member):
    client.force_login(member)
    return client


def running(tenant, pool, owner, count=1, hours=4.0):
    now = timezone.now().replace(microsecond=0)
    gpus = list(Gpu.objects.filter(pool=pool).order_by("index"))
    made = []
    for number in range(count):
        made.append(make_reservation(
            tenant, pool, "1g.10gb", window(now - HOUR, hours), places=((gpus[number // 7], number % 7),), owner=owner,
            state=State.RUNNING, lease_state=LeaseState.ACTIVE, frozen_at=now))  # fmt: skip
        made[-1].leases.update(starting_at=now - HOUR, active_at=now - HOUR + dt.timedelta(seconds=4))
    return made


def queries_of(page: Client, address: str) -> int:
    with CaptureQueriesContext(connection) as seen:
        answer = page.get(address)
    assert answer.status_code == 200
    return len(seen)


@pytest.mark.parametrize("rows", [1, 25, 200])
@pytest.mark.parametrize(
    "address", ["/", "/rail/", "/reservations/?show=open&of=all", "/reserve/", "/reserve/preview/", "/find/?q=training"]
)
def test_a_page_takes_at_most_twelve_queries_whatever_the_number_of_rows(page, org, pool, member, rows, address):
    running(org[1], pool, member, rows)
    assert queries_of(page, address) <= MOST_QUERIES


@pytest.mark.parametrize("ranks", [1, 25, 60])
def test_one_reservation_takes_at_most_twelve_queries_whatever_its_ranks(page, org, pool, member, ranks):
    now = timezone.now()
    gpus = list(Gpu.objects.filter(pool=pool).order_by("index"))
    places = tuple((gpus[number // 7], number % 7) for number in range(ranks))
    made = make_reservation(org[1], pool, "1g.10gb", window(now, 2), places=places, owner=member)
    assert queries_of(page, reverse("reservation", args=[made.pk])) <= MOST_QUERIES


def test_somebody_who_is_not_signed_in_is_led_to_the_sign_in(client):
    answer = client.get("/")
    assert answer.status_code == 302
    assert answer["Location"].startswith("/sign-in/")


def test_home_without_anything_says_so_and_offers_one_action(page, pool):
    text = page.get("/").content.decode()
    assert "Nothing reserved" in text
    assert "<h1>Home</h1>" in text


def test_home_shows_what_runs_with_live_keys_and_what_is_next(page, org, pool, member):
    (now_running,) = running(org[1], pool, member)
    lease = now_running.leases.get()
    coming = make_reservation(
        org[1], pool, "2g.20gb", window(timezone.now() + 3 * HOUR), places=((lease.gpu, 4),), owner=member
    )
    text = page.get("/").content.decode()
    assert f'data-live="l{lease.pk}:util"' in text
    assert f'data-value="l{lease.pk}:mem"' in text
    assert reverse("reservation", args=[coming.pk]) in text


def test_home_answers_htmx_with_its_column_alone(page, pool):
    text = page.get("/", headers={"HX-Request": "true"}).content.decode()
    assert 'id="home-main"' in text
    assert "<html" not in text


def test_what_is_not_measured_is_never_shown_as_zero(page, org, pool, member):
    (made,) = running(org[1], pool, member)
    made.leases.get().use.create(at=timezone.now(), seconds=10, utilization=None)
    text = page.get(reverse("reservation", args=[made.pk])).content.decode()
    assert f'data-value="l{made.leases.get().pk}:util">–</span>' in text


def test_means_of_the_last_minutes_are_drawn_before_the_socket_speaks(page, org, pool, member):
    (made,) = running(org[1], pool, member)
    lease = made.leases.get()
    for ago, value in ((60, 20.0), (50, 40.0), (40, 60.0)):
        lease.use.create(at=timezone.now() - dt.timedelta(seconds=ago), seconds=10, utilization=value)
    text = page.get(reverse("reservation", args=[made.pk])).content.decode()
    assert ",20,40,60," in text
    assert "mean 40" in text


def test_a_viewer_finds_no_way_to_reserve(client, org, pool):
    client.force_login(make_user("viktor", org[1], Role.VIEWER))
    text = client.get("/").content.decode()
    assert 'href="/reserve/"' not in text
    assert client.get("/reserve/").status_code == 403


def test_only_an_admin_of_the_root_is_led_to_pools_and_nodes(client, page, org, pool):
    assert "/nodes/" not in page.get("/").content.decode()
    client.force_login(make_user("ada", org[0], Role.ADMIN))
    assert 'href="/nodes/"' in client.get("/").content.decode()


def test_another_tenants_reservation_looks_like_none(page, org, pool):
    other = make_tenant("robotics", org[0])
    theirs = running(other, pool, make_user("mei", other))[0]
    for name in ("reservation", "reservation_release", "reservation_log"):
        assert page.get(reverse(name, args=[theirs.pk])).status_code == 404
        assert page.get(reverse(name, args=[10**18])).status_code == 404
    assert page.post(reverse("reservation_release", args=[theirs.pk])).status_code == 404
    assert page.get(f"/find/?q=R-{theirs.pk}").status_code == 200


def test_a_huge_number_in_an_address_is_not_found(page):
    assert page.get(f"/reservations/R-{10**40}/").status_code == 404
    assert page.get(f"/find/?q=R-{10**40}").status_code == 200


def test_the_chosen_tenant_is_kept_and_a_foreign_one_is_not_found(page, org):
    other = make_tenant("robotics", org[0])
    assert page.post("/tenant/", {"tenant": other.pk}).status_code == 404
    assert page.post("/tenant/", {"tenant": "x"}).status_code == 404
    answer = page.post("/tenant/", {"tenant": org[2].pk, "next": "/reservations/"})
    assert answer["Location"] == "/reservations/"
    assert "segmentation</b>" in page.get("/reservations/").content.decode()


def test_a_choice_never_leads_to_another_host(page, org):
    assert page.post("/tenant/", {"tenant": org[1].pk, "next": "https://elsewhere.example/"})["Location"] == "/"


@pytest.mark.parametrize("nonsense", ["nowhere", "123", "٣", "home", "\ud800", ""])
def test_a_choice_with_a_way_back_that_is_none_leads_home(page, org, nonsense):
    body = f"tenant={org[1].pk}&next={quote(nonsense, errors='surrogatepass')}"
    answer = page.post("/tenant/", body, content_type="application/x-www-form-urlencoded")
    assert (answer.status_code, answer["Location"]) == (302, "/")


def test_the_theme_of_the_cookie_is_rendered_by_the_server(page):
    page.cookies["berth_theme"] = "dark"
    assert 'data-theme="dark"' in page.get("/").content.decode()
    page.cookies["berth_theme"] = '"><script>'
    assert "data-theme" not in page.get("/").content.decode().split("<body")[0]


def test_find_leads_to_a_reservation_by_its_number(page, org, pool, member):
    (made,) = running(org[1], pool, member)
    assert page.get(f"/find/?q=r-{made.pk}")["Location"] == reverse("reservation", args=[made.pk])


def test_a_released_reservation_says_so_and_is_not_released_twice(page, org, pool, member):
    (made,) = running(org[1], pool, member)
    address = reverse("reservation_release", args=[made.pk])
    assert "Release now" in page.get(address).content.decode()
    assert page.post(address).status_code == 303
    again = page.post(address)
    assert again.status_code == 409
    assert 'role="alert"' in again.content.decode()


def test_another_member_may_look_but_not_release(client, org, pool, member):
    (made,) = running(org[1], pool, member)
    client.force_login(make_user("tomas", org[1]))
    text = client.get(reverse("reservation", args=[made.pk])).content.decode()
    assert "Release early" not in text
    assert client.post(reverse("reservation_release", args=[made.pk])).status_code == 404


def test_pages_load_few_files_and_none_from_another_host(page, org, pool):
    text = page.get("/reserve/").content.decode()
    files = [part.split('"')[0] for part in text.split('src="')[1:]] + ["css", "icon", "page"]
    assert len(files) <= MOST_QUERIES
    assert "http://" not in text.replace("http://www.w3.org", "") and "https://" not in text


def test_home_counts_what_waits_apart_and_shows_what_the_readers_own_tenant_holds(page, org, pool, member):
    gpu = pool.gpus.last()
    make_reservation(org[1], pool, "1g.10gb", window(timezone.now() + HOUR), places=((gpu, 0),), owner=member)
    later = window(timezone.now() + 3 * HOUR)
    asked = make_reservation(org[1], pool, "1g.10gb", later, places=((gpu, 1),), owner=member)
    question = Approval.objects.create(
        tenant=org[1], asked_by=member, asked_at=timezone.now(), expires_at=later.lower, price_slice_seconds=3600,
        threshold_slice_seconds=0)  # fmt: skip
    Reservation.objects.filter(pk=asked.pk).update(
        state=State.REQUESTED, hold_expires_at=later.lower, approval=question)
    assert "0 running, 1 planned, 1 waiting" in page.get("/").content.decode()
    running(org[1], pool, member)
    make_reservation(
        org[0], pool, "1g.10gb", window(timezone.now() - HOUR, 4), places=((gpu, 2),), state=State.RUNNING,
        lease_state=LeaseState.ACTIVE)  # fmt: skip
    rail = page.get("/rail/").content.decode()
    assert f"{org[1].name} holds" in rail and f"{org[0].name} in all: 2 of 500" in rail
    assert page.get("/rail/").context["holding"].held == 1


def test_a_stranger_at_an_address_that_is_none_is_led_to_sign_in_without_a_menu(page):
    mine = page.get("/nowhere/")
    assert mine.status_code == 404 and "Main" in mine.content.decode()
    gone = Client().get("/nowhere/")
    assert gone.status_code == 404
    body = gone.content.decode()
    assert 'href="/sign-in/?next=/nowhere/"' in body and 'href="/timeline/"' not in body


def test_the_day_puts_what_is_over_into_one_row_and_each_that_is_open_into_its_own(page, org, pool, member):
    now, gpu = timezone.now().replace(microsecond=0), pool.gpus.last()
    for hours_ago in (3, 2):
        over = make_reservation(
            org[1], pool, "1g.10gb", window(now - hours_ago * HOUR, 0.5), places=((gpu, 0),), owner=member,
            state=State.ENDED, lease_state=LeaseState.ENDED)  # fmt: skip
        Reservation.objects.filter(pk=over.pk).update(ended_at=over.during.upper)
    running(org[1], pool, member, count=2)
    rows = page.get("/").context["rows"]
    assert [(row.css, row.y) for row in rows] == [("dim ended", 20), ("dim ended", 20), ("mine", 20), ("mine", 44)]
