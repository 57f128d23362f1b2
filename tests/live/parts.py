"""Frames as an agent writes them, and waiting for one of a kind."""

import asyncio
import json
import time

from django.utils import timezone

from agents import protocol
from portal.inventory.models import Gpu, Node
from portal.reservations.models import Lease, LeaseState, State
from portal.tenants.models import Tenant
from tests.factories import make_org, make_pool_with_gpus, make_reservation, window
from tests.live.wire import Wire

AGENT_PATH = "/agent/v1/socket"
LIVE_PATH = "/live/"
ORIGIN = "http://127.0.0.1:8000"
FRAMES_MOST = 200


def some_nodes(count: int = 1) -> list[Node]:
    """Nodes of one pool with one GPU each, in an organisation of three tenants."""
    make_org()
    return list(make_pool_with_gpus(gpus=count, nodes=count).nodes.order_by("pk"))


def a_lease(node: Node, tenant: Tenant | None = None) -> Lease:
    """A lease that this node runs now, of the project unless told otherwise."""
    now = timezone.now()
    booked = make_reservation(
        tenant or Tenant.objects.get(name="segmentation"), node.pool, "1g.10gb", window(now), frozen_at=now,
        places=((node.gpus.get(), 0),), state=State.RUNNING, lease_state=LeaseState.ACTIVE)  # fmt: skip
    return booked.leases.get()


def hello(node: Node, **changes) -> str:
    facts = tuple(
        protocol.GpuFact(
            uuid=gpu.uuid,
            index=gpu.index,
            model=gpu.model,
            memory_mib=gpu.memory_mib,
            profiles=(),
            memory_slices=gpu.memory_slices,
            compute_slices=gpu.compute_slices,
            mig_capable=gpu.mig_capable,
            mig_enabled=gpu.mig_enabled,
        )  # fmt: skip
        for gpu in Gpu.objects.filter(node=node)
    )
    values = {
        "version": protocol.VERSION, "agent_version": "1", "boot_id": "boot", "driver_version": "570", "gpus": facts,
        "engine": "process", "sent_at": time.time(), "present": (), "observed_generation": 0}  # fmt: skip
    return protocol.encode(protocol.Hello(**(values | changes)))


def samples(leases=(), gpus=()) -> str:
    return protocol.encode(protocol.Samples(at=time.time(), gpus=tuple(gpus), leases=tuple(leases)))


def report(generation: int = 0, events=()) -> str:
    return protocol.encode(protocol.Report(observed_generation=generation, present=(), events=tuple(events), gpus=()))


async def said(socket: Wire, kind: type, within_seconds: float = 10):
    """The next message of this kind from the portal to an agent."""
    for _ in range(FRAMES_MOST):
        message = protocol.decode_from_portal(await socket.receive(within_seconds))
        if isinstance(message, kind):
            return message
    raise AssertionError(f"no {kind.__name__} among {FRAMES_MOST} frames")


async def handed(socket: Wire, lease: Lease, within_seconds: float = 3) -> protocol.Desired:
    """The next desired document that holds this lease."""
    async with asyncio.timeout(within_seconds):
        while True:
            desired = await said(socket, protocol.Desired)
            if lease.pk in {each.lease_id for each in desired.leases}:
                return desired


async def closed_with(socket: Wire, within_seconds: float = 10) -> int:
    """The code with which the portal closes; what it says before is passed over."""
    for _ in range(FRAMES_MOST):
        output = await socket.receive_output(timeout=within_seconds)
        if output["type"] == "websocket.close":
            return output["code"]
    raise AssertionError("it was not closed")


async def shown(socket: Wire, wanted, within_seconds: float = 10) -> dict:
    """The next message to a browser for which ``wanted(message)`` holds."""
    for _ in range(FRAMES_MOST):
        message = json.loads(await socket.receive(within_seconds))
        if wanted(message):
            return message
    raise AssertionError("no such message")


def has_value(key: str):
    return lambda message: key in message.get("v", {})
