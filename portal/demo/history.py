"""Writes what the demo's teams held before today: ended reservations, their ledger entries and their measured use."""

import datetime as dt
import uuid
from collections.abc import Iterable

from django.db import transaction
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange, NumericRange

from agents.drivers.simulator.models import load_models
from agents.protocol import event_id
from portal.accounts.models import User
from portal.demo.organisation import KINDS, PEOPLE, TEAMS
from portal.demo.past import BUCKET_SECONDS, Device, PastUse, Shape, buckets_of, make_past, utilization_at
from portal.inventory.models import Gpu, Profile
from portal.ledger.models import Kind, LedgerEntry
from portal.live.models import UseBucket
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.tenants.models import Role, Tenant
from portal.workloads.models import Workload

SOURCE = "demo"
BATCH = 2000


@transaction.atomic
def seed_history() -> int:
    """Returns how many reservations were written: none when there are some already."""
    if Reservation.objects.exists():
        return 0
    gpus = {gpu.pk: gpu for gpu in Gpu.objects.filter(present=True, pool__isnull=False).select_related("pool", "node")}
    profiles = {profile.pk: profile for profile in Profile.objects.all()}
    devices = [device for gpu in gpus.values() if (device := _device(gpu, profiles.values())).teams]
    uses = make_past(devices, timezone.now().date())
    leases = _write_leases(uses, gpus, profiles)
    _write_ledger(uses, leases)
    _write_use(uses, leases, gpus)
    return len(uses)


def _device(gpu: Gpu, profiles: Iterable[Profile]) -> Device:
    """Plain profiles only: those with media engines or double memory are rare in a plausible past."""
    mine = [profile for profile in profiles if (profile.gpu_model, profile.mig) == (gpu.model, gpu.mig_enabled)]
    shapes = [
        Shape(profile.pk, profile.size, tuple(profile.starts))
        for profile in mine
        if "+" not in profile.name and (profile.whole is not profile.mig)
    ]
    pool = gpu.pool.name if gpu.pool else ""
    members = {person.tenant for person in PEOPLE if person.role != Role.VIEWER}
    teams = [team.name for team in TEAMS if team.name in members and pool in {quota[0] for quota in team.quotas}]
    return Device(gpu.pk, gpu.memory_slices, tuple(shapes), tuple(teams))


def _write_leases(uses: list[PastUse], gpus: dict[int, Gpu], profiles: dict[int, Profile]) -> list[Lease]:
    tenants = {tenant.name: tenant for tenant in Tenant.objects.all()}
    owners = {name: _owners(name) for name in {use.team for use in uses}}
    workloads = Workload.objects.bulk_create(
        Workload(tenant=tenants[use.team], name=KINDS[number % len(KINDS)].name, command=["python3", "-c", ""])
        for number, use in enumerate(uses)
    )
    reservations = Reservation.objects.bulk_create(
        Reservation(
            tenant=tenants[use.team], owner=(owner := owners[use.team][number % len(owners[use.team])]),
            created_by=owner, created_at=use.start - dt.timedelta(hours=20), running_at=use.start, ended_at=use.closed,
            pool=gpus[use.gpu_id].pool, profile=profiles[use.profile_id], workload=workloads[number],
            weight=profiles[use.profile_id].weight, during=DateTimeTZRange(use.start, use.end), state=State.ENDED,
            end_reason=use.reason,
        )
        for number, use in enumerate(uses)
    )  # fmt: skip
    return Lease.objects.bulk_create(
        Lease(
            reservation=reservation, rank=0, gpu_id=use.gpu_id, during=DateTimeTZRange(use.start, use.end),
            span=NumericRange(use.first_slice, use.first_slice + use.size),
            state=LeaseState.FAILED if use.reason == "failed" else LeaseState.ENDED, frozen_at=use.start,
            starting_at=use.start, active_at=use.start, stopping_at=use.closed, ended_at=use.closed,
            exit_code=1 if use.reason == "failed" else None,
        )
        for use, reservation in zip(uses, reservations, strict=True)
    )  # fmt: skip


def _owners(tenant_name: str) -> list[User]:
    emails = [person.email for person in PEOPLE if person.tenant == tenant_name]
    return list(User.objects.filter(email__in=emails).order_by("pk"))


def _write_ledger(uses: list[PastUse], leases: list[Lease]) -> None:
    LedgerEntry.objects.bulk_create(
        LedgerEntry(
            event_id=uuid.UUID(event_id(lease.pk, kind)), kind=kind, lease_id=lease.pk, at=at, source=SOURCE,
            reservation_id=lease.reservation_id, tenant=lease.reservation.tenant, user=lease.reservation.owner,
            pool=lease.reservation.pool, profile_name=lease.reservation.profile.name,
            weight=lease.reservation.weight, slices=use.size,
        )
        for use, lease in zip(uses, leases, strict=True)
        for kind, at in ((Kind.OPENED, use.start), (Kind.CLOSED, use.closed))
    )  # fmt: skip


def _write_use(uses: list[PastUse], leases: list[Lease], gpus: dict[int, Gpu]) -> None:
    """What the device could not measure stays None here too: a slice without GPM metrics has no utilization."""
    gpm = {model.product for model in load_models().values() if model.gpm}
    rows = []
    for use, lease in zip(uses, leases, strict=True):
        gpu = gpus[use.gpu_id]
        measurable = not gpu.mig_enabled or gpu.model in gpm
        for at, held_seconds in buckets_of(use):
            percent = utilization_at(use, at) if measurable else None
            rows.append(
                UseBucket(
                    lease=lease, at=at, seconds=BUCKET_SECONDS, utilization=percent,
                    memory_used_mib=int(gpu.memory_mib * use.size / gpu.memory_slices * (0.2 + 0.6 * use.busy)),
                    measured_seconds=held_seconds if measurable else 0,
                    busy_ms=int((percent or 0.0) * held_seconds * 10),
                )
            )  # fmt: skip
    UseBucket.objects.bulk_create(rows, batch_size=BATCH)
