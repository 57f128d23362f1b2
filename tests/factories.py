"""Rows for tests, written straight to the tables: no service is used, so that each test states what it relies on."""

import datetime as dt
import itertools
import uuid

from django.utils import timezone
from psycopg2.extras import DateTimeTZRange, NumericRange

from agents.drivers.simulator.models import load_models
from portal.accounts.models import User
from portal.inventory.models import Gpu, Node, Pool, Profile
from portal.inventory.profiles import default_weight
from portal.ledger.models import LedgerEntry
from portal.quotas.models import Budget, Period, Quota
from portal.reservations.models import Lease, LeaseState, Reservation, State
from portal.tenants.models import Membership, Role, Tenant
from portal.workloads.models import Workload
from scheduler.placement.geometry import counted_as

HOUR = dt.timedelta(hours=1)
MODELS = {"H100": "H100-80GB", "A100": "A100-80GB", "A30": "A30", "L40S": "L40S", "H200": "H200-141GB"}
_numbers = itertools.count(1)


def make_tenant(name: str, parent: Tenant | None = None, time_zone: str = "UTC") -> Tenant:
    """The root when ``parent`` is None: the database takes only one."""
    tenant = Tenant.objects.create(
        name=name, code=name[:2].upper(), parent=parent, path=f"new {next(_numbers)}", time_zone=time_zone
    )
    tenant.path = f"{parent.path if parent else '/'}{tenant.pk}/"
    tenant.save(update_fields=["path"])
    return tenant


def make_org(time_zone: str = "UTC") -> tuple[Tenant, Tenant, Tenant]:
    """(northquay, northquay > vision-lab, northquay > vision-lab > segmentation)."""
    root = make_tenant("northquay", time_zone=time_zone)
    team = make_tenant("vision-lab", root, time_zone)
    return root, team, make_tenant("segmentation", team, time_zone)


def make_user(name: str = "", tenant: Tenant | None = None, role: Role = Role.MEMBER) -> User:
    name = name or f"person-{next(_numbers)}"
    user = User.objects.create(email=f"{name}-{next(_numbers)}@example.org", name=name)
    if tenant is not None:
        Membership.objects.create(user=user, tenant=tenant, role=role)
    return user


def make_pool_with_gpus(
    model: str = "H100", gpus: int = 2, mig: bool | None = None, nodes: int = 1, name: str = ""
) -> Pool:
    """A pool of ``gpus`` GPUs over ``nodes`` ready nodes, with the profiles of the simulated driver's data files.

    ``mig`` None is on where the model has it.
    """
    facts = load_models()[MODELS.get(model, model)]
    mig = bool(facts.profiles) if mig is None else mig
    pool = Pool.objects.create(name=name or f"{model} {next(_numbers)}", gpu_model=facts.product, mig=mig)
    now = timezone.now()
    machines = [
        Node.objects.create(name=f"node-{next(_numbers)}", pool=pool, enrolled_at=now, last_seen_at=now)
        for _ in range(nodes)
    ]
    for number in range(gpus):
        Gpu.objects.create(
            node=machines[number * nodes // gpus], pool=pool, uuid=f"GPU-{uuid.uuid4()}", index=number,
            model=facts.product, memory_mib=facts.memory_mib, memory_slices=facts.memory_slices or 8,
            compute_slices=facts.compute_slices or 7, mig_capable=bool(facts.profiles), mig_enabled=mig)  # fmt: skip
    _make_profiles(facts, mig)
    return pool


def _make_profiles(facts, mig: bool) -> None:
    if not mig:
        size, compute = facts.memory_slices or 8, facts.compute_slices or 7
        Profile.objects.get_or_create(
            gpu_model=facts.product, mig=False, name="full",
            defaults={"size": size, "starts": [0], "compute_slices": compute, "memory_mib": facts.memory_mib,
                      "max_count": 1, "whole": True, "weight": default_weight(compute, size)})  # fmt: skip
        return
    for shape in facts.profiles:
        size = shape.spans[0][1]
        Profile.objects.get_or_create(
            gpu_model=facts.product, mig=True, name=shape.name,
            defaults={"nvml_profile_id": shape.profile_id, "size": size, "starts": [start for start, _ in shape.spans],
                      "compute_slices": shape.slices, "memory_mib": shape.memory_mib, "max_count": shape.max_count,
                      "whole": size == facts.memory_slices, "weight": default_weight(shape.slices, size)})  # fmt: skip


def profile_of(pool: Pool, name: str) -> Profile:
    return Profile.objects.get(gpu_model=pool.gpu_model, mig=pool.mig, name=name)


def make_quota(tenant: Tenant, pool: Pool, limit: int, guaranteed: int = 0) -> Quota:
    return Quota.objects.create(tenant=tenant, pool=pool, limit=limit, guaranteed=guaranteed)


def make_budget(tenant: Tenant, slice_seconds: int, period: Period = Period.MONTH) -> Budget:
    return Budget.objects.create(tenant=tenant, slice_seconds=slice_seconds, period=period)


def window(start: dt.datetime, hours: float = 1.0) -> DateTimeTZRange:
    return DateTimeTZRange(start, start + hours * HOUR, "[)")


def make_reservation(
    tenant: Tenant,
    pool: Pool,
    profile: Profile | str,
    during: DateTimeTZRange,
    *,
    places: tuple[tuple[Gpu, int], ...],
    owner: User | None = None,
    state: State = State.CONFIRMED,
    lease_state: LeaseState = LeaseState.PLANNED,
    frozen_at: dt.datetime | None = None,
) -> Reservation:
    """A reservation with one lease for each (GPU, start slice)."""
    profile = profile_of(pool, profile) if isinstance(profile, str) else profile
    owner = owner or make_user(tenant=tenant)
    reservation = Reservation.objects.create(
        tenant=tenant, owner=owner, pool=pool, profile=profile, ranks=len(places), weight=profile.weight, during=during,
        workload=Workload.objects.create(tenant=tenant, name="training", command=["train"]), state=state,
        end_reason="completed" if state == State.ENDED else "", created_by=owner)  # fmt: skip
    limited = profile.max_count == 1 and len(profile.starts) > 1
    for rank, (gpu, start) in enumerate(places):
        Lease.objects.create(
            reservation=reservation, rank=rank, gpu=gpu, span=NumericRange(start, start + profile.size, "[)"),
            during=during, state=lease_state, frozen_at=frozen_at,
            only_one=counted_as(profile.name) if limited else None)  # fmt: skip
    return reservation


def record(lease: Lease, kind: str, at: dt.datetime, seconds: int = 0) -> LedgerEntry:
    """One row of the ledger about the lease: opened, closed or corrected."""
    reservation = lease.reservation
    return LedgerEntry.objects.create(
        kind=kind, lease_id=lease.pk, reservation_id=reservation.pk, tenant=reservation.tenant, user=reservation.owner,
        pool=reservation.pool, profile_name=reservation.profile.name, at=at, weight=reservation.weight,
        slices=reservation.profile.size, seconds=seconds, source="test")  # fmt: skip
