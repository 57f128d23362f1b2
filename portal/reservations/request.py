"""What is asked for, before anything is decided."""

from dataclasses import dataclass

from psycopg2.extras import DateTimeTZRange

from portal.accounts.models import User
from portal.inventory.models import Pool, Profile
from portal.reservations.models import Reservation
from portal.tenants.models import Tenant
from portal.workloads.drafts import WorkloadDraft


@dataclass(frozen=True)
class Request:
    """A claim to be checked: by ``created_by`` on behalf of ``owner``.

    ``instead_of`` is the reservation that asks for another window: what it holds, costs and counts is left out of every
    sum, and it keeps the weight it was booked with. ``workload`` None is one that was accepted before. With ``people``
    the same is asked for each of so many at once, all or none: a class, of which ``owner`` is the first. ``node_id`` is
    the only node that will do, and its leases stay there. ``together``: whether the ranks work as one group; where
    nobody says so, several whole GPUs do.
    """

    created_by: User
    owner: User
    tenant: Tenant
    pool: Pool
    profile: Profile
    ranks: int
    during: DateTimeTZRange
    workload: WorkloadDraft | None = None
    instead_of: Reservation | None = None
    people: int = 1
    node_id: int | None = None
    together: bool | None = None

    @property
    def weight_each(self) -> int:
        return self.instead_of.weight if self.instead_of else self.profile.weight

    @property
    def weight_of_owner(self) -> int:
        """Of all ranks that one person gets."""
        return self.weight_each * self.ranks

    @property
    def weight(self) -> int:
        """Of all ranks together."""
        return self.weight_of_owner * self.people

    @property
    def has_started(self) -> bool:
        return self.instead_of is not None and self.instead_of.during.lower == self.during.lower


def price_of(request: Request, during: DateTimeTZRange) -> int:
    """Weighted slice-seconds of the whole window."""
    return request.weight * int((during.upper - during.lower).total_seconds())


def request_again(reservation: Reservation, during: DateTimeTZRange, created_by: User) -> Request:
    """The same reservation in another window."""
    return Request(
        created_by=created_by,
        owner=reservation.owner,
        tenant=reservation.tenant,
        pool=reservation.pool,
        profile=reservation.profile,
        ranks=reservation.ranks,
        during=during,
        instead_of=reservation,
        node_id=reservation.pinned_node_id,
        together=reservation.together,
    )
