"""What a notice says, to whom and when it counts as told."""

import datetime as dt

import pytest
from django.db import transaction
from django.utils import timezone

from portal.notices.forgetting import KEPT, forget_old_notices
from portal.notices.models import Delivery, Kind, Notice
from portal.notices.selectors import unread_count
from portal.notices.services import mark_read, notify
from portal.notices.wording import as_reader, words_of
from tests.factories import make_org, make_user

pytestmark = pytest.mark.django_db
AFTERNOON = dt.datetime(2032, 11, 16, 6, 45, tzinfo=dt.UTC)
EVERYTHING = {
    "name": "training", "starts_at": AFTERNOON, "ends_at": AFTERNOON + dt.timedelta(hours=4),
    "was_starts_at": AFTERNOON - dt.timedelta(days=1), "was_ends_at": AFTERNOON, "expires_at": AFTERNOON,
    "by": "Lin", "note": "two lines\nof words", "reason": "the node was lost", "price_slice_seconds": 7200,
    "credited_slice_seconds": 3600, "rest": "R-13", "what": "quay-01", "pool": "H100", "tenant": "vision-lab",
    "limit": 7, "was_limit": 14, "lead_seconds": 900,
}  # fmt: skip


@pytest.fixture
def person():
    return make_user("rosa")


def told(person, kind: Kind, **facts) -> Notice:
    notify(users=[person], kind=kind, reservation_id=12, **facts)
    return Notice.objects.filter(user=person).latest("pk")


@pytest.mark.parametrize("language", ["en", "zh-hant"])
@pytest.mark.parametrize("kind", Kind)
@pytest.mark.parametrize("facts", [EVERYTHING, {}], ids=["everything", "nothing"])
def test_every_kind_has_words_whatever_is_known(person, kind, facts, language):
    person.language = language
    notice = told(person, kind, **facts)
    with as_reader(person):
        words = words_of(notice)
    assert words.title
    for text in (words.title, words.text):
        assert text == " ".join(text.split())
        assert not any(mark in text for mark in ("%(", "{{", "{%", "None", "&"))
    if facts and kind != Kind.QUOTA_NARROWED:
        assert "training" in words.title
    if not facts and kind not in (Kind.QUOTA_NARROWED, Kind.MAINTENANCE):
        assert "R-12" in words.title


def test_a_notice_names_both_days_when_it_ends_on_another(person):
    notice = told(person, Kind.CHANGED, **{**EVERYTHING, "ends_at": AFTERNOON + dt.timedelta(days=2)})
    person.time_zone = "Asia/Taipei"
    with as_reader(person):
        text = words_of(notice).text
    assert "Tue 16 Nov 2032, 14:45 – Thu 18 Nov 2032, 14:45" in text
    assert "Before, it was Mon 15 Nov 2032, 14:45 – Tue 16 Nov 2032, 14:45." in text
    assert "Changed by Lin." in text


def test_a_zone_that_is_gone_reads_as_utc(person):
    notice = told(person, Kind.STARTING, name="x", starts_at=AFTERNOON)
    person.time_zone = "Mars/Olympus"
    with as_reader(person):
        assert words_of(notice).title == "x starts Tue 16 Nov 2032, 06:45"


@pytest.mark.parametrize(
    "when", ["2032-11-16T14:45:00+08:00", AFTERNOON, AFTERNOON.astimezone(dt.timezone(dt.timedelta(hours=8)))]
)
def test_times_are_kept_in_utc_however_they_come(person, when):
    assert told(person, Kind.STARTING, starts_at=when).facts["starts_at"] == "2032-11-16T06:45:00+00:00"


@pytest.mark.parametrize("when", ["tomorrow", "2032-11-16T14:45:00", AFTERNOON.replace(tzinfo=None), 12])
def test_a_time_of_which_nobody_knows_when_it_is_is_refused(person, when):
    with pytest.raises(ValueError, match="no time"):
        notify(users=[person], kind=Kind.STARTING, starts_at=when)


@pytest.mark.parametrize("url", ["https://example.com/", "//example.com/", "javascript:x"])
def test_a_notice_leads_into_the_portal_only(person, url):
    with pytest.raises(ValueError, match="no path"):
        notify(users=[person], kind=Kind.CONFIRMED, url=url)


def test_a_notice_leads_to_its_reservation_or_where_it_is_told_to(person):
    assert told(person, Kind.CONFIRMED).url == "/reservations/R-12/"
    notify(users=[person], kind=Kind.QUOTA_NARROWED, url="/tenants/")
    assert Notice.objects.latest("pk").url == "/tenants/"
    notify(users=[person], kind=Kind.QUOTA_NARROWED)
    assert Notice.objects.latest("pk").url == "/inbox/"


def test_each_person_is_told_once_also_by_id_and_named_twice(person):
    other = make_user("jonas")
    notify(users=[person, person.pk, other.pk], kind=Kind.CONFIRMED, reservation_id=12)
    assert sorted(Notice.objects.values_list("user_id", flat=True)) == sorted([person.pk, other.pk])
    assert Delivery.objects.count() == 2


def test_what_is_told_once_is_not_told_again_but_another_thing_and_another_person_are(person):
    for _ in range(3):
        notify(users=[person], kind=Kind.STARTING, reservation_id=12, once="12:900")
    assert Notice.objects.count() == Delivery.objects.count() == 1
    notify(users=[person], kind=Kind.STARTING, reservation_id=12, once="12:86400")
    notify(users=[person], kind=Kind.ENDING, reservation_id=12, once="12:900")
    notify(users=[person, make_user()], kind=Kind.STARTING, reservation_id=12, once="12:900")
    assert Notice.objects.count() == Delivery.objects.count() == 4


def test_pages_and_the_worker_hear_of_a_notice_after_the_commit_only(
    person, django_capture_on_commit_callbacks, monkeypatch
):
    heard = []
    monkeypatch.setattr("portal.events.tell_group", lambda group, message: heard.append((group, message["fact"])))
    monkeypatch.setattr("portal.notices.services.send_task", lambda name: heard.append(name))
    with django_capture_on_commit_callbacks(execute=True), transaction.atomic():
        notify(users=[person], kind=Kind.CONFIRMED, reservation_id=12)
        assert heard == []
    assert sorted(map(str, heard)) == sorted(
        map(str, ["scheduler.deliver_mail", (f"user.{person.pk}", "notice.new")])
    )


def test_reading_counts_once_and_only_ones_own(person):
    other = make_user()
    notify(users=[person, other], kind=Kind.CONFIRMED, reservation_id=12)
    notify(users=[person], kind=Kind.CHANGED, reservation_id=12)
    foreign = Notice.objects.get(user=other)
    assert mark_read(user_id=person.pk, notice_id=foreign.pk) == 0
    assert mark_read(user_id=person.pk) == 2
    assert mark_read(user_id=person.pk) == 0
    assert (unread_count(person.pk), unread_count(other.pk)) == (0, 1)


def test_a_notice_may_say_which_tenant_it_is_about(person):
    root = make_org()[0]
    notify(users=[person], kind=Kind.QUOTA_NARROWED, tenant_id=root.pk, tenant=root.name)
    notice = Notice.objects.get()
    assert (notice.tenant_id, notice.facts) == (root.pk, {"tenant": root.name})


def test_old_notices_are_forgotten_with_their_deliveries(person):
    now = timezone.now()
    old, young = (told(person, Kind.CONFIRMED) for _ in range(2))
    Notice.objects.filter(pk=old.pk).update(created_at=now - KEPT - dt.timedelta(seconds=1))
    assert forget_old_notices(now) == 1
    assert forget_old_notices(now) == 0
    assert [*Notice.objects.all()] == [young]
    assert Delivery.objects.get().notice == young
