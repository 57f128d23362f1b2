"""Booking with its guards off, for controls that show that a race can happen."""

import itertools

import pytest

from portal.inventory.models import Pool
from portal.reservations import booking
from portal.reservations.pool_turns import turn_in
from portal.reservations.request import Request


def without_turns(monkeypatch: pytest.MonkeyPatch) -> None:
    """All threads of the process ask the database at once."""

    alone = itertools.count(1)
    monkeypatch.setattr(booking, "turn_in", lambda _pool_id, patience: turn_in(-next(alone), patience))


def unlocked(monkeypatch: pytest.MonkeyPatch) -> None:
    """No turns and no lock of the pool."""

    def enter(request: Request) -> Pool:
        return Pool.objects.get(pk=request.pool.pk)

    without_turns(monkeypatch)
    monkeypatch.setattr(booking, "enter_pool", enter)
