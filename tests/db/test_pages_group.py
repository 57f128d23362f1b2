"""Several at once in the reserve form: one group or each alone, what a lost rank does, and whole GPUs for slices."""

import html
import re

import pytest
from django.test import Client

from portal.reservations.group_facts import is_group
from portal.reservations.models import Reservation
from portal.workloads.models import Template
from tests.factories import make_org, make_pool_with_gpus, make_quota, make_user, profile_of

pytestmark = pytest.mark.django_db


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def slices(org):
    pool = make_pool_with_gpus("H100", gpus=2)
    make_quota(org[0], pool, limit=14)
    return pool


@pytest.fixture
def whole(org):
    pool = make_pool_with_gpus("H100", gpus=2, mig=False, name="H100 whole")
    make_quota(org[0], pool, limit=14)
    return pool


@pytest.fixture
def page(client: Client, org):
    client.force_login(make_user("rosa", org[1]))
    return client


@pytest.fixture
def asked(org):
    template = Template.objects.create(tenant=org[0], name="Training run", command=["python3", "-c", "print(1)"])
    return {"tenant": str(org[1].pk), "ranks": "2", "start": "now", "length": "2", "workload": str(template.pk),
            "command": "", "name": "", "key": "k1"}  # fmt: skip


def of(pool, name: str) -> dict[str, str]:
    return {"pool": str(pool.pk), "profile": str(profile_of(pool, name).pk)}


def text_of(answer) -> str:
    return html.unescape(answer.content.decode())


@pytest.mark.parametrize(("group", "together", "one"), [("", None, True), ("one", True, True), ("own", False, False)])
def test_whole_gpus_work_as_the_form_says(page, asked, whole, group, together, one):
    answer = page.post("/reserve/", asked | of(whole, "full") | {"group": group})
    made = Reservation.objects.get()
    assert (answer.status_code, made.together, is_group(made)) == (303, together, one)


def test_a_group_begins_again_as_often_as_the_form_says(page, asked, whole):
    page.post("/reserve/", asked | of(whole, "full") | {"rank_loss": "restart", "restarts": "4"})
    made = Reservation.objects.get()
    assert (made.workload.rank_loss, made.workload.restarts_most) == ("restart", 4)
    assert "all start again, at most 4 times; so far 0." in text_of(page.get(f"/reservations/R-{made.pk}/"))


def test_of_one_gpu_nothing_of_it_counts(page, asked, whole):
    page.post("/reserve/", asked | of(whole, "full") | {"ranks": "1", "group": "one", "rank_loss": "restart"})
    made = Reservation.objects.get()
    assert (made.together, made.workload.rank_loss) == (None, "end")


def test_without_a_number_it_is_what_the_form_shows_at_first(page, asked, whole):
    page.post("/reserve/", asked | of(whole, "full") | {"rank_loss": "restart", "restarts": ""})
    assert Reservation.objects.get().workload.restarts_most == 3


@pytest.mark.parametrize("many", ["0", "11", "x", "1.5"])
def test_a_number_of_new_starts_that_cannot_be_is_said_beside_its_field_and_kept(page, asked, whole, many):
    answer = page.post("/reserve/", asked | of(whole, "full") | {"rank_loss": "restart", "restarts": many})
    assert answer.status_code == 422
    assert "a whole number from 1 to 10" in text_of(answer)
    assert f'name="restarts" inputmode="numeric" maxlength="3" size="3" value="{many}"' in text_of(answer)
    assert not Reservation.objects.exists()


def test_who_waits_cannot_choose_how_they_work(page, asked, whole):
    answer = page.post("/reserve/", asked | of(whole, "full") | {"start": "soon", "group": "own"})
    assert (answer.status_code, Reservation.objects.count()) == (422, 0)
    assert "Who waits takes what is usual" in text_of(answer)


def test_slices_as_one_group_are_refused_while_typing_and_whole_gpus_are_one_click_away(page, asked, slices, whole):
    wanted = asked | of(slices, "1g.10gb") | {"group": "one"}
    for answer in (page.get("/reserve/preview/", wanted), page.post("/reserve/", wanted)):
        assert "2 × 1g.10gb cannot work as one group. Whole GPUs of H100 whole can." in text_of(answer)
        (value,) = re.findall(r'name="take" value="([^"]+)"', text_of(answer))
    assert (answer.status_code, Reservation.objects.count()) == (422, 0)
    assert page.post("/reserve/", wanted | {"take": value, "key": "k2"}).status_code == 303
    made = Reservation.objects.get()
    assert (made.pool, made.ranks, made.together, is_group(made)) == (whole, 2, True, True)


def test_whole_gpus_are_looked_for_where_there_is_room_and_a_right(page, asked, org, slices, whole):
    for name, limit in (("A, closed to us", 0), ("B, too small", 7)):
        other = make_pool_with_gpus("H100", gpus=1, mig=False, name=name)
        make_quota(org[0], other, limit=14)
        make_quota(org[1], other, limit=limit)
    text = text_of(page.get("/reserve/preview/", asked | of(slices, "1g.10gb") | {"group": "one"}))
    assert "Whole GPUs of B, too small can." in text
    assert re.findall(r'name="take" value="(\d+)', text) == [str(whole.pk)]


def test_without_whole_gpus_that_one_may_hold_the_refusal_stands_alone(page, asked, slices):
    answer = page.post("/reserve/", asked | of(slices, "1g.10gb") | {"group": "one"})
    assert answer.status_code == 422
    assert "cannot work as one group" in text_of(answer) and 'name="take"' not in text_of(answer)


def test_slices_each_on_their_own_are_booked(page, asked, slices):
    assert page.post("/reserve/", asked | of(slices, "1g.10gb") | {"group": "own"}).status_code == 303
    assert not is_group(Reservation.objects.get())
