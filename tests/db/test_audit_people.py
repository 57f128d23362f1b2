"""Coming in, being turned away, going out; passwords, tokens, roles: who, what, before, after, from where."""

import re

import pytest
from django.core import mail
from django.core.cache import cache

from portal.accounts.links import reset_link
from portal.accounts.models import User
from portal.accounts.services import create_token, disable, revoke_token
from portal.audit.models import AuditEntry
from portal.tenants.models import Role
from portal.tenants.people import accept_invitation, invite, remove_member, set_role, withdraw_invitation
from portal.tenants.services import close_tenant, create_tenant
from tests.factories import make_org, make_user

pytestmark = pytest.mark.django_db
PASSWORD = "seven-slices-of-a-canvas"
OTHER = "a-berth-at-the-north-quay"


@pytest.fixture(autouse=True)
def nobody_failed_before():
    cache.clear()


@pytest.fixture
def person() -> User:
    user = make_user("ada")
    user.set_password(PASSWORD)
    user.save()
    return user


def sign_in(client, email: str, password: str = PASSWORD):
    return client.post("/sign-in/", {"login": email, "password": password}, REMOTE_ADDR="203.0.113.9")


def told(*fields: str) -> list[tuple]:
    return list(AuditEntry.objects.order_by("id").values_list("action", *fields))


def test_signing_in_and_out_is_remembered_with_the_address(client, person):
    sign_in(client, person.email)
    client.post("/sign-out/", REMOTE_ADDR="203.0.113.10")
    subject = f"user {person.pk}"
    assert told("actor", "subject", "via", "address") == [
        ("session.opened", person.pk, subject, "page", "203.0.113.9"),
        ("session.closed", person.pk, subject, "page", "203.0.113.10"),
    ]


def test_who_is_turned_away_is_remembered_and_no_password_with_it(client, person):
    sign_in(client, person.email.upper(), "wrong-password")
    sign_in(client, "nobody@example.org", "wrong-password")
    assert told("actor", "subject", "after", "address") == [
        ("session.refused", None, f"user {person.pk}", {"email": person.email}, "203.0.113.9"),
        ("session.refused", None, "nobody known", {"email": "nobody@example.org"}, "203.0.113.9"),
    ]
    assert not AuditEntry.objects.filter(after__icontains="wrong-password").exists()


def test_a_lock_out_is_remembered_once_however_often_is_tried(client, person):
    for _ in range(9):
        answer = sign_in(client, person.email, "wrong-password")
    assert answer.status_code == 429
    actions = [action for (action,) in told()]
    assert actions == ["session.refused"] * 5 + ["session.locked_out"]
    assert AuditEntry.objects.get(action="session.locked_out").after == {"email": person.email}


def test_a_password_set_by_a_link_that_was_asked_for_is_remembered(client, person):
    client.post("/password/reset/", {"email": person.email}, REMOTE_ADDR="203.0.113.9")
    key_page = client.get(reset_link(person), follow=True)
    form = {"password1": OTHER, "password2": OTHER}
    answer = client.post(key_page.request["PATH_INFO"], form, REMOTE_ADDR="203.0.113.11")
    assert answer.status_code == 302
    assert told("actor", "subject", "address") == [
        ("person.reset_asked", None, f"user {person.pk}", "203.0.113.9"),
        ("person.password_changed", person.pk, f"user {person.pk}", "203.0.113.11"),
    ]
    person.refresh_from_db()
    assert person.check_password(OTHER)


def test_nobody_known_is_sent_a_link_or_remembered(client):
    client.post("/password/reset/", {"email": "nobody@example.org"})
    assert told() == []
    assert mail.outbox == []


def test_joining_by_an_invitation_is_remembered_with_the_sign_in(client):
    root, team, _ = make_org()
    lead = make_user("lead", team, Role.LEAD)
    _, link = invite(actor=lead, tenant=team, email="new@example.org", role=Role.MEMBER)
    path = re.sub(r"^https?://[^/]+", "", link)
    assert client.post(path, {"name": "New", "new_password": PASSWORD}).status_code == 302
    new = User.objects.get(email="new@example.org")
    assert told("actor", "tenant") == [
        ("member.invited", lead.pk, team.pk), ("person.created", new.pk, None), ("member.joined", new.pk, team.pk),
        ("session.opened", new.pk, None),
    ]  # fmt: skip


def test_roles_are_remembered_with_what_they_were(person):
    root, team, _ = make_org()
    admin = make_user("admin", root, Role.ADMIN)
    set_role(actor=admin, tenant=team, person=person, role=Role.MEMBER)
    set_role(actor=admin, tenant=team, person=person, role=Role.LEAD)
    remove_member(actor=admin, tenant=team, person=person)
    assert told("actor", "tenant", "before", "after") == [
        ("member.role_set", admin.pk, team.pk, {}, {"role": "member"}),
        ("member.role_set", admin.pk, team.pk, {"role": "member"}, {"role": "lead"}),
        ("member.removed", admin.pk, team.pk, {"role": "lead"}, {}),
    ]


def test_a_role_that_an_invitation_raises_is_remembered_with_what_it_was(person):
    root, team, _ = make_org()
    admin = make_user("admin", root, Role.ADMIN)
    _, link = invite(actor=admin, tenant=team, email=person.email, role=Role.LEAD)
    set_role(actor=admin, tenant=team, person=person, role=Role.VIEWER)
    accept_invitation(token=link.strip("/").rsplit("/", 1)[-1], person=person)
    assert told("before", "after")[-1] == ("member.joined", {"role": "viewer"}, {"role": "lead"})


def test_an_invitation_withdrawn_is_remembered_with_its_role():
    root, team, _ = make_org()
    lead = make_user("lead", team, Role.LEAD)
    invitation, _link = invite(actor=lead, tenant=team, email="new@example.org", role=Role.MEMBER)
    withdraw_invitation(actor=lead, invitation=invitation)
    assert told("before")[-1] == ("member.invitation_withdrawn", {"email": "new@example.org", "role": "member"})


def test_tokens_are_remembered_without_their_text_and_a_disabled_person_loses_them(person):
    admin = make_user("admin")
    token, text = create_token(person=person, name="script", days=30)
    revoke_token(token=token, actor=admin)
    create_token(person=person, name="other", days=30)
    disable(person=person, actor=admin)
    assert told("before")[1:] == [
        ("token.revoked", {"name": "script"}),
        ("token.created", {}),
        ("person.disabled", {"active": True, "tokens": 1}),
    ]  # fmt: skip
    assert not any(text in str(row) for row in AuditEntry.objects.values_list("before", "after", "subject"))


def test_a_closed_tenant_is_remembered_with_the_moment():
    root, _, _ = make_org()
    admin = make_user("admin", root, Role.ADMIN)
    tenant = create_tenant(actor=admin, parent=root, name="speech")
    closed = close_tenant(actor=admin, tenant=tenant)
    assert told("after")[-1] == ("tenant.closed", {"closed_at": closed.closed_at.isoformat()})
