"""The inbox, its badge, the preferences, the undelivered mails and the API, through Django's client."""

import datetime as dt
import re

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from portal.accounts.services import create_token
from portal.notices.models import Delivery, DeliveryState, Kind, Notice, NoticePreference
from portal.notices.services import notify
from portal.tenants.models import Role
from tests.factories import make_org, make_user

pytestmark = pytest.mark.django_db
MOST_QUERIES = 12


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def rosa(org):
    return make_user("rosa", org[1])


@pytest.fixture
def page(client: Client, rosa):
    client.force_login(rosa)
    return client


@pytest.fixture
def admin(org):
    client = Client()
    client.force_login(make_user("ada", org[0], Role.ADMIN))
    return client


def tell(person, kind=Kind.CONFIRMED, number=12, name="training", **more) -> Notice:
    notify(users=[person], kind=kind, reservation_id=number, name=name, **more)
    return Notice.objects.filter(user=person).latest("pk")


def shown(answer) -> str:
    assert answer.status_code == 200
    return re.sub(r"\s+", " ", answer.content.decode())


def badge(page: Client) -> str:
    """What stands at the inbox in the navigation; "" when nothing does."""
    found = re.search(r'<span class="count" id="unread-side"([^>]*)>(\S+?)<span', shown(page.get("/profile/")))
    return "" if " hidden" in found[1] else found[2]


def test_an_empty_inbox_says_so_and_has_no_badge(page):
    assert "Nothing yet" in shown(page.get("/inbox/"))
    assert badge(page) == ""


def test_notices_are_listed_newest_first_by_day_of_the_readers_zone(page, rosa):
    type(rosa).objects.filter(pk=rosa.pk).update(time_zone="Asia/Taipei")
    first, second, third = (tell(rosa, name=name) for name in ("first", "second", "third"))
    late = dt.datetime(2026, 11, 16, 17, tzinfo=dt.UTC)  # 01:00 of the 17th in Taipei
    Notice.objects.filter(pk=first.pk).update(created_at=late - dt.timedelta(hours=2))
    Notice.objects.filter(pk=second.pk).update(created_at=late)
    text = shown(page.get("/inbox/"))
    places = [text.index(word) for word in ("third is", ">Tue 17 Nov", "second is", ">Mon 16 Nov", "first is")]
    assert places == sorted(places)
    assert "01:00</time>" in text


def test_others_notices_are_never_seen(page, rosa, org):
    foreign = tell(make_user("jonas", org[1]), name="secret-model")
    assert "secret-model" not in shown(page.get("/inbox/"))
    assert page.get(f"/inbox/{foreign.pk}/").status_code == 404
    assert page.post(f"/inbox/{foreign.pk}/read/").status_code == 404
    foreign.refresh_from_db()
    assert foreign.read_at is None


def test_what_somebody_typed_is_text(page, rosa):
    tell(rosa, kind=Kind.REFUSED, name="<script>x</script>", by="<b>Lin</b>", note="{{ secret }} %s")
    text = shown(page.get("/inbox/"))
    assert "<script>x" not in text and "<b>Lin" not in text
    assert "&lt;script&gt;x" in text
    assert "{{ secret }} %s" in text


def test_opening_a_notice_leads_to_its_reservation_and_reads_it(page, rosa):
    notice = tell(rosa)
    assert badge(page) == "1"
    assert page.get(f"/inbox/{notice.pk}/")["Location"] == "/reservations/R-12/"
    notice.refresh_from_db()
    assert notice.read_at is not None
    assert badge(page) == ""


def test_one_or_all_are_marked_as_read_and_the_list_stays_as_it_was_narrowed(page, rosa):
    notices = [tell(rosa) for _ in range(3)]
    answer = page.post(f"/inbox/{notices[0].pk}/read/", {"next": "/inbox/?show=unread"})
    assert (answer.status_code, answer["Location"]) == (303, "/inbox/?show=unread")
    assert badge(page) == "2"
    for back in ("https://example.com/inbox/", "//example.com", "/reserve/", ""):
        assert page.post("/inbox/read/", {"next": back})["Location"] == "/inbox/"
    assert badge(page) == ""


def test_the_list_is_narrowed_to_the_unread_and_to_a_kind(page, rosa):
    tell(rosa, name="read-one", kind=Kind.CHANGED)
    page.post("/inbox/read/")
    tell(rosa, name="new-one", kind=Kind.CHANGED)
    tell(rosa, name="other-one", kind=Kind.FAILED)
    unread, changed = shown(page.get("/inbox/?show=unread")), shown(page.get("/inbox/?kind=changed"))
    assert "new-one" in unread and "other-one" in unread and "read-one" not in unread
    assert "new-one" in changed and "read-one" in changed and "other-one" not in changed
    assert "Nothing of that kind" in shown(page.get("/inbox/?kind=offered"))
    assert "other-one" in shown(page.get("/inbox/?kind=nonsense&page=x"))


def test_the_badges_are_asked_for_alone_and_both_are_answered(page, rosa):
    tell(rosa)
    text = page.get("/inbox/count/").content.decode()
    assert text.count(">1<") == 2
    assert 'id="unread-quick" hx-swap-oob="true"' in text
    assert "<html" not in text


def test_more_than_99_are_not_counted(page, rosa):
    Notice.objects.bulk_create([Notice(user=rosa, kind=Kind.CONFIRMED, url="/") for _ in range(120)])
    assert badge(page) == "99+"


def test_what_came_since_is_counted_above_the_list(page, rosa):
    first = tell(rosa)
    assert f"after={first.pk}" in shown(page.get("/inbox/"))
    assert "show" not in shown(page.get(f"/inbox/news/?after={first.pk}"))
    tell(rosa)
    tell(rosa)
    assert "2 new" in shown(page.get(f"/inbox/news/?after={first.pk}"))
    assert page.get("/inbox/news/?after=x").status_code == 200


@pytest.mark.parametrize("rows", [1, 25, 200])
@pytest.mark.parametrize("address", ["/inbox/", "/inbox/?show=unread&kind=confirmed", "/inbox/count/"])
def test_the_inbox_takes_few_queries_whatever_is_in_it(page, rosa, rows, address):
    for number in range(rows):
        tell(rosa, number=number + 1)
    with CaptureQueriesContext(connection) as seen:
        assert page.get(address).status_code == 200
    assert len(seen) <= MOST_QUERIES


@pytest.mark.parametrize("rows", [1, 25, 200])
def test_the_undelivered_mails_take_few_queries_whatever_their_number(admin, rosa, rows):
    for number in range(rows):
        tell(rosa, number=number + 1)
    Delivery.objects.update(state=DeliveryState.FAILED, last_error="550 no such user")
    with CaptureQueriesContext(connection) as seen:
        assert "550 no such user" in shown(admin.get("/mail/"))
    assert len(seen) <= MOST_QUERIES


def test_preferences_are_shown_kept_and_nothing_is_a_choice_too(page, rosa):
    text = shown(page.get("/profile/"))
    assert text.count('name="by_mail"') == len(Kind)
    assert re.findall(r'name="before_start" value="(\d+)" checked', text) == ["900", "86400"]
    sent = {"by_mail": ["starting", "displaced"], "before_start": ["3600", "300"]}
    assert "Saved." in shown(page.post("/profile/notices/", sent))
    kept = NoticePreference.objects.get(user=rosa)
    assert set(Kind.values) - set(kept.not_by_mail) == {"starting", "displaced"}
    assert (kept.start_leads_seconds, kept.end_leads_seconds) == ([3600, 300], [])
    text = shown(page.get("/profile/"))
    assert re.findall(r'name="before_start" value="(\d+)" checked', text) == ["300", "3600"]
    page.post("/profile/notices/", {})
    kept.refresh_from_db()
    assert set(kept.not_by_mail) == set(Kind.values)


@pytest.mark.parametrize("wrong", [{"by_mail": "lunch"}, {"before_start": "1"}, {"before_end": "x"}])
def test_preferences_that_do_not_exist_are_refused(page, wrong):
    answer = page.post("/profile/notices/", wrong)
    assert answer.status_code == 422
    assert "Choose from what is offered here." in answer.content.decode()
    assert not NoticePreference.objects.exists()


def test_an_admin_sees_what_did_not_arrive_and_tries_it_again(admin, page, rosa):
    assert "Every mail has arrived" in shown(admin.get("/mail/"))
    for state in (DeliveryState.FAILED, DeliveryState.GIVEN_UP, DeliveryState.DROPPED, DeliveryState.PENDING):
        notice = tell(rosa)
        Delivery.objects.filter(notice=notice).update(state=state, attempts=8, last_error=f"said {state}")
    text = shown(admin.get("/mail/"))
    assert "said failed" in text and "said given_up" in text
    assert "said dropped" not in text and "said pending" not in text
    failed, dropped = (Delivery.objects.get(state=state) for state in (DeliveryState.FAILED, DeliveryState.DROPPED))
    assert admin.post(f"/mail/{failed.pk}/retry/").status_code == 303
    assert admin.post(f"/mail/{dropped.pk}/retry/").status_code == 404
    failed.refresh_from_db()
    assert (failed.state, failed.attempts) == (DeliveryState.PENDING, 0)
    assert failed.next_try_at <= timezone.now()
    admin.post("/mail/retry/")
    assert not Delivery.objects.filter(state=DeliveryState.GIVEN_UP).exists()
    assert 'href="/mail/"' in shown(admin.get("/inbox/"))
    assert 'href="/mail/"' not in shown(page.get("/inbox/"))
    assert page.get("/mail/").status_code == page.post("/mail/retry/").status_code == 404


@pytest.fixture
def program(rosa):
    _, text = create_token(person=rosa, name="script", days=1)
    client = Client(headers={"Authorization": f"Bearer {text}"})
    client.get("/api/v1/me/")  # the first use of a token in a minute is noted
    return client


def test_a_program_lists_its_owners_notices_in_their_language_and_zone(program, rosa):
    type(rosa).objects.filter(pk=rosa.pk).update(language="zh-hant", time_zone="Asia/Taipei")
    start = dt.datetime(2032, 11, 16, 6, 45, tzinfo=dt.UTC)
    tell(rosa, kind=Kind.STARTING, starts_at=start)
    tell(make_user(), name="secret")
    (row,) = program.get("/api/v1/notices/").json()["results"]
    assert "2032/11/16（二）" in row["title"]
    assert "14:45" in row["title"]
    assert (row["kind"], row["reservation"], row["url"]) == ("starting", 12, "/reservations/R-12/")
    assert row["facts"] == {"name": "training", "starts_at": "2032-11-16T06:45:00+00:00"}
    assert row["read_at"] is None


def test_a_program_marks_a_notice_as_read_and_asks_for_the_unread(program, rosa):
    first, second = tell(rosa), tell(rosa, kind=Kind.FAILED)
    answer = program.post(f"/api/v1/notices/{first.pk}/read/")
    assert (answer.status_code, answer.json()["id"]) == (200, first.pk)
    again = program.post(f"/api/v1/notices/{first.pk}/read/").json()
    assert again["read_at"] == answer.json()["read_at"] is not None
    rows = program.get("/api/v1/notices/?unread=true").json()["results"]
    assert [row["id"] for row in rows] == [second.pk]
    rows = program.get("/api/v1/notices/?kind=confirmed").json()["results"]
    assert [row["id"] for row in rows] == [first.pk]
    assert program.get("/api/v1/notices/?kind=lunch").status_code == 422
    foreign = tell(make_user())
    assert program.post(f"/api/v1/notices/{foreign.pk}/read/").status_code == 404


def test_the_list_of_a_program_takes_the_same_number_of_queries_at_1_25_and_200_rows(program, rosa):
    taken = set()
    for count in (1, 24, 175):
        for _ in range(count):
            tell(rosa)
        with CaptureQueriesContext(connection) as seen:
            answer = program.get("/api/v1/notices/?limit=200")
        taken.add(len(seen))
    assert len(answer.json()["results"]) == 200
    assert len(taken) == 1
    assert max(taken) <= MOST_QUERIES
