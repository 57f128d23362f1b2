"""What agents report and what it changes: a reservation that runs, a node that is heard again, a GPU that fails."""

import datetime as dt

import msgspec
import pytest
from django.utils import timezone

from agents.protocol import GpuFact, LeaseEvent, Report, event_id
from portal.audit.models import AuditEntry
from portal.audit.origin import Via, coming_from
from portal.inventory.models import Gpu, Node
from portal.inventory.reported import record_gpus
from portal.live.node_rows import PROBE_LATE, Heard, record_heard
from portal.reservations.agent_reports import apply_report
from tests.factories import make_org, make_pool_with_gpus, make_reservation, window

pytestmark = pytest.mark.django_db


@pytest.fixture
def node() -> Node:
    return make_pool_with_gpus(gpus=1).nodes.get()


def told(*fields: str) -> list[tuple]:
    return list(AuditEntry.objects.order_by("id").values_list("action", *fields))


def fact(gpu: Gpu, **changes) -> GpuFact:
    found = GpuFact(
        uuid=gpu.uuid, index=gpu.index, model=gpu.model, memory_mib=gpu.memory_mib, profiles=(),
        memory_slices=gpu.memory_slices, compute_slices=gpu.compute_slices, mig_capable=True,
        mig_enabled=gpu.mig_enabled,
    )  # fmt: skip
    return msgspec.structs.replace(found, **changes)


def test_the_first_rank_that_runs_makes_the_reservation_run_once(node):
    _, team, _ = make_org()
    pool, now = node.pool, timezone.now()
    gpu = pool.gpus.get()
    booked = make_reservation(team, pool, "1g.10gb", window(now), places=((gpu, 0), (gpu, 1)), frozen_at=now)
    events = tuple(
        LeaseEvent(event_id(lease.pk, "active"), lease.pk, "active", now.timestamp(), mig_uuid=f"MIG-{lease.pk}")
        for lease in booked.leases.all()
    )
    with coming_from(Via.AGENT, "192.0.2.7"):
        apply_report(node.pk, Report(0, (), events, ()), timezone.now())
        apply_report(node.pk, Report(0, (), events, ()), timezone.now())
    booked.refresh_from_db()
    assert told("actor", "tenant", "subject", "before", "after", "via", "address") == [
        ("reservation.running", None, team.pk, booked.number, {"state": "confirmed"},
         {"state": "running", "running_at": booked.running_at.isoformat()}, "agent", "192.0.2.7"),
    ]  # fmt: skip


def test_a_silent_node_that_reports_is_remembered_once(node):
    Node.objects.filter(pk=node.pk).update(silent_since=timezone.now())
    apply_report(node.pk, Report(0, (), (), ()), timezone.now())
    apply_report(node.pk, Report(0, (), (), ()), timezone.now())
    assert told("subject") == [("node.heard", node.name)]
    node.refresh_from_db()
    assert node.silent_since is None


def test_a_heartbeat_ends_silence_and_an_old_probe_degrades(node):
    Node.objects.filter(pk=node.pk).update(silent_since=timezone.now() - dt.timedelta(minutes=5))
    record_heard({node.pk: Heard(timezone.now(), 120.0)})
    record_heard({node.pk: Heard(timezone.now(), 1.0)})
    record_heard({node.pk: Heard(timezone.now(), 1.0)})
    assert told("before", "after") == [
        ("node.heard", {}, {"silent": False}),
        ("node.degraded", {"reason": ""}, {"reason": PROBE_LATE}),
        ("node.degraded", {"reason": PROBE_LATE}, {"reason": ""}),
    ]


def test_a_gpu_that_fails_is_absent_and_comes_back_is_remembered_each_time(node):
    gpu = node.gpus.get()
    record_gpus(node, (fact(gpu),))
    assert told() == []
    record_gpus(node, (fact(gpu, healthy=False, fault="XID 79"),))
    record_gpus(node, ())
    record_gpus(node, (fact(gpu),))
    assert told("before", "after") == [
        ("gpu.changed", {"state": "ok", "fault": ""}, {"state": "faulty", "fault": "XID 79"}),
        ("node.degraded", {"reason": ""}, {"reason": "GPU 0: XID 79"}),
        ("gpu.changed", {"present": True}, {"present": False}),
        ("node.degraded", {"reason": "GPU 0: XID 79"}, {"reason": ""}),
        ("gpu.changed", {"state": "faulty", "fault": "XID 79", "present": False},
         {"state": "ok", "fault": "", "present": True}),
    ]  # fmt: skip


def test_a_new_gpu_is_remembered_with_the_pool_it_went_to(node):
    gpu = node.gpus.get()
    record_gpus(node, (fact(gpu), fact(gpu, uuid="GPU-new", index=1)))
    (entry,) = AuditEntry.objects.all()
    assert (entry.action, entry.subject) == ("gpu.joined", f"GPU 1 of {node.name}")
    assert entry.after["pool_id"] == node.pool_id
