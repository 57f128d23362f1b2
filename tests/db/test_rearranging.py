"""Late binding: what is planned moves so that more fits; its window stays, and nobody is bothered."""

import pytest
from django.utils import timezone
from psycopg2.extras import NumericRange

from portal.audit.models import AuditEntry
from portal.notices.models import Notice
from portal.reservations import booking
from portal.reservations.availability import preview
from portal.reservations.errors import NoCapacity
from portal.reservations.improving import improve_plans
from portal.reservations.models import Lease, Reservation
from portal.reservations.rearranging import NotMovable, rearrange
from portal.reservations.sweeps import freeze_due
from scheduler.placement.trial import Move
from tests.db.house import House, places, span, windows
from tests.factories import HOUR, make_user, profile_of

pytestmark = pytest.mark.django_db(transaction=True)


def put(reservation: Reservation, gpu, start: int) -> None:
    lease = reservation.leases.get()
    size = lease.span.upper - lease.span.lower
    Lease.objects.filter(pk=lease.pk).update(gpu=gpu, span=NumericRange(start, start + size, "[)"))


class InTheWay:
    """Two GPUs; a 4g.40gb, which begins at slice 0 alone, fits only where one small lease lies."""

    def __init__(self) -> None:
        self.house = House(gpus=2, nodes=2)
        self.first, self.second = self.house.pool.gpus.order_by("pk")
        self.fixed = self.house.book("4g.40gb")
        put(self.fixed, self.second, 0)
        self.small = self.house.book("1g.10gb", owner=make_user("neighbour", tenant=self.house.team))
        put(self.small, self.first, 0)
        Notice.objects.all().delete()

    def asked(self):
        house = self.house
        profile = profile_of(house.pool, "4g.40gb")
        return preview(house.team, house.pool, profile, 1, span(house.start, 1), owner=house.owner)


@pytest.fixture
def scene():
    return InTheWay()


def test_what_fits_only_after_a_move_is_booked_and_who_was_moved_is_told_nothing(scene):
    before = windows(scene.small)
    assert scene.asked().fits
    booked = scene.house.book("4g.40gb")
    assert places(booked) == [(scene.first.pk, 0, 4)]
    assert places(scene.small) != [(scene.first.pk, 0, 1)]
    assert windows(scene.small) == before
    assert not Notice.objects.filter(user=scene.small.owner).exists()
    told = AuditEntry.objects.get(action="pool.rearranged")
    assert told.after["because"] == booked.number and len(told.after["moves"]) == 1


@pytest.mark.parametrize("stays", ["frozen", "pinned", "running"])
def test_what_a_node_knows_of_or_a_person_has_pinned_never_moves(scene, stays):
    if stays == "frozen":
        scene.small.leases.update(frozen_at=timezone.now())
    elif stays == "pinned":
        Reservation.objects.filter(pk=scene.small.pk).update(pinned_node=scene.first.node)
    else:
        scene.small.leases.update(state="active", frozen_at=timezone.now())
    assert not scene.asked().fits
    with pytest.raises(NoCapacity):
        scene.house.book("4g.40gb")
    assert places(scene.small) == [(scene.first.pk, 0, 1)]


def test_what_is_booked_for_one_node_sits_there_and_stays(scene):
    pinned = scene.house.book("1g.10gb", node_id=scene.second.node.pk)
    assert places(pinned)[0][0] == scene.second.pk and pinned.pinned_node == scene.second.node
    with pytest.raises(NoCapacity):
        scene.house.book("7g.80gb", node_id=scene.second.node.pk)
    moved = scene.house.change(pinned, start=scene.house.start + 3 * HOUR, end=scene.house.start + 4 * HOUR)
    assert places(moved)[0][0] == scene.second.pk


def test_when_the_booking_fails_nothing_was_moved(scene, monkeypatch):
    class Failed(Exception):
        pass

    def fail(*_):
        raise Failed

    monkeypatch.setattr(booking, "tell_booked", fail)
    with pytest.raises(Failed):
        scene.house.book("4g.40gb")
    monkeypatch.undo()
    assert places(scene.small) == [(scene.first.pk, 0, 1)]
    assert places(scene.house.book("4g.40gb")) == [(scene.first.pk, 0, 4)]


def test_all_moves_are_made_or_none(scene):
    free, frozen = scene.fixed.leases.get(), scene.small.leases.get()
    Lease.objects.filter(pk=frozen.pk).update(frozen_at=timezone.now())
    moves = [Move(free.pk, scene.first.pk, 4, 8), Move(frozen.pk, scene.second.pk, 7, 8)]
    with pytest.raises(NotMovable), booking.transaction.atomic():
        rearrange(scene.house.pool, moves, because="test")
    assert places(scene.fixed) == [(scene.second.pk, 0, 4)]


def test_the_sweep_puts_what_is_planned_where_it_would_go_now_and_then_rests(scene):
    Lease.objects.filter(reservation=scene.fixed).delete()
    put(scene.small, scene.second, 3)
    assert improve_plans() == 1
    assert places(scene.small)[0][0] == scene.first.pk
    improve_plans()
    entries = AuditEntry.objects.count()
    assert improve_plans() == 0 and AuditEntry.objects.count() == entries


def test_the_sweep_leaves_what_is_frozen(scene):
    put(scene.small, scene.second, 4)
    freeze_due(now=scene.house.start)
    assert improve_plans() == 0
    assert places(scene.small) == [(scene.second.pk, 4, 5)]
