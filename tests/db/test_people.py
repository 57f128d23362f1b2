"""Roles in a tenant: who may give, change and take them, invitations, and being disabled."""

import io
import re
from datetime import timedelta

import pytest
from django.core import mail
from django.core.management import call_command
from django.db import IntegrityError, transaction
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken, User
from portal.accounts.services import create_token
from portal.audit.models import AuditEntry
from portal.tenants import services
from portal.tenants.errors import TenantRefused
from portal.tenants.models import Invitation, Membership, Role
from portal.tenants.selectors import role_in, root_tenant, tenants_of
from tests.factories import make_org, make_tenant, make_user

pytestmark = pytest.mark.django_db

PASSWORD = "seven-slices-of-a-canvas"


@pytest.fixture
def org():
    return make_org()


@pytest.fixture
def root(org):
    return org[0]


@pytest.fixture
def team(org):
    return org[1]


@pytest.fixture
def lead(team):
    return make_user("lead", team, Role.LEAD)


@pytest.fixture
def boss(root):
    return make_user("boss", root, Role.ADMIN)


def refused(code: str):
    return pytest.raises(TenantRefused, match=".") if not code else _Refused(code)


class _Refused:
    def __init__(self, code: str):
        self.code = code

    def __enter__(self):
        return self

    def __exit__(self, kind, error, trace):
        assert kind is TenantRefused, f"not refused, but {error!r}"
        assert error.code == self.code
        return True


def test_a_lead_gives_roles_up_to_lead_and_no_higher(team, lead):
    person = make_user()
    for role in (Role.VIEWER, Role.MEMBER, Role.LEAD):
        services.set_role(actor=lead, tenant=team, person=person, role=role)
        assert role_in(person, team) == role
    with refused("no_access"):
        services.set_role(actor=lead, tenant=team, person=person, role=Role.ADMIN)


def test_a_member_gives_nothing(team):
    with refused("no_access"):
        services.set_role(actor=make_user("m", team), tenant=team, person=make_user(), role=Role.VIEWER)


def test_a_lead_of_one_team_gives_nothing_in_another(root, lead):
    other = make_tenant("robotics", root)
    with refused("no_access"):
        services.set_role(actor=lead, tenant=other, person=make_user(), role=Role.VIEWER)


def test_a_lead_cannot_lower_or_remove_an_admin(team, lead):
    admin = make_user("admin", team, Role.ADMIN)
    with refused("no_access"):
        services.set_role(actor=lead, tenant=team, person=admin, role=Role.VIEWER)
    with refused("no_access"):
        services.remove_member(actor=lead, tenant=team, person=admin)


def test_the_last_admin_of_the_root_stays(root, boss):
    with refused("last_admin"):
        services.remove_member(actor=boss, tenant=root, person=boss)
    with refused("last_admin"):
        services.set_role(actor=boss, tenant=root, person=boss, role=Role.MEMBER)
    second = make_user("second", root, Role.ADMIN)
    services.set_role(actor=boss, tenant=root, person=boss, role=Role.MEMBER)
    assert role_in(second, root) == Role.ADMIN


def test_a_disabled_admin_does_not_count_as_the_last_one(root, boss):
    second = make_user("second", root, Role.ADMIN)
    services.disable_person(actor=boss, person=second)
    with refused("last_admin"):
        services.remove_member(actor=boss, tenant=root, person=boss)


def test_removing_takes_the_own_role_and_leaves_what_is_inherited(root, team, boss):
    person = make_user("p", team, Role.LEAD)
    Membership.objects.create(user=person, tenant=root, role=Role.VIEWER)
    services.remove_member(actor=boss, tenant=team, person=person)
    assert role_in(person, team) == Role.VIEWER
    with refused("not_held"):
        services.remove_member(actor=boss, tenant=team, person=person)


def test_every_change_of_a_role_is_audited(team, lead):
    person = make_user()
    services.set_role(actor=lead, tenant=team, person=person, role=Role.MEMBER)
    services.set_role(actor=lead, tenant=team, person=person, role=Role.LEAD)
    services.remove_member(actor=lead, tenant=team, person=person)
    trail = (
        AuditEntry.objects.filter(subject=f"user {person.pk}")
        .order_by("pk")
        .values_list("action", "actor", "before", "after")
    )
    assert list(trail) == [
        ("member.role_set", lead.pk, {}, {"role": "member"}),
        ("member.role_set", lead.pk, {"role": "member"}, {"role": "lead"}),
        ("member.removed", lead.pk, {"role": "lead"}, {}),
    ]


def test_an_invitation_makes_somebody_new_a_member(client, team, lead, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        invitation, link = services.invite(actor=lead, tenant=team, email="New@Example.org", role=Role.MEMBER)
    assert link in mail.outbox[0].body
    assert mail.outbox[0].to == ["new@example.org"]
    token = link.rstrip("/").rsplit("/", 1)[1]
    assert token not in str(Invitation.objects.filter(pk=invitation.pk).values().get())
    assert client.get(f"/invitation/{token}/").status_code == 200
    assert client.post(f"/invitation/{token}/", {"name": "Nova", "new_password": "short"}).status_code == 422
    assert client.post(f"/invitation/{token}/", {"name": "Nova", "new_password": PASSWORD}).status_code == 302
    person = User.objects.get(email="new@example.org")
    assert (person.name, role_in(person, team)) == ("Nova", Role.MEMBER)
    assert client.get("/profile/").status_code == 200
    assert Client().get(f"/invitation/{token}/").status_code == 404


def test_somebody_known_joins_signed_in_and_never_loses_a_higher_role(client, team, lead):
    person = make_user("known", make_tenant("robotics", team.parent))
    _, link = services.invite(actor=lead, tenant=team, email=person.email, role=Role.MEMBER)
    Membership.objects.create(user=person, tenant=team, role=Role.LEAD)
    path = link.removeprefix("http://127.0.0.1:8000")
    anonymous = client.get(path)
    assert "Sign in to join" in anonymous.content.decode()
    assert client.post(path, {"name": "x", "new_password": PASSWORD}).status_code == 200
    client.force_login(person)
    assert client.post(path).status_code == 302
    assert role_in(person, team) == Role.LEAD


def test_an_invitation_is_only_for_the_invited_address(client, team, lead):
    _, link = services.invite(actor=lead, tenant=team, email="new@example.org", role=Role.MEMBER)
    client.force_login(make_user("other"))
    answer = client.post(link.removeprefix("http://127.0.0.1:8000"))
    assert answer.status_code == 409
    assert "new@example.org" in answer.content.decode()


def test_an_invitation_is_dead_after_its_time_or_its_givers_role(team, lead):
    _, link = services.invite(actor=lead, tenant=team, email="new@example.org", role=Role.LEAD)
    token = link.rstrip("/").rsplit("/", 1)[1]
    Membership.objects.filter(user=lead).update(role=Role.MEMBER)
    with refused("invitation_gone"):
        services.accept_invitation(token=token, name="Nova", password=PASSWORD)
    Membership.objects.filter(user=lead).update(role=Role.LEAD)
    Invitation.objects.update(expires_at=timezone.now() - timedelta(seconds=1))
    with refused("invitation_gone"):
        services.accept_invitation(token=token, name="Nova", password=PASSWORD)


def test_a_newer_invitation_replaces_the_older_and_nobody_is_invited_twice(team, lead):
    _, old = services.invite(actor=lead, tenant=team, email="new@example.org", role=Role.MEMBER)
    services.invite(actor=lead, tenant=team, email="new@example.org", role=Role.LEAD)
    assert Invitation.objects.count() == 1
    with refused("invitation_gone"):
        services.accept_invitation(token=old.rstrip("/").rsplit("/", 1)[1], name="Nova", password=PASSWORD)
    with refused("held_already"):
        services.invite(actor=lead, tenant=team, email=lead.email.upper(), role=Role.MEMBER)


def test_disabling_ends_sessions_and_tokens_for_good(client, team, boss):
    person = make_user("p", team)
    _, text = create_token(person=person, name="script", days=30)
    client.force_login(person)
    bearer = {"Authorization": f"Bearer {text}"}
    assert client.get("/profile/").status_code == 200
    assert Client().get("/api/v1/me/", headers=bearer).status_code == 200
    services.disable_person(actor=boss, person=person)
    assert client.get("/profile/").status_code == 302
    assert Client().get("/api/v1/me/", headers=bearer).status_code == 401
    assert not tenants_of(User.objects.get(pk=person.pk)).exists()
    services.enable_person(actor=boss, person=person)
    assert client.get("/profile/").status_code == 302
    assert Client().get("/api/v1/me/", headers=bearer).status_code == 401
    assert not ApiToken.objects.filter(user=person).exists()


def test_a_lead_disables_only_who_is_in_their_own_tenants_alone(root, team, lead, boss):
    inside, elsewhere = make_user("inside", team), make_user("elsewhere", team)
    Membership.objects.create(user=elsewhere, tenant=make_tenant("robotics", root), role=Role.VIEWER)
    services.disable_person(actor=lead, person=inside)
    with refused("no_access"):
        services.disable_person(actor=lead, person=elsewhere)
    with refused("no_access"):
        services.disable_person(actor=lead, person=boss)
    with refused("no_access"):
        services.disable_person(actor=lead, person=make_user("nowhere"))
    services.disable_person(actor=boss, person=elsewhere)


def test_nobody_disables_themselves_or_the_last_admin(root, boss):
    with refused("yourself"):
        services.disable_person(actor=boss, person=boss)
    second = make_user("second", root, Role.ADMIN)
    services.disable_person(actor=second, person=boss)
    assert not User.objects.get(pk=boss.pk).is_active


def test_a_disabled_actor_may_do_nothing(team, lead, boss):
    services.disable_person(actor=boss, person=lead)
    with refused("no_access"):
        services.set_role(actor=User.objects.get(pk=lead.pk), tenant=team, person=make_user(), role=Role.VIEWER)


def test_the_page_lists_people_with_constant_queries(client, team, lead, django_assert_max_num_queries):
    client.force_login(lead)
    for number in (1, 25, 200):
        for n in range(number):
            make_user(f"m{n}", team)
        with django_assert_max_num_queries(12):
            page = client.get(f"/tenants/{team.pk}/people/")
        assert page.status_code == 200


def test_a_member_sees_names_but_no_addresses_and_no_buttons(client, team, lead):
    client.force_login(make_user("m", team))
    page = client.get(f"/tenants/{team.pk}/people/").content.decode()
    assert "lead" in page
    assert lead.email not in page
    assert "/role/" not in page


def test_the_pages_of_people_do_what_they_say(client, team, lead):
    person = make_user("p", team)
    client.force_login(lead)
    here = f"/tenants/{team.pk}/people/"
    invited = client.post(here + "invite/", {"email": "new@example.org", "role": "member"})
    assert re.search(r"http://127\.0\.0\.1:8000/invitation/[\w-]{43}/", invited.content.decode())
    assert client.post(here + "invite/", {"email": "new@example.org", "role": "admin"}).status_code == 422
    assert client.post(f"{here}{person.pk}/role/", {"role": "lead"}).status_code == 302
    assert role_in(person, team) == Role.LEAD
    assert "/password/reset/key/" in client.post(f"{here}{person.pk}/reset/").content.decode()
    assert client.post(f"{here}{person.pk}/disable/").status_code == 302
    assert not User.objects.get(pk=person.pk).is_active
    assert client.post(f"{here}{person.pk}/enable/").status_code == 302
    assert client.post(f"{here}{person.pk}/remove/").status_code == 302
    assert role_in(person, team) is None
    assert client.post(f"{here}{person.pk}/remove/").status_code == 404


def test_the_first_admin_comes_by_a_command_with_a_link_or_a_password(client, monkeypatch):
    monkeypatch.delenv("BERTH_ADMIN_PASSWORD", raising=False)
    monkeypatch.setattr("sys.stdin", io.StringIO(""))
    out = io.StringIO()
    call_command("create_admin", email="root@example.org", name="Root", organisation="northquay", stdout=out)
    link = re.search(r"http://\S+", out.getvalue()).group()
    assert client.get(link.removeprefix("http://127.0.0.1:8000")).status_code == 302
    assert root_tenant().name == "northquay"
    monkeypatch.setattr("sys.stdin", io.StringIO(PASSWORD + "\n"))
    call_command("create_admin", email="second@example.org", name="Second", password_stdin=True, stdout=io.StringIO())
    second = User.objects.get(email="second@example.org")
    assert second.check_password(PASSWORD)
    assert role_in(second, root_tenant()) == Role.ADMIN


def test_the_database_takes_an_address_once_whatever_its_case():
    User.objects.create(email="ada@example.org", name="Ada")
    with pytest.raises(IntegrityError), transaction.atomic():
        User.objects.create(email="ADA@example.org", name="Ada")
