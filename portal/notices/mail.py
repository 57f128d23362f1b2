"""E-mail through whichever backend the operator set, after commit. A mail that cannot be sent is logged, never raised:
what it announces is in the database, and links can be copied from the page instead."""

import logging
from smtplib import SMTPException

from django.core.mail import send_mail
from django.db import transaction

log = logging.getLogger(__name__)


def send_mail_on_commit(address: str, subject: str, text: str) -> None:
    transaction.on_commit(lambda: _send(address, subject, text))


def _send(address: str, subject: str, text: str) -> None:
    try:
        send_mail(subject, text, None, [address])
    except (OSError, SMTPException) as error:
        log.warning("mail %r not sent to %s: %s", subject, address, error)
