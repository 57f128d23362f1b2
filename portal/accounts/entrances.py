"""What is remembered of coming in and going out: who, from where, and who was turned away."""

import datetime as dt

from django.utils import timezone

from portal.accounts.models import User
from portal.audit.models import AuditEntry
from portal.audit.origin import current_origin
from portal.audit.services import record_change

LOCKED_OUT_FOR = dt.timedelta(minutes=10)


def record_sign_in(person: User) -> None:
    record_change(actor=person, action="session.opened", subject=_subject(person), after={"signed_in": True})


def record_sign_out(person: User) -> None:
    record_change(actor=person, action="session.closed", subject=_subject(person), after={"signed_in": False})


def record_failed_sign_in(email: str) -> None:
    """A wrong password, or somebody unknown or disabled: the same work for each, so that time tells nothing."""
    _record_refused("session.refused", email)


def record_lock_out(email: str) -> None:
    """Once for as long as it lasts: who keeps trying fills no table."""
    since = timezone.now() - LOCKED_OUT_FOR
    told = AuditEntry.objects.filter(
        at__gt=since, action="session.locked_out", after__email=email.lower(), address=current_origin().address
    )
    if not told.exists():
        _record_refused("session.locked_out", email)


def _record_refused(action: str, email: str) -> None:
    person = User.objects.filter(email__iexact=email).first()
    subject = _subject(person) if person else "nobody known"
    record_change(actor=None, action=action, subject=subject, after={"email": email.lower()})


def _subject(person: User) -> str:
    return f"user {person.pk}"
