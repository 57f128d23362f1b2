"""Sending what is due by e-mail, outside any transaction, through whichever backend the operator set.

A row is claimed before it is sent: its ``next_try_at`` moves past the longest life of a task, so that nobody else takes
it meanwhile and what a killed worker held is tried again. A worker that is killed between the server's yes and its own
note of it sends twice; the Message-ID is the same both times, so that mail systems can tell.
"""

import datetime as dt
import logging
from smtplib import SMTPDataError, SMTPException, SMTPRecipientsRefused
from urllib.parse import urlsplit

from django.conf import settings
from django.core.mail import EmailMessage, get_connection
from django.core.mail.backends.base import BaseEmailBackend
from django.db import transaction
from django.db.models import F
from django.template import Context, Engine
from django.urls import reverse
from django.utils import timezone
from django.utils.dateparse import parse_datetime

from portal.notices.models import Delivery, DeliveryState, Kind, Notice
from portal.notices.wording import as_reader, number_of, words_of

log = logging.getLogger(__name__)

MOST_AT_ONCE = 20
# Above the 300 s after which a task is ended by force: who claimed a row is no longer at it when the claim is over.
CLAIM = dt.timedelta(seconds=330)
BACK_OFF_SECONDS = (60, 300, 900, 3600, 3 * 3600, 6 * 3600, 12 * 3600)
MOST_ATTEMPTS = len(BACK_OFF_SECONDS) + 1
PERMANENT = 500
# The fact after whose time a mail of this kind only confuses.
GOOD_UNTIL = {
    Kind.STARTING: "starts_at",
    Kind.ENDING: "ends_at",
    Kind.OFFERED: "expires_at",
    Kind.APPROVAL_WANTED: "expires_at",
}


class ServerAway(Exception):
    """No mail can be sent now, whatever it says."""


def deliver_due(now: dt.datetime | None = None) -> int:
    """Send what is due, at most 20 mails; returns how many came to rest. Stops when the mail server is away."""
    count = 0
    connection = get_connection()
    try:
        for _ in range(MOST_AT_ONCE):
            delivery = _claim(now or timezone.now())
            if delivery is None:
                break
            count += _deliver(delivery, connection, now or timezone.now())
    except ServerAway as error:
        log.warning("mail waits: %s", error)
    finally:
        _close(connection)
    return count


def message_of(delivery: Delivery, connection: BaseEmailBackend | None = None) -> EmailMessage:
    """The mail in the language and zone of whom it is for."""
    notice = delivery.notice
    with as_reader(notice.user):
        words = words_of(notice)
        shown = {
            "words": words,
            "number": number_of(notice),
            "link": settings.PORTAL_URL + notice.url,
            "zone": timezone.get_current_timezone_name(),
            "profile": settings.PORTAL_URL + reverse("profile"),
        }
        body = Engine.get_default().get_template("notices/mail.txt").render(Context(shown, autoescape=False))
    headers = {
        "Message-ID": f"<notice-{notice.pk}@{urlsplit(settings.PORTAL_URL).hostname}>",
        "Auto-Submitted": "auto-generated",
    }
    return EmailMessage(f"Berth: {words.title}", body, to=[delivery.address], headers=headers, connection=connection)


@transaction.atomic
def _claim(now: dt.datetime) -> Delivery | None:
    """The mail that has been due for longest, ours for 330 s; nobody waits for a row that another one holds."""
    due = Delivery.objects.filter(state=DeliveryState.PENDING, next_try_at__lte=now)
    free = due.select_for_update(skip_locked=True, of=("self",)).select_related("notice__user")
    delivery = free.order_by("next_try_at", "pk").first()
    if delivery is not None:
        Delivery.objects.filter(pk=delivery.pk).update(attempts=F("attempts") + 1, next_try_at=now + CLAIM)
        delivery.attempts += 1
    return delivery


def _deliver(delivery: Delivery, connection: BaseEmailBackend, now: dt.datetime) -> int:
    """1 when the mail came to rest, 0 when it is to be tried again."""
    if not delivery.notice.user.is_active or _is_over(delivery.notice, now):
        return _settle(delivery, DeliveryState.DROPPED)
    if delivery.attempts > MOST_ATTEMPTS:
        return _settle(delivery, DeliveryState.GIVEN_UP, delivery.last_error or "a worker ended while it sent this")
    try:
        _open(connection)
        message_of(delivery, connection).send()
    except ServerAway as error:
        _try_later(delivery, str(error), now)
        raise
    except (SMTPException, OSError) as error:
        _close(connection)
        if _is_refused_for_good(error):
            return _settle(delivery, DeliveryState.FAILED, str(error))
        return _try_later(delivery, str(error), now)
    except Exception as error:  # one mail that cannot be written must not stop the others
        log.exception("delivery %s cannot be written", delivery.pk)
        return _try_later(delivery, f"{type(error).__name__}: {error}", now)
    return _settle(delivery, DeliveryState.SENT)


def _open(connection: BaseEmailBackend) -> None:
    try:
        connection.open()
    except (SMTPException, OSError) as error:
        raise ServerAway(str(error) or type(error).__name__) from error


def _close(connection: BaseEmailBackend) -> None:
    try:
        connection.close()
    except (SMTPException, OSError) as error:
        log.info("the mail server did not say goodbye: %s", error)


def _is_refused_for_good(error: Exception) -> bool:
    """What the server says of this mail; what it says of us, such as a wrong password, an operator can mend."""
    if isinstance(error, SMTPRecipientsRefused):
        return all(code >= PERMANENT for code, _ in error.recipients.values())
    return isinstance(error, SMTPDataError) and error.smtp_code >= PERMANENT


def _is_over(notice: Notice, now: dt.datetime) -> bool:
    until = parse_datetime(str(notice.facts.get(GOOD_UNTIL.get(Kind(notice.kind), ""), "")))
    return until is not None and until <= now


def _try_later(delivery: Delivery, error: str, now: dt.datetime) -> int:
    if delivery.attempts >= MOST_ATTEMPTS:
        return _settle(delivery, DeliveryState.GIVEN_UP, error)
    wait = dt.timedelta(seconds=BACK_OFF_SECONDS[delivery.attempts - 1])
    _ours(delivery).update(next_try_at=now + wait, last_error=error[:500])
    return 0


def _settle(delivery: Delivery, state: DeliveryState, error: str = "") -> int:
    sent_at = timezone.now() if state == DeliveryState.SENT else None
    if state in (DeliveryState.FAILED, DeliveryState.GIVEN_UP):
        log.warning("delivery %s to user %s is %s: %s", delivery.pk, delivery.notice.user_id, state, error)
    return _ours(delivery).update(state=state, sent_at=sent_at, last_error=error[:500])


def _ours(delivery: Delivery):
    """The row as we claimed it; none when somebody else has claimed it since."""
    return Delivery.objects.filter(pk=delivery.pk, state=DeliveryState.PENDING, attempts=delivery.attempts)
