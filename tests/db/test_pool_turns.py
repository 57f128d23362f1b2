"""Turns at a pool: first come first served, over with the commit; who cannot fit does not wait for the pool's lock."""

import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from django.db import connections, transaction

from portal import events
from portal.reservations import booking
from portal.reservations.booking import lock_pool
from portal.reservations.errors import Busy, NoCapacity
from portal.reservations.pool_turns import _turns, turn_in
from tests.db.house import House
from tests.factories import HOUR, make_quota, make_tenant, make_user

NOBODYS = -1


def until_waiting(count: int) -> None:
    deadline = time.monotonic() + 10
    while len(_turns[NOBODYS].waiting) < count:
        assert time.monotonic() < deadline
        threading.Event().wait(0.001)


def test_turns_come_in_order_and_each_ends_once():
    order = []

    def wait(number: int) -> None:
        with turn_in(NOBODYS, 30) as turn:
            assert turn.came
            order.append(number)
            turn.end()

    with ThreadPoolExecutor(3) as threads:
        with turn_in(NOBODYS, 30):
            waiting = []
            for number in range(3):
                waiting.append(threads.submit(wait, number))
                until_waiting(number + 1)
            with turn_in(NOBODYS, 0.01) as impatient:
                assert not impatient.came
        for one in waiting:
            one.result(10)
    assert order == [0, 1, 2]
    with turn_in(NOBODYS, 0) as turn:
        assert turn.came


@pytest.mark.django_db(transaction=True)
def test_a_turn_ends_with_the_commit_and_not_with_what_is_told_after_it(monkeypatch):
    house, came = House(), []

    def tell(*_, **__) -> None:
        with turn_in(house.pool.pk, 0) as turn:
            came.append(turn.came)

    monkeypatch.setattr(events, "tell_group", tell)
    house.book()
    assert came and all(came)


@contextmanager
def locked(house: House) -> Iterator[None]:
    """Another holds the pool's lock, for longer than anybody waits here."""
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with transaction.atomic():
            lock_pool(house.pool.pk)
            held.set()
            done.wait(30)
        connections.close_all()

    with ThreadPoolExecutor(1) as threads:
        holder = threads.submit(hold)
        try:
            assert held.wait(10)
            yield
        finally:
            done.set()
        holder.result(10)


@pytest.mark.django_db(transaction=True)
def test_who_cannot_fit_is_refused_while_another_holds_the_lock_and_who_can_waits(monkeypatch):
    house = House(gpus=1)
    house.book("7g.80gb")
    with pytest.raises(NoCapacity):
        house.book("1g.10gb")  # so that this process has seen it
    monkeypatch.setattr(booking, "LOCK_WAIT_SECONDS", 0.5)
    with locked(house):
        with pytest.raises(NoCapacity):
            house.book("2g.20gb")
        with pytest.raises(Busy):
            house.book("1g.10gb", start=house.start + 2 * HOUR)


@pytest.mark.django_db(transaction=True)
def test_of_a_pool_full_of_borrowers_a_borrower_is_refused_at_once_and_who_may_displace_them_waits(monkeypatch):
    house = House(gpus=1)
    lender = make_tenant("lender", house.root)
    make_quota(lender, house.pool, 1000, guaranteed=7)
    make_quota(house.team, house.pool, 1000, guaranteed=0)
    assert house.book("7g.80gb").borrowed
    with pytest.raises(NoCapacity):
        house.book("1g.10gb")
    monkeypatch.setattr(booking, "LOCK_WAIT_SECONDS", 0.5)
    owner = make_user("guaranteed", tenant=lender)
    with locked(house):
        with pytest.raises(NoCapacity):
            house.book("1g.10gb")
        with pytest.raises(Busy):
            house.book("7g.80gb", tenant=lender, owner=owner)
    assert not house.book("7g.80gb", tenant=lender, owner=owner).borrowed
