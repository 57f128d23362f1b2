"""What changes about a person themselves: profile, password, tokens, being disabled. Roles live in portal.tenants."""

import datetime as dt

from django.db import transaction
from django.db.models import F
from django.utils import timezone
from knox.models import get_token_model

from portal.accounts.models import ApiToken, User
from portal.audit.services import record_change
from portal.events import tell_user_on_commit

LONGEST_TOKEN_DAYS = 90


@transaction.atomic
def create_person(
    *, email: str, name: str, password: str | None = None, language: str = "en", actor: User | None = None
) -> User:
    """A new person; without a password they cannot sign in until one is set by a link."""
    person = User.objects.create_user(email, password, name=name, language=language)
    record_change(
        actor=actor or person, action="person.created", subject=f"user {person.pk}", after={"email": person.email}
    )
    return person


@transaction.atomic
def change_profile(*, person: User, name: str, language: str, time_zone: str) -> None:
    new = {"name": name, "language": language, "time_zone": time_zone}
    changed = {field: value for field, value in new.items() if getattr(person, field) != value}
    if not changed:
        return
    before = {field: getattr(person, field) for field in changed}
    User.objects.filter(pk=person.pk).update(**changed)
    for field, value in changed.items():
        setattr(person, field, value)
    record_change(actor=person, action="person.changed", subject=f"user {person.pk}", before=before, after=changed)


@transaction.atomic
def change_password(*, person: User, password: str, actor: User) -> None:
    """Ends every session of the person; the caller keeps its own by ``update_session_auth_hash``."""
    person.set_password(password)
    person.save(update_fields=["password"])
    record_change(actor=actor, action="person.password_changed", subject=f"user {person.pk}")
    tell_user_on_commit(person.pk, "rights.changed")


def record_reset_asked(person: User) -> None:
    """Somebody, who need not be ``person``, had a link mailed to them that sets a password."""
    record_change(actor=None, action="person.reset_asked", subject=f"user {person.pk}")


@transaction.atomic
def create_token(*, person: User, name: str, days: int) -> tuple[ApiToken, str]:
    """The token and its text, which exists only here. ``days`` is cut to the longest allowed."""
    life = dt.timedelta(days=max(1, min(days, LONGEST_TOKEN_DAYS)))
    token, text = get_token_model().objects.create(user=person, expiry=life, name=name)
    record_change(
        actor=person,
        action="token.created",
        subject=f"token {token.token_key}",
        after={"name": name, "until": token.expiry.isoformat()},
    )
    return token, text


@transaction.atomic
def revoke_token(*, token: ApiToken, actor: User) -> None:
    record_change(actor=actor, action="token.revoked", subject=f"token {token.token_key}", before={"name": token.name})
    token.delete()


@transaction.atomic
def disable(*, person: User, actor: User) -> bool:
    """Sign the person out everywhere for good: sessions, tokens, sockets. False: was disabled already."""
    if not User.objects.filter(pk=person.pk, is_active=True).update(
        is_active=False, sign_in_round=F("sign_in_round") + 1
    ):
        return False
    tokens, _each = ApiToken.objects.filter(user=person).delete()
    record_change(
        actor=actor,
        action="person.disabled",
        subject=f"user {person.pk}",
        before={"active": True, "tokens": tokens},
        after={"active": False},
    )
    tell_user_on_commit(person.pk, "rights.changed")
    return True


@transaction.atomic
def enable(*, person: User, actor: User) -> bool:
    """May sign in again with the old password; old sessions and tokens stay dead. False: was not disabled."""
    if not User.objects.filter(pk=person.pk, is_active=False).update(is_active=True):
        return False
    record_change(
        actor=actor,
        action="person.enabled",
        subject=f"user {person.pk}",
        before={"active": False},
        after={"active": True},
    )
    return True


def note_token_used(token: ApiToken) -> None:
    """Remember the use, at most once a minute so that a busy program does not write with every request."""
    now = timezone.now()
    if token.last_used_at is None or now - token.last_used_at > dt.timedelta(minutes=1):
        ApiToken.objects.filter(pk=token.pk).update(last_used_at=now)
