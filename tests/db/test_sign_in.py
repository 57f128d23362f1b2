"""Getting in, being locked out, getting out, and the links that set a password."""

import re

import pytest
from django.core import mail
from django.core.cache import cache
from django.urls import NoReverseMatch, reverse

from portal.accounts.links import reset_link
from portal.accounts.models import User
from portal.accounts.services import disable
from tests.factories import make_user

pytestmark = pytest.mark.django_db

PASSWORD = "seven-slices-of-a-canvas"


@pytest.fixture(autouse=True)
def nobody_failed_before():
    cache.clear()


@pytest.fixture(autouse=True)
def passwords_are_cheap(settings):
    """Each try costs a third of a second on purpose; what is asked here is not how long."""
    settings.PASSWORD_HASHERS = ["django.contrib.auth.hashers.MD5PasswordHasher"]


@pytest.fixture
def person() -> User:
    user = make_user("ada")
    user.set_password(PASSWORD)
    user.save()
    return user


def sign_in(client, email: str, password: str = PASSWORD, **extra):
    return client.post("/sign-in/", {"login": email, "password": password}, **extra)


def test_the_right_password_lets_in_whatever_the_case_of_the_address(client, person):
    answer = sign_in(client, person.email.upper())
    assert (answer.status_code, answer["Location"]) == (302, "/")
    assert client.get("/profile/").status_code == 200


def test_the_session_key_changes_at_sign_in(client, person):
    client.cookies["berth_session"] = "chosen-by-somebody-else"
    sign_in(client, person.email)
    assert client.cookies["berth_session"].value != "chosen-by-somebody-else"


def test_a_wrong_password_and_an_unknown_address_get_the_same_answer(client, person):
    wrong, unknown = sign_in(client, person.email, "no"), sign_in(client, "nobody@example.org", "no")
    assert wrong.status_code == unknown.status_code == 422
    assert "E-mail or password is wrong." in wrong.content.decode()
    assert "E-mail or password is wrong." in unknown.content.decode()


def test_the_sixth_wrong_password_is_locked_out_even_when_it_is_right(client, person):
    assert [sign_in(client, person.email, "no").status_code for _ in range(5)] == [422] * 5
    answer = sign_in(client, person.email)
    assert answer.status_code == 429
    assert "Too many failed tries. Wait 10 min" in answer.content.decode()
    assert client.get("/profile/").status_code == 302


def test_a_lock_out_from_one_place_keeps_nobody_else_out(client, person):
    for _ in range(6):
        sign_in(client, person.email, "no", REMOTE_ADDR="203.0.113.7")
    assert sign_in(client, person.email, REMOTE_ADDR="203.0.113.7").status_code == 429
    assert sign_in(client, person.email, REMOTE_ADDR="198.51.100.1").status_code == 302


def test_one_place_that_guesses_at_many_people_is_locked_out(client, person):
    codes = [sign_in(client, f"guess-{n}@example.org", "no").status_code for n in range(31)]
    assert codes == [422] * 30 + [429]


def test_sign_in_works_while_redis_is_gone(client, person, settings):
    settings.CACHES = {"default": {**settings.CACHES["default"], "LOCATION": "unix:///nowhere/valkey.sock"}}
    assert sign_in(client, person.email, "no").status_code == 422
    assert sign_in(client, person.email).status_code == 302


def test_somebody_disabled_never_gets_in_and_is_not_told_why(client, person):
    disable(person=person, actor=person)
    answer = sign_in(client, person.email)
    assert answer.status_code == 422
    assert "E-mail or password is wrong." in answer.content.decode()


@pytest.mark.parametrize("login", ["", "no-address", "a\0@example.org", "x" * 5000 + "@example.org"])
def test_a_malformed_address_is_refused_as_input(client, login):
    assert sign_in(client, login).status_code == 422


def test_signing_out_needs_a_post(client, person):
    client.force_login(person)
    assert client.get("/sign-out/").status_code == 405
    assert client.post("/sign-out/").status_code == 302
    assert client.get("/profile/").status_code == 302


def test_next_leads_nowhere_else(client, person):
    answer = client.post("/sign-in/", {"login": person.email, "password": PASSWORD, "next": "https://example.com/"})
    assert answer["Location"] == "/"


def test_a_forgotten_password_is_set_by_the_mailed_link_once(client, person, django_capture_on_commit_callbacks):
    with django_capture_on_commit_callbacks(execute=True):
        client.post("/password/reset/", {"email": person.email})
    (letter,) = mail.outbox
    link = re.search(r"http://\S+", letter.body).group().removeprefix("http://127.0.0.1:8000")
    page = client.get(link, follow=True)
    form = page.redirect_chain[-1][0]
    new = "another-canvas-of-slices"
    assert client.post(form, {"password1": new, "password2": new}).status_code == 302
    assert sign_in(client, person.email, new).status_code == 302
    client.logout()
    assert client.get(link).status_code == 404


def test_no_mail_goes_to_an_unknown_address_and_the_page_does_not_tell(
    client, person, django_capture_on_commit_callbacks
):
    with django_capture_on_commit_callbacks(execute=True):
        known = client.post("/password/reset/", {"email": person.email})
        unknown = client.post("/password/reset/", {"email": "nobody@example.org"})
    assert (known.status_code, known["Location"]) == (unknown.status_code, unknown["Location"])
    assert [letter.to for letter in mail.outbox] == [[person.email]]


def test_a_link_to_set_a_password_dies_when_its_person_is_disabled(client, person):
    link = reset_link(person).removeprefix("http://127.0.0.1:8000")
    disable(person=person, actor=person)
    assert client.get(link).status_code == 404


def test_there_is_no_sign_up_and_no_page_of_allauth_that_berth_does_not_serve(client):
    for name in [
        "account_signup",
        "account_email",
        "account_inactive",
        "account_reauthenticate",
        "account_change_password",
    ]:
        with pytest.raises(NoReverseMatch):
            reverse(name)


def test_no_button_for_single_sign_on_when_none_is_configured(client):
    assert "single sign-on" not in client.get("/sign-in/").content.decode()
