"""A year of a made-up organisation: 60 tenants on four levels, 400 people, 20,000 reservations on five pools."""

import datetime as dt
import random
from collections.abc import Iterator, Sequence

from django.contrib.auth.hashers import make_password
from django.db import connection, transaction
from django.utils import timezone
from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.audit.sealing import seal_late_entries
from portal.demo.year_limits import write_budgets, write_policies, write_quotas
from portal.demo.year_machines import FLEET, facts_of_the_fleet
from portal.demo.year_people import FEWEST_PEOPLE, PEOPLE, Person, Team, make_people, make_teams
from portal.demo.year_plan import Asker, Park, Shape, make_year
from portal.demo.year_records import write_ledger, write_use
from portal.demo.year_rows import write_leases, write_reservations, write_waits
from portal.demo.year_series import write_series
from portal.demo.year_trail import write_notices, write_trail
from portal.inventory.models import Gpu, Node, NodeState, Pool, Profile
from portal.inventory.reported import record_gpus
from portal.ledger.models import LedgerEntry
from portal.ledger.sums import sum_up
from portal.reservations.models import Maintenance, Reservation
from portal.tenants.models import Membership, Role, Tenant
from portal.workloads.models import Template

RESERVATIONS = 20_000
MAY_RESERVE = (Role.MEMBER, Role.LEAD)


class OrganisationThere(RuntimeError):
    """The database holds an organisation; the year is only ever written into an empty one."""


@transaction.atomic
def seed_year(
    *, seed: int = 1, scale: float = 1.0, now: dt.datetime | None = None, password: str = ""
) -> dict[str, int]:
    """Write everything or nothing; returns how many rows of what. The same ``seed`` and ``now`` give the same year.

    ``scale`` shrinks people and reservations. Without a password nobody can sign in by one.
    """
    if Tenant.objects.exists():
        raise OrganisationThere("This database has an organisation already. seed_year only fills an empty one.")
    now = (now or timezone.now()).replace(second=0, microsecond=0)
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = 0")
    chance = random.Random(seed)
    teams = make_teams()
    tenants = _write_tenants(teams, now)
    people = make_people(teams, max(FEWEST_PEOPLE, round(PEOPLE * scale)), chance)
    users = _write_people(people, tenants, now, password)
    pools = _write_fleet(now)
    _write_templates(tenants[0])
    _write_maintenance(users[0], now)
    _write_past(chance, scale, now, people, users, tenants, pools)
    _settle()
    return {
        "tenants": len(tenants),
        "people": len(users),
        "GPUs": Gpu.objects.count(),
        "reservations": Reservation.objects.count(),
        "ledger entries": LedgerEntry.objects.count(),
    }


def _write_past(chance, scale, now, people, users, tenants, pools) -> None:
    """Reservations and all that follows from them."""
    askers = list(_askers(people, users, tenants, sorted(pools)))
    parks = {pool_id: _park(pool) for pool_id, pool in pools.items()}
    uses = make_year(askers, parks, round(RESERVATIONS * scale), now, chance)
    weights = {pool_id: (pools[pool_id], _whole_weight(park)) for pool_id, park in parks.items()}
    borrowed = write_quotas(tenants, weights, uses)
    write_budgets(tenants, uses)
    write_policies(tenants)
    rows = write_reservations(uses, _leads(people, users, tenants), now, borrowed, chance)
    write_waits(uses, rows, now)
    write_series(rows, {tenant.pk: tenant.time_zone for tenant in tenants})
    leases = write_leases(uses, rows, now)
    use_of = dict(zip((row.pk for row in rows), uses, strict=True))
    paired = [(lease, use_of[lease.reservation_id]) for lease in leases]
    write_ledger(paired, dict(Profile.objects.values_list("pk", "name")))
    write_use(paired, Gpu.objects.in_bulk(), now)
    write_trail(rows, uses)
    write_notices(rows, uses, now)


def _settle() -> None:
    """What the sweeps would have done by now: the sums of past days, and the seals of the audit trail."""
    while sum_up():
        pass
    while seal_late_entries():
        pass


def _write_tenants(teams: Sequence[Team], now: dt.datetime) -> list[Tenant]:
    made: list[Tenant] = []
    for team in teams:
        parent = made[team.parent] if team.parent is not None else None
        tenant = Tenant.objects.create(
            name=team.name, code=team.code, hue=team.hue, parent=parent, path=f"new {team.name}",
            time_zone=team.zone, created_at=now - dt.timedelta(days=400),
        )  # fmt: skip
        tenant.path = f"{parent.path if parent else '/'}{tenant.pk}/"
        tenant.save(update_fields=["path"])
        made.append(tenant)
    return made


def _write_people(people: Sequence[Person], tenants: Sequence[Tenant], now: dt.datetime, password: str) -> list[User]:
    """One hash for all, since each costs a third of a second; without a password one that no word fits."""
    encoded = make_password(password or None)
    users = User.objects.bulk_create(
        User(email=person.email, name=person.name, language=person.language, time_zone=person.zone,
             is_active=person.active, password=encoded, created_at=now - dt.timedelta(days=390))
        for person in people
    )  # fmt: skip
    Membership.objects.bulk_create(
        Membership(user=user, tenant=tenants[place], role=role)
        for user, person in zip(users, people, strict=True)
        for place, role in person.roles
    )
    return users


def _write_fleet(now: dt.datetime) -> dict[int, Pool]:
    """Pools and nodes by hand, GPUs and profiles as the drivers report them, on the same path as an agent's report."""
    told = facts_of_the_fleet()
    pools = {}
    for machines in FLEET:
        pool = Pool.objects.create(name=machines.pool, created_at=now - dt.timedelta(days=395))
        for name in machines.names:
            node = Node.objects.create(
                name=name, pool=pool, enrolled_at=now - dt.timedelta(days=380), last_seen_at=now, simulated=True,
                agent_version="1", driver_version="simulated", engine="process", boot_id=f"boot of {name}",
            )  # fmt: skip
            record_gpus(node, told[name])
        pool.refresh_from_db()
        pools[pool.pk] = pool
    Node.objects.filter(name=FLEET[-1].names[-1]).update(state=NodeState.CORDONED)
    return pools


def _write_templates(root: Tenant) -> None:
    Template.objects.bulk_create(
        Template(tenant=root, name=name, summary=summary, command=["python3", "-m", module], position=position)
        for position, (name, summary, module) in enumerate(
            (("Training run", "Steps and loss in the log", "train"), ("Notebook", "A kernel that waits", "notebook"),
             ("Evaluation", "Figures of a trained model", "evaluate"))
        )
    )  # fmt: skip


def _write_maintenance(admin: User, now: dt.datetime) -> None:
    """Of the node that is cordoned and so has no leases: one that was, and one that is ahead."""
    node = Node.objects.get(name=FLEET[-1].names[-1])
    before, ahead = now - dt.timedelta(days=30), now + dt.timedelta(days=3)
    length = dt.timedelta(hours=6)
    Maintenance.objects.create(
        node=node, during=DateTimeTZRange(before, before + length), reason="New driver", created_by=admin,
        created_at=before - dt.timedelta(days=9), started_at=before, ended_at=before + length,
    )  # fmt: skip
    Maintenance.objects.create(
        node=node, during=DateTimeTZRange(ahead, ahead + length), reason="New power supply", created_by=admin
    )


def _askers(people, users, tenants, pool_ids: list[int]) -> Iterator[Asker]:
    """Everybody who may reserve and has not left, in each of their tenants."""
    for person, user in zip(people, users, strict=True):
        for place, role in person.roles:
            if role in MAY_RESERVE and person.active:
                yield Asker(user.pk, tenants[place].pk, person.zone, tuple(pool_ids))


def _leads(people, users, tenants: Sequence[Tenant]) -> dict[int, int]:
    """Tenant -> a person who may decide there: the nearest lead or admin on the way up."""
    own = {
        tenants[place].pk: user.pk
        for person, user in zip(people, users, strict=True)
        for place, role in person.roles
        if role in (Role.LEAD, Role.ADMIN)
    }
    return {tenant.pk: next(own[pk] for pk in reversed(tenant.ancestor_ids) if pk in own) for tenant in tenants}


def _park(pool: Pool) -> Park:
    """Plain profiles only: those with media engines are rare, and a GPU takes only one of them."""
    profiles = Profile.objects.filter(gpu_model=pool.gpu_model, mig=bool(pool.mig)).exclude(name__contains="+")
    shapes = tuple(Shape(row.pk, row.size, tuple(row.starts), row.weight) for row in profiles.order_by("pk"))
    gpus = pool.gpus.filter(node__state=NodeState.READY).order_by("pk").values_list("pk", "memory_slices")
    return Park(pool.pk, shapes, tuple(gpus))


def _whole_weight(park: Park) -> int:
    return len(park.gpus) * max(shape.weight for shape in park.shapes)
