"""What is booked: one slice for everybody, or a thousand GPUs for twenty tenants."""

from dataclasses import dataclass

from django.db import connection

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.tenants.models import Tenant
from tests.factories import make_pool_with_gpus, make_quota, make_tenant, make_user

CLIENTS, TENANTS, GPUS, GPUS_A_NODE = 64, 20, 1000, 8
WEIGHT = 7
NEVER_SHARED = (
    "SELECT count(*) FROM reservations_lease a JOIN reservations_lease b ON a.id < b.id AND a.gpu_id = b.gpu_id"
    " AND a.span && b.span AND a.during && b.during"
    " WHERE a.state IN ('planned', 'starting', 'active', 'stopping')"
    " AND b.state IN ('planned', 'starting', 'active', 'stopping')"
)


@dataclass(frozen=True)
class World:
    """Rows of the database by id, so that it can be handed to another process. Client n acts as ``people[n]``."""

    people: tuple[tuple[int, int], ...]  # (user, tenant)
    last_pool: int
    wide_pool: int

    def asker(self, number: int) -> tuple[User, Tenant]:
        user_id, tenant_id = self.people[number]
        return User.objects.get(pk=user_id), Tenant.objects.get(pk=tenant_id)


def make_world() -> World:
    """Each tenant is guaranteed a twentieth of all GPUs; they are full before any limit is met. Budgets are none's."""
    root = make_tenant("bench")
    last, wide = make_pool_with_gpus("H100", 1), make_pool_with_gpus("H100", GPUS, nodes=GPUS // GPUS_A_NODE)
    tenants = [make_tenant(f"tenant-{number}", root) for number in range(TENANTS)]
    for pool, gpus in ((last, 1), (wide, GPUS)):
        limit = WEIGHT * gpus * CLIENTS
        make_quota(root, pool, limit)
        for tenant in tenants:
            make_quota(tenant, pool, limit, guaranteed=WEIGHT * gpus // TENANTS)
    people = tuple(
        (make_user(f"client-{number}", tenants[number % TENANTS]).pk, tenants[number % TENANTS].pk)
        for number in range(CLIENTS)
    )
    with connection.cursor() as cursor:
        cursor.execute("ANALYZE")
    return World(people, last.pk, wide.pk)


def profiles(pool: Pool) -> dict[str, Profile]:
    return {row.name: row for row in Profile.objects.filter(gpu_model=pool.gpu_model, mig=pool.mig)}


def clear() -> None:
    """Every reservation gone, so that the next measurement finds what this one found."""
    with connection.cursor() as cursor:
        cursor.execute("TRUNCATE reservations_reservation CASCADE")


def double_bookings() -> int:
    with connection.cursor() as cursor:
        cursor.execute(NEVER_SHARED)
        return int(cursor.fetchone()[0])
