"""The demo's calendar over what real simulated drivers report: three weeks behind, three days ahead, nothing twice."""

import pytest
from django.utils import timezone

from agents.drivers.opening import open_driver
from agents.drivers.simulator import create_node
from agents.protocol import GpuFact
from portal.demo.bookings import seed_bookings
from portal.demo.history import seed_history
from portal.demo.seed import admit_nodes, seed_organisation
from portal.demo.simulated import NODES
from portal.demo.story import seed_policies, seed_story
from portal.demo.wishes import WISHES
from portal.inventory.models import Gpu, Node, Pool
from portal.inventory.reported import record_gpus
from portal.ledger.models import LedgerEntry
from portal.live.models import UseBucket
from portal.notices.models import Kind, Notice
from portal.reservations.models import (
    OPEN,
    Approval,
    CalendarFeed,
    Lease,
    Maintenance,
    Reservation,
    Series,
    State,
    Wait,
)
from portal.reservations.queue_serving import serve_queue

pytestmark = pytest.mark.django_db


@pytest.fixture(scope="module")
def facts(tmp_path_factory) -> dict[str, tuple[GpuFact, ...]]:
    told = {}
    for node in NODES:
        machine = tmp_path_factory.mktemp(node.name) / "machine.json"
        create_node(machine, node.name, [{"model": model, "mig": mig} for model, mig in node.gpus])
        driver = open_driver(machine)
        told[node.name] = driver.inventory()
        driver.close()
    return told


@pytest.fixture
def fleet(facts):
    seed_organisation("a-password")
    admit_nodes({node.name: node.pool for node in NODES})
    for name, gpus in facts.items():
        record_gpus(Node.objects.get(name=name), gpus)
    Node.objects.update(enrolled_at=timezone.now(), last_seen_at=timezone.now())


def test_every_gpu_finds_the_pool_of_its_model_and_mode(fleet):
    pools = {str(gpu): gpu.pool.name if gpu.pool else None for gpu in Gpu.objects.select_related("pool", "node")}
    assert pools == {
        "quay-01 GPU 0": "H100 MIG",
        "quay-01 GPU 1": "H100 MIG",
        "quay-02 GPU 0": "A100 MIG",
        "quay-02 GPU 1": "A100 MIG",
        "quay-03 GPU 0": "H100 whole",
        "quay-03 GPU 1": "L40S",
    }


def test_the_past_is_written_once_and_its_ledger_is_closed(fleet):
    written = seed_history()
    assert written > 100
    assert seed_history() == 0
    assert Lease.objects.count() == Reservation.objects.filter(state=State.ENDED).count() == written
    for kind in ("opened", "closed"):
        assert LedgerEntry.objects.filter(kind=kind).count() == written
    assert not Reservation.objects.filter(during__endswith__gt=timezone.now()).exists()


def test_use_that_the_device_cannot_measure_is_none_and_not_zero(fleet):
    seed_history()
    ampere = UseBucket.objects.filter(lease__gpu__pool__name="A100 MIG")
    hopper = UseBucket.objects.filter(lease__gpu__pool__name="H100 MIG")
    assert ampere.exists() and not ampere.filter(utilization__isnull=False).exists()
    assert hopper.exists() and not hopper.filter(utilization__isnull=True).exists()


def test_every_wish_is_booked_through_the_service(fleet):
    assert seed_bookings() == len(WISHES)
    assert seed_bookings() == 0
    assert set(Pool.objects.filter(reservations__state__in=OPEN)) == set(Pool.objects.all())


def test_a_later_start_runs_anew_what_had_ended_and_books_nothing_else_twice(fleet):
    seed_bookings()
    running = Reservation.objects.filter(during__contains=timezone.now())
    assert running.count() == sum(wish.after_hours == 0 for wish in WISHES)
    Lease.objects.filter(reservation__in=running).update(state="ended")
    running.update(state=State.ENDED, end_reason="released")
    before = Reservation.objects.filter(state__in=OPEN).count()
    booked = seed_bookings()
    assert 0 < booked <= 4
    assert Reservation.objects.filter(state__in=OPEN).count() == before + booked


def test_a_visitor_meets_who_waits_who_is_asked_what_repeats_and_what_is_planned(fleet):
    assert seed_policies()
    assert not seed_policies()
    seed_bookings()
    assert seed_story() == 7
    serve_queue(Pool.objects.get(name="L40S").pk)
    assert Approval.objects.get(decision="").asked_by.name == "Tomas Novak"
    offered = Wait.objects.get(reservation__hold_expires_at__isnull=False).reservation
    assert offered.owner.name == "Rosa Weber"
    assert Wait.objects.filter(reservation__hold_expires_at=None).count() == 3
    assert sorted(Series.objects.values_list("name", flat=True)) == ["Calibration", "Deep learning lab"]
    assert Reservation.objects.filter(series__name="Deep learning lab").count() == 4 * 3
    assert Maintenance.objects.count() == 1 and CalendarFeed.objects.count() == 3
    told = set(Notice.objects.values_list("kind", flat=True))
    assert {Kind.OFFERED, Kind.APPROVAL_WANTED, Kind.MAINTENANCE} <= told
