"""Joining over HTTP: a token works once, and a refusal says why."""

import json

import pytest
from django.conf import settings
from django.test import Client
from redis import Redis

from agents.enrol_format import Enrolled
from portal.inventory.enrolment import new_enrolment_token, node_of_credential
from portal.inventory.models import EnrolmentToken
from tests.live.parts import some_nodes

pytestmark = pytest.mark.django_db


@pytest.fixture
def ask():
    """Posts to the enrolment address as an agent does, with CSRF checks on: no cookie, no token of a form."""
    client = Client(enforce_csrf_checks=True)

    def post(body) -> tuple[int, dict]:
        text = body if isinstance(body, str) else json.dumps(body)
        response = client.post("/agent/v1/enrol", text, content_type="application/json")
        return response.status_code, response.json()

    return post


def test_a_token_gives_a_credential_once(ask):
    (node,) = some_nodes()
    asked = {"token": new_enrolment_token(node=node, actor=None), "hostname": "machine"}
    status, answer = ask(asked)
    assert status == 200
    assert (answer["node_id"], answer["node_name"]) == (node.pk, node.name)
    assert node_of_credential(answer["credential"]) == node
    assert set(answer) == set(Enrolled.__struct_fields__)
    status, answer = ask(asked)
    assert (status, answer["code"]) == (403, "token_refused")
    assert "used already" in answer["detail"]


def test_a_wrong_token_is_refused_with_a_sentence(ask):
    status, answer = ask({"token": "wrong", "hostname": "machine"})
    assert status == 403
    assert "not known" in answer["detail"]


def test_an_expired_token_is_refused(ask):
    (node,) = some_nodes()
    token = new_enrolment_token(node=node, actor=None)
    row = EnrolmentToken.objects.get()
    EnrolmentToken.objects.update(expires_at=row.created_at)
    status, answer = ask({"token": token, "hostname": "machine"})
    assert status == 403
    assert "expired" in answer["detail"]


@pytest.mark.parametrize(
    "body", ["", "{", "[]", '{"token": 5}', '{"token": "x"}', '{"token": "x", "hostname": ""}', "x" * 5000]
)
def test_a_body_that_is_no_enrolment_is_answered_400(ask, body):
    status, answer = ask(body)
    assert (status, answer["code"]) == (400, "bad_request")


def test_an_agent_of_an_unknown_version_is_told_so(ask):
    status, answer = ask({"token": "x", "hostname": "machine", "version": 99})
    assert (status, answer["code"]) == (400, "bad_version")


def test_only_post_is_taken():
    assert Client().get("/agent/v1/enrol").status_code == 405


def test_an_address_that_keeps_guessing_has_to_wait(ask):
    (node,) = some_nodes()
    assert {ask({"token": f"guess-{number}", "hostname": "machine"})[0] for number in range(20)} == {403}
    token = new_enrolment_token(node=node, actor=None)
    assert ask({"token": token, "hostname": "machine"})[0] == 429
    with Redis.from_url(settings.REDIS_STORE_URL) as redis:
        redis.flushall()
    assert ask({"token": token, "hostname": "machine"})[0] == 200
