"""Mails through a real SMTP server: each once, tried again while that makes sense, never from inside a transaction."""

import datetime as dt
import multiprocessing
import os
import signal
import threading
from email.message import EmailMessage

import pytest
from django.core.mail import get_connection
from django.db import connection, connections, transaction
from django.utils import timezone

from portal.accounts.services import disable
from portal.notices.delivery import BACK_OFF_SECONDS, CLAIM, MOST_ATTEMPTS, deliver_due
from portal.notices.models import Delivery, DeliveryState, Kind, Notice
from portal.notices.services import notify, retry_deliveries, set_preferences
from tests.db.mail_server import free_port, mail_server
from tests.factories import make_user

pytestmark = pytest.mark.django_db(transaction=True)
AFTERNOON = dt.datetime(2032, 11, 16, 6, 45, tzinfo=dt.UTC)
HOUR = dt.timedelta(hours=1)


@pytest.fixture
def server(settings):
    with mail_server() as server:
        _use(settings, server.port)
        yield server


def _use(settings, port: int) -> None:
    settings.EMAIL_BACKEND = "django.core.mail.backends.smtp.EmailBackend"
    settings.EMAIL_HOST, settings.EMAIL_PORT, settings.EMAIL_USE_TLS = "127.0.0.1", port, False
    settings.EMAIL_HOST_USER = settings.EMAIL_HOST_PASSWORD = ""
    settings.EMAIL_TIMEOUT = 5


def tell(*users, kind: Kind = Kind.CONFIRMED, **facts) -> None:
    facts = {"name": "training", "starts_at": AFTERNOON, "ends_at": AFTERNOON + 4 * HOUR, **facts}
    notify(users=users, kind=kind, reservation_id=12, **facts)


def the(person) -> Delivery:
    return Delivery.objects.get(notice__user=person)


def text_of(mail: EmailMessage) -> str:
    return mail.get_content()


def test_a_mail_arrives_with_its_words_and_its_link(server, settings):
    person = make_user("rosa")
    tell(person)
    assert deliver_due() == 1
    (mail,) = server.mails
    assert (mail["To"], mail["From"]) == (person.email, settings.DEFAULT_FROM_EMAIL)
    assert mail["Subject"] == "Berth: training is confirmed"
    assert f"R-12: {settings.PORTAL_URL}/reservations/R-12/" in text_of(mail)
    assert "Tue 16 Nov 2032, 06:45–10:45" in text_of(mail)
    assert mail["Auto-Submitted"] == "auto-generated"
    assert (the(person).state, the(person).attempts, the(person).last_error) == ("sent", 1, "")
    assert deliver_due() == 0
    assert len(server.mails) == 1


def test_each_reader_gets_their_own_zone_and_the_dates_of_their_language(server):
    rosa, mei = make_user("rosa"), make_user("mei")
    type(mei).objects.filter(pk=mei.pk).update(language="zh-hant", time_zone="Asia/Taipei")
    tell(rosa, mei)
    assert deliver_due() == 2
    assert "Tue 16 Nov 2032, 06:45" in text_of(server.to(rosa.email)[0])
    chinese = text_of(server.to(mei.email)[0])
    assert "2032/11/16（二）" in chinese
    assert "14:45–18:45" in chinese
    assert "Asia/Taipei" in chinese


def test_nothing_is_sent_or_kept_when_the_transaction_rolls_back(server):
    person = make_user()
    with pytest.raises(RuntimeError), transaction.atomic():
        tell(person)
        raise RuntimeError("the booking fails after all")
    assert deliver_due() == 0
    assert server.mails == []
    assert not Notice.objects.exists()


def test_nothing_is_sent_before_the_commit_and_never_inside_a_transaction(server, monkeypatch):
    person = make_user()
    inside = []
    backend = type(get_connection())
    send = backend.send_messages

    def watched(self, messages):
        inside.append(connection.in_atomic_block)
        return send(self, messages)

    monkeypatch.setattr(backend, "send_messages", watched)
    with transaction.atomic():
        tell(person)
        elsewhere = threading.Thread(target=lambda: (deliver_due(), connections.close_all()))
        elsewhere.start()
        elsewhere.join(20)
        assert server.mails == []
    assert deliver_due() == 1
    assert inside == [False]


def test_a_recipient_whom_the_server_does_not_know_is_not_tried_again_and_stops_nobody(server):
    gone, here = make_user("gone"), make_user("here")
    server.rcpt[gone.email] = "550 5.1.1 no such user"
    tell(gone, here)
    assert deliver_due() == 2
    assert the(gone).state == DeliveryState.FAILED
    assert "no such user" in the(gone).last_error
    assert deliver_due(timezone.now() + 48 * HOUR) == 0
    assert [mail["To"] for mail in server.mails] == [here.email]


def test_a_text_that_the_server_refuses_for_good_has_failed(server):
    person = make_user()
    server.data[person.email] = "554 5.7.1 looks like spam"
    tell(person)
    deliver_due()
    assert the(person).state == DeliveryState.FAILED
    assert "spam" in the(person).last_error


@pytest.mark.parametrize("where", ["rcpt", "data"])
def test_a_refusal_for_now_is_tried_again_later_and_then_arrives(server, where):
    person = make_user()
    getattr(server, where)[person.email] = "451 4.7.1 greylisted, come again"
    tell(person)
    now = timezone.now()
    assert deliver_due(now) == 0
    assert (the(person).state, the(person).attempts) == (DeliveryState.PENDING, 1)
    assert the(person).next_try_at == now + dt.timedelta(seconds=BACK_OFF_SECONDS[0])
    assert "greylisted" in the(person).last_error
    getattr(server, where).clear()
    assert deliver_due(now + dt.timedelta(seconds=59)) == 0
    assert deliver_due(now + dt.timedelta(seconds=60)) == 1
    assert the(person).state == DeliveryState.SENT
    assert len(server.mails) == 1


def test_a_server_that_is_away_is_asked_again_a_bounded_number_of_times(settings):
    _use(settings, free_port())
    person = make_user()
    tell(person)
    now = timezone.now()
    for attempt in range(1, MOST_ATTEMPTS + 1):
        assert the(person).state == DeliveryState.PENDING
        deliver_due(now)
        assert the(person).attempts == attempt
        now = max(now, the(person).next_try_at)
    assert the(person).state == DeliveryState.GIVEN_UP
    assert "refused" in the(person).last_error.lower()
    deliver_due(now + 48 * HOUR)
    assert the(person).attempts == MOST_ATTEMPTS


def test_an_operator_tries_again_what_was_given_up(settings):
    _use(settings, free_port())
    person = make_user()
    tell(person)
    Delivery.objects.update(state=DeliveryState.GIVEN_UP, attempts=MOST_ATTEMPTS)
    with mail_server() as server:
        _use(settings, server.port)
        assert retry_deliveries() == 1
        assert deliver_due() == 1
        assert len(server.mails) == 1
    assert retry_deliveries() == 0


def test_when_the_server_is_away_the_others_are_not_worn_out(settings):
    _use(settings, free_port())
    people = [make_user() for _ in range(3)]
    tell(*people)
    deliver_due()
    assert sorted(Delivery.objects.values_list("attempts", flat=True)) == [0, 0, 1]


def test_who_is_disabled_gets_nothing_told_before_or_after(server):
    early, late = make_user(), make_user()
    tell(early)
    disable(person=early, actor=early)
    disable(person=late, actor=late)
    tell(late)
    assert deliver_due() == 1
    assert server.mails == []
    assert the(early).state == DeliveryState.DROPPED
    assert not Notice.objects.filter(user=late).exists()


def test_a_reminder_of_what_has_begun_is_not_sent(server):
    person = make_user()
    begun = timezone.now() - HOUR
    tell(person, kind=Kind.STARTING, starts_at=begun)
    assert deliver_due() == 1
    assert (server.mails, the(person).state) == ([], DeliveryState.DROPPED)


def test_only_the_kinds_that_a_person_wants_come_by_mail(server):
    person = make_user()
    set_preferences(
        user_id=person.pk, not_by_mail=[Kind.CONFIRMED], start_leads_seconds=[900], end_leads_seconds=[]
    )
    tell(person)
    tell(person, kind=Kind.CHANGED)
    deliver_due()
    assert [mail["Subject"] for mail in server.mails] == ["Berth: training was changed"]
    assert Notice.objects.filter(user=person).count() == 2


def test_two_workers_at_once_send_each_mail_once(server):
    people = [make_user() for _ in range(15)]
    tell(*people)
    start = threading.Barrier(2)

    def work() -> None:
        start.wait(20)
        deliver_due()
        connections.close_all()

    workers = [threading.Thread(target=work) for _ in range(2)]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join(60)
    assert sorted(mail["To"] for mail in server.mails) == sorted(person.email for person in people)
    assert set(Delivery.objects.values_list("state", "attempts")) == {("sent", 1)}


def test_what_a_killed_worker_held_is_sent_once_by_another_when_its_claim_is_over(server):
    person = make_user()
    tell(person)
    server.held.set()
    worker = multiprocessing.get_context("fork").Process(target=_work_in_a_process_of_its_own)
    worker.start()
    assert server.reading.wait(20)
    os.kill(worker.pid, signal.SIGKILL)
    worker.join(20)
    assert worker.exitcode == -signal.SIGKILL
    server.held.clear()
    assert (the(person).state, the(person).attempts) == (DeliveryState.PENDING, 1)
    assert deliver_due() == 0, "it is still claimed"
    assert deliver_due(timezone.now() + CLAIM) == 1
    assert the(person).state == DeliveryState.SENT
    assert len(server.mails) == 1


def _work_in_a_process_of_its_own() -> None:
    connection.connection = None  # the parent's: not to be closed from here
    deliver_due()


def test_a_mail_that_kills_every_worker_is_given_up(server):
    person = make_user()
    tell(person)
    Delivery.objects.update(attempts=MOST_ATTEMPTS)
    assert deliver_due() == 1
    assert (the(person).state, server.mails) == (DeliveryState.GIVEN_UP, [])


def test_who_was_too_slow_does_not_overwrite_what_another_wrote(server, monkeypatch):
    """The claim of the first runs out while it sends; a second one sends too and its note stands."""
    person = make_user()
    tell(person)
    backend = type(get_connection())
    send = backend.send_messages

    def slow(self, messages):
        monkeypatch.setattr(backend, "send_messages", send)
        deliver_due(timezone.now() + CLAIM)
        raise OSError("the line broke")

    monkeypatch.setattr(backend, "send_messages", slow)
    deliver_due()
    assert (the(person).state, the(person).attempts) == (DeliveryState.SENT, 2)
