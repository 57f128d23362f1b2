"""What nobody caught: busy is said as busy, and a fault of ours as a fault, on pages and in the API."""

from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from django.db import OperationalError, connections, transaction
from django.test import Client, RequestFactory
from django.urls import reverse

from portal.accounts.views.failures import server_error
from portal.inventory.models import Pool
from portal.tenants.models import Role
from tests.factories import make_org, make_pool_with_gpus, make_user

LIMITS = {"name": "x", "shortest": "60", "longest": "24", "ahead": "30"}


def hold(pool: Pool, held: Event, enough: Event) -> None:
    try:
        with transaction.atomic():
            Pool.objects.select_for_update().get(pk=pool.pk)
            held.set()
            enough.wait(30)
    finally:
        connections.close_all()


@pytest.mark.django_db(transaction=True)
def test_a_lock_that_does_not_come_in_time_is_answered_as_busy():
    root, _, _ = make_org()
    pool, held, enough = make_pool_with_gpus(), Event(), Event()
    client = Client(raise_request_exception=False)
    client.force_login(make_user(tenant=root, role=Role.ADMIN))
    with ThreadPoolExecutor(1) as other:
        holding = other.submit(hold, pool, held, enough)
        assert held.wait(30)
        answer = client.post(reverse("pool", args=[pool.pk]), LIMITS)
        enough.set()
        holding.result(30)
    assert (answer.status_code, answer["Retry-After"]) == (503, "1")
    assert "Try again" in answer.content.decode()


@pytest.mark.parametrize(
    ("error", "status", "code"), [(OperationalError("away"), 503, "busy"), (RuntimeError("ours"), 500, "error")]
)
def test_a_program_reads_from_the_code_whether_to_try_again(error, status, code):
    try:
        raise error
    except (OperationalError, RuntimeError):
        answer = server_error(RequestFactory().get("/api/v1/me/"))
    assert answer.status_code == status
    assert f'"code": "{code}"' in answer.content.decode()
