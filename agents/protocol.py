"""The wire format between portal and agent, defined once; with :mod:`agents.group_format` for groups of whole GPUs
and :mod:`agents.enrol_format` for the one call before the first connection.

One outbound WebSocket from the agent carries JSON text frames; each frame is one of the structs below, told apart by
its ``type`` field. Both sides decode with :func:`decode_from_agent` or :func:`decode_from_portal`, which raise
:class:`ProtocolError` for anything that does not fit. Unknown fields are ignored, so that a newer peer may add some; a
version outside ``SUPPORTED_VERSIONS`` is refused at ``hello``.

Times are seconds since the epoch, UTC, as floats. Spans are half-open memory slices ``[start, end)``.
``None`` in a sample always means *not measurable*, never zero.
"""

import uuid
from typing import Annotated

import msgspec
from msgspec import Meta

from agents.group_format import Address, Group, Interface

VERSION = 1
SUPPORTED_VERSIONS = (1,)
MAX_FRAME_BYTES = 1 << 20
MAX_DOCUMENT_BYTES = 16 << 20  # a frame of the portal: hundreds of leases with 32 kB of command and environment each
LOG_TAIL_BYTES = 64 * 1024

_LEASE_NAMESPACE = uuid.UUID("5d1c3b0e-6f6b-4f0e-9a59-0b1d6f3f7c11")

Name = Annotated[str, Meta(min_length=1, max_length=128)]
Text = Annotated[str, Meta(max_length=4096)]
Small = Annotated[int, Meta(ge=0, le=4096)]
Count = Annotated[int, Meta(ge=0, le=1 << 53)]
Percent = Annotated[float, Meta(ge=0, le=100)]
Epoch = Annotated[float, Meta(ge=0, le=32503680000)]


class ProtocolError(ValueError):
    """A frame that does not fit the format; the text says where."""


def event_id(lease_id: int, kind: str, attempt: int = 0) -> str:
    """The id of an event is a function of what happened, so that telling it twice writes one row."""
    return str(uuid.uuid5(_LEASE_NAMESPACE, f"{lease_id}/{kind}/{attempt}"))


# ---- inventory: what the driver says of a node


class ProfileFact(msgspec.Struct, frozen=True):
    """A legal shape of a slice on one GPU model, as the driver reports it.

    ``starts`` are the legal first memory slices; ``size`` the memory slices taken. ``profile_id`` is NVML's profile id,
    or None for the whole GPU with MIG off. ``max_count`` is how many one GPU takes at once.
    """

    name: Name
    profile_id: Small | None
    size: Annotated[int, Meta(ge=1, le=64)]
    starts: Annotated[tuple[Small, ...], Meta(min_length=1, max_length=64)]
    compute_slices: Annotated[int, Meta(ge=1, le=64)]
    memory_mib: Count
    max_count: Annotated[int, Meta(ge=1, le=64)]


class GpuFact(msgspec.Struct, frozen=True):
    """One device. ``memory_slices`` is the height of its canvas: 8 on 7g parts and on GPUs without MIG, 4 on an A30.
    ``measured``: its driver tells how busy what is leased of it is; None from an agent that does not say.
    ``links``: by the other GPU's UUID, NV4 for four NVLinks, else PIX, PXB, PHB, NODE, SYS; absent if unknown."""

    uuid: Name
    index: Small
    model: Name
    memory_mib: Count
    memory_slices: Annotated[int, Meta(ge=1, le=64)]
    compute_slices: Annotated[int, Meta(ge=1, le=64)]
    mig_capable: bool
    mig_enabled: bool
    profiles: Annotated[tuple[ProfileFact, ...], Meta(max_length=64)]
    pci_bus_id: Annotated[str, Meta(max_length=64)] = ""
    healthy: bool = True
    fault: Text = ""
    measured: bool | None = None
    links: Annotated[dict[Name, Name], Meta(max_length=64)] | None = None


class PresentSlice(msgspec.Struct, frozen=True):
    """A GPU instance that exists on a device now, read back from the driver, and whose it is (None: nobody's).

    A whole GPU with MIG off has no instance: it is shown while a lease holds it, with the GPU's UUID as ``mig_uuid``.
    """

    gpu_uuid: Name
    start: Small
    size: Small
    mig_uuid: Annotated[str, Meta(max_length=64)]
    lease_id: int | None = None


# ---- agent -> portal


class Hello(msgspec.Struct, frozen=True, tag="hello"):
    """First frame of a connection; a changed ``boot_id`` voids everything that was prepared before."""

    version: int
    agent_version: Name
    boot_id: Name
    driver_version: Name
    engine: Name
    sent_at: Epoch
    gpus: Annotated[tuple[GpuFact, ...], Meta(max_length=64)]
    present: Annotated[tuple[PresentSlice, ...], Meta(max_length=1024)]
    observed_generation: Count
    simulated: bool = False
    cluster_address: Address = ""
    cluster_interface: Interface = ""


class LeaseEvent(msgspec.Struct, frozen=True):
    """Something that happened to a lease. ``kind``: starting, active, stopping, freed or failed.

    ``freed`` and ``failed`` say that the span is read back as free; an agent that cannot free it reports the GPU as not
    healthy instead. ``reason`` of both: window_over, withdrawn, exited, start_failed, gpu_lost, or one of
    :mod:`agents.group_reasons`. ``detail`` is a sentence for a person.
    """

    id: Name
    lease_id: int
    kind: Name
    at: Epoch
    mig_uuid: Annotated[str, Meta(max_length=64)] = ""
    reason: Annotated[str, Meta(max_length=32)] = ""
    exit_code: int | None = None
    detail: Text = ""
    log_tail: Annotated[str, Meta(max_length=LOG_TAIL_BYTES)] = ""


class Report(msgspec.Struct, frozen=True, tag="report"):
    """What is there after a pass of the agent's loop. Events are sent again until the portal acknowledges them."""

    observed_generation: Count
    present: Annotated[tuple[PresentSlice, ...], Meta(max_length=1024)]
    events: Annotated[tuple[LeaseEvent, ...], Meta(max_length=500)]
    gpus: Annotated[tuple[GpuFact, ...], Meta(max_length=64)]


class GpuSample(msgspec.Struct, frozen=True):
    uuid: Name
    utilization: Percent | None = None
    memory_used_mib: Count | None = None
    power_watts: Annotated[float, Meta(ge=0, le=100000)] | None = None
    temperature_celsius: Annotated[float, Meta(ge=-100, le=1000)] | None = None
    clock_mhz: Count | None = None


class LeaseSample(msgspec.Struct, frozen=True):
    lease_id: int
    utilization: Percent | None = None
    tensor: Percent | None = None
    memory_bandwidth: Percent | None = None
    memory_used_mib: Count | None = None
    memory_total_mib: Count | None = None
    power_watts: Annotated[float, Meta(ge=0, le=100000)] | None = None
    cpu_percent: Annotated[float, Meta(ge=0, le=1000000)] | None = None
    host_memory_mib: Count | None = None
    processes: Count | None = None


class Samples(msgspec.Struct, frozen=True, tag="samples"):
    """Once a second. ``at`` is the agent's clock, for the chart only; freshness is judged by the receive time."""
    at: Epoch
    gpus: Annotated[tuple[GpuSample, ...], Meta(max_length=64)]
    leases: Annotated[tuple[LeaseSample, ...], Meta(max_length=1024)]


class Heartbeat(msgspec.Struct, frozen=True, tag="heartbeat"):
    """Every 10 s, from outside the driver's thread. ``probe_age_seconds``: how old the last good driver answer is."""

    sent_at: Epoch
    observed_generation: Count
    probe_age_seconds: Annotated[float, Meta(ge=0)]


class LogChunk(msgspec.Struct, frozen=True, tag="log"):
    """Bytes of a workload's output from ``offset``; sent only for leases that somebody watches."""

    lease_id: int
    offset: Count
    text: Annotated[str, Meta(max_length=LOG_TAIL_BYTES)]


# ---- portal -> agent


class WorkloadSpec(msgspec.Struct, frozen=True):
    """What runs. ``command`` is an argument list, never a shell line; ``image`` is ignored by the process runtime."""

    image: Annotated[str, Meta(max_length=512)]
    command: Annotated[tuple[Annotated[str, Meta(max_length=4096)], ...], Meta(max_length=64)]
    environment: dict[str, str] = {}
    grace_seconds: Annotated[int, Meta(ge=0, le=600)] = 30
    cpus: Annotated[float, Meta(gt=0, le=1024)] | None = None
    memory_mib: Annotated[int, Meta(ge=16, le=1 << 30)] | None = None


class DesiredLease(msgspec.Struct, frozen=True):
    """A frozen or running lease: where, which shape, from when to when, and what runs. One GPU, one span.

    ``profile_id`` None means the whole GPU with MIG off: no instance is made. ``attempt`` counts the times this lease
    was handed out anew; it is part of event ids and container names.
    """

    lease_id: int
    reservation_id: int
    tenant_id: int
    rank: Small
    ranks: Annotated[int, Meta(ge=1, le=4096)]
    gpu_uuid: Name
    profile: Name
    profile_id: Small | None
    start: Small
    size: Annotated[int, Meta(ge=1, le=64)]
    starts_at: Epoch
    ends_at: Epoch
    workload: WorkloadSpec
    attempt: Count = 0
    group: Group | None = None


class Desired(msgspec.Struct, frozen=True, tag="desired"):
    """The whole truth for one node at ``generation``; what is not in it is to be stopped and freed."""

    generation: Count
    leases: Annotated[tuple[DesiredLease, ...], Meta(max_length=4096)]


class Welcome(msgspec.Struct, frozen=True, tag="welcome"):
    """Answer to hello. ``now`` is the portal's clock: the agent corrects its own by the difference it sees."""

    version: int
    node_id: int
    now: Epoch


class Acknowledged(msgspec.Struct, frozen=True, tag="acknowledged"):
    """Events that are in the database; the agent may forget them. Quarantined ones are acknowledged too."""

    event_ids: Annotated[tuple[str, ...], Meta(max_length=500)]


class WatchLogs(msgspec.Struct, frozen=True, tag="watch_logs"):
    """The leases whose output somebody is reading; replaces the last list. The agent forgets it after 60 s."""

    lease_ids: Annotated[tuple[int, ...], Meta(max_length=1024)]


class Refused(msgspec.Struct, frozen=True, tag="refused"):
    """The portal will not talk to this agent: ``code`` is bad_version, revoked or bad_frame."""

    code: Name
    detail: Text


FromAgent = Hello | Report | Samples | Heartbeat | LogChunk
FromPortal = Desired | Welcome | Acknowledged | WatchLogs | Refused

_from_agent = msgspec.json.Decoder(FromAgent)
_from_portal = msgspec.json.Decoder(FromPortal)


def encode(message: FromAgent | FromPortal) -> str:
    return msgspec.json.encode(message).decode()


def decode_from_agent(frame: str | bytes) -> FromAgent:
    return _decode(_from_agent, frame, MAX_FRAME_BYTES)


def decode_from_portal(frame: str | bytes) -> FromPortal:
    return _decode(_from_portal, frame, MAX_DOCUMENT_BYTES)


def _decode(decoder: msgspec.json.Decoder, frame: str | bytes, most_bytes: int):
    if len(frame) > most_bytes:
        raise ProtocolError(f"The frame has {len(frame)} bytes; at most {most_bytes} are taken.")
    try:
        return decoder.decode(frame)
    except (msgspec.MsgspecError, UnicodeDecodeError) as error:
        raise ProtocolError(f"The frame does not fit: {error}") from error
