"""Late binding: leases that no node knows of go to other places, so that one more fits. Their windows stay.

Nobody's promise changes, so nobody is bothered: the audit trail says what was moved and why, open pages draw anew. Call
under the pool's lock, before anything is bound to what becomes free.
"""

from collections.abc import Sequence

from django.db import OperationalError, connection

from portal.audit.services import record_change
from portal.inventory.models import Pool
from portal.reservations.models import LeaseState, Reservation
from portal.reservations.telling import tell_pages
from scheduler.placement.trial import Move

# All at once: the constraint looks when the statement is through, so that two may change places.
MOVE = f"""
UPDATE reservations_lease AS l SET gpu_id = m.gpu_id, span = int4range(m.first, m.last)
FROM unnest(%s::bigint[], %s::bigint[], %s::int[], %s::int[]) AS m (id, gpu_id, first, last)
WHERE l.id = m.id AND l.state = '{LeaseState.PLANNED}' AND l.frozen_at IS NULL
RETURNING l.reservation_id
"""


class NotMovable(OperationalError):
    """A lease was frozen, or is over, since it was looked at: whoever wanted it moved looks again."""


def rearrange(pool: Pool, moves: Sequence[Move], because: str) -> None:
    """Carry out all moves, or raise :class:`NotMovable`. ``because`` is what it is done for, as the audit names it."""
    if not moves:
        return
    with connection.cursor() as cursor:
        columns = zip(*((move.key, move.gpu_id, move.start, move.end) for move in moves), strict=True)
        cursor.execute(MOVE, list(map(list, columns)))
        found = cursor.fetchall()
    if len(found) != len(moves):
        raise NotMovable(f"{len(moves) - len(found)} of {len(moves)} leases cannot be moved any more")
    record_change(
        actor=None, action="pool.rearranged", subject=pool.name,
        after={"because": because, "moves": [f"{move.key}: {move.gpu_id} {move.start}:{move.end}" for move in moves]},
    )  # fmt: skip
    for reservation in Reservation.objects.filter(pk__in={reservation_id for (reservation_id,) in found}):
        tell_pages(reservation)
