"""One's own page: name, language, zone, password, API tokens."""

import datetime as dt
import re

import pytest
from django.test import Client
from django.utils import timezone

from portal.accounts.models import ApiToken, User
from portal.accounts.services import create_token
from portal.accounts.zones import zone_names
from portal.audit.models import AuditEntry
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD, NEW = "seven-slices-of-a-canvas", "another-canvas-of-slices"


@pytest.fixture
def person() -> User:
    user = make_user("ada")
    user.set_password(PASSWORD)
    user.save()
    return user


@pytest.fixture
def page(client, person) -> Client:
    client.force_login(person)
    return client


def test_a_profile_is_changed_and_audited(page, person):
    sent = {"name": "Ada L", "language": "zh-hant", "time_zone": "Asia/Taipei"}
    assert page.post("/profile/", sent).status_code == 302
    person.refresh_from_db()
    assert (person.name, person.language, person.time_zone) == ("Ada L", "zh-hant", "Asia/Taipei")
    entry = AuditEntry.objects.get(action="person.changed")
    assert (entry.actor, entry.after) == (person, sent)
    assert 'lang="zh-hant"' in page.get("/profile/").content.decode()


@pytest.mark.parametrize("zone", ["Mars/Olympus", "", "../etc/passwd", "UTC\0", "x" * 100, "localtime"])
def test_a_zone_that_is_none_is_refused_and_what_was_typed_stays(page, person, zone):
    answer = page.post("/profile/", {"name": "Ada L", "language": "en", "time_zone": zone})
    assert answer.status_code == 422
    assert 'value="Ada L"' in answer.content.decode()
    person.refresh_from_db()
    assert person.time_zone == "UTC"


@pytest.mark.parametrize("name", ["", "x" * 101, "a\nb", "a\0b", "\u202eevil"])
def test_a_name_that_cannot_be_shown_is_refused(page, name):
    assert page.post("/profile/", {"name": name, "language": "en", "time_zone": "UTC"}).status_code == 422


def test_a_new_password_keeps_this_session_and_ends_the_others(page, person):
    elsewhere = Client()
    elsewhere.force_login(person)
    answer = page.post("/profile/password/", {"old_password": PASSWORD, "new_password": NEW})
    assert answer.status_code == 200
    assert page.get("/profile/").status_code == 200
    assert elsewhere.get("/profile/").status_code == 302
    person.refresh_from_db()
    assert person.check_password(NEW)


@pytest.mark.parametrize(("old", "new"), [("wrong", NEW), (PASSWORD, "short"), (PASSWORD, "12345678"), (PASSWORD, "")])
def test_a_password_is_not_changed_without_the_old_one_or_to_a_weak_one(page, person, old, new):
    assert page.post("/profile/password/", {"old_password": old, "new_password": new}).status_code == 422
    person.refresh_from_db()
    assert person.check_password(PASSWORD)


def test_a_token_is_shown_once_works_and_is_kept_as_a_hash(page, person):
    shown = page.post("/profile/tokens/", {"name": "nightly", "days": 90}).content.decode()
    text = re.search(r"berth_[0-9a-f]{64}", shown).group()
    assert text not in page.get("/profile/").content.decode()
    assert text not in str(ApiToken.objects.values().get())
    program = Client(headers={"Authorization": f"Bearer {text}"})
    assert program.get("/api/v1/me/").json()["email"] == person.email
    assert ApiToken.objects.get().last_used_at is not None


@pytest.mark.parametrize("days", [0, -1, 91, 10**9, "x", "", 1.5])
def test_a_token_lives_1_to_90_days(page, days):
    assert page.post("/profile/tokens/", {"name": "nightly", "days": days}).status_code == 422
    assert not ApiToken.objects.exists()


def test_no_service_makes_a_token_that_lives_longer(person):
    token, _ = create_token(person=person, name="x", days=10_000)
    assert token.expiry <= timezone.now() + dt.timedelta(days=90)


def test_a_revoked_token_is_dead_and_only_its_owner_revokes_it(page, person):
    token, text = create_token(person=person, name="nightly", days=1)
    stranger = Client()
    stranger.force_login(make_user("eve"))
    assert stranger.post(f"/profile/tokens/{token.token_key}/revoke/").status_code == 404
    program = Client(headers={"Authorization": f"Bearer {text}"})
    assert program.get("/api/v1/me/").status_code == 200
    assert page.post(f"/profile/tokens/{token.token_key}/revoke/").status_code == 302
    assert program.get("/api/v1/me/").status_code == 401


def test_the_language_switch_works_before_and_after_sign_in(client, person):
    client.post("/language/", {"language": "zh-hant", "next": "/sign-in/"})
    assert 'lang="zh-hant"' in client.get("/sign-in/").content.decode()
    client.force_login(person)
    client.post("/language/", {"language": "zh-hant", "next": "https://example.com/"})
    person.refresh_from_db()
    assert person.language == "zh-hant"
    assert client.get("/language/").status_code == 405


def test_every_zone_of_the_machine_can_be_chosen():
    assert {"Asia/Taipei", "Europe/Berlin", "Australia/Lord_Howe", "UTC"} <= set(zone_names())
