"""Putting entries into the chain, once they are committed. One at a time: whoever seals holds the chain's lock."""

import zlib

from django.db import connection, transaction
from django.db.models import Exists, Max, OuterRef, QuerySet

from portal.audit.chain import FIRST_LINK, entry_hash
from portal.audit.models import AuditEntry, AuditSeal

MOST_ROWS = 500
# How far behind the newest sealed id a quick pass looks for entries that were committed late.
LATE_ROWS = 10_000
CHAIN_LOCK = zlib.crc32(b"berth audit chain")


@transaction.atomic
def seal_entries() -> int:
    """Append committed entries to the chain, oldest id first; returns how many, 500 at most.

    Looks 10,000 ids back; what is committed later than that waits for ``seal_late_entries``.
    """
    _lock_chain()
    newest = AuditSeal.objects.aggregate(newest=Max("entry_id"))["newest"] or 0
    return _seal(unsealed().filter(pk__gt=newest - LATE_ROWS))


@transaction.atomic
def seal_late_entries() -> int:
    """As ``seal_entries``, but looks at every entry there is."""
    _lock_chain()
    return _seal(unsealed())


def unsealed() -> QuerySet[AuditEntry]:
    return AuditEntry.objects.filter(~Exists(AuditSeal.objects.filter(entry=OuterRef("pk")))).order_by("pk")


def chain_head() -> AuditSeal | None:
    """The newest seal: whoever keeps its hash elsewhere can later tell whether anything up to it was changed."""
    return AuditSeal.objects.order_by("-position").first()


def _lock_chain() -> None:
    """Held until the transaction ends; the statements after it see all that the sealer before has committed."""
    with connection.cursor() as cursor:
        cursor.execute("SELECT pg_advisory_xact_lock(%s)", [CHAIN_LOCK])


def _seal(entries: QuerySet[AuditEntry]) -> int:
    head = chain_head()
    first, link = (head.position + 1, head.hash) if head else (1, FIRST_LINK)
    seals = []
    for position, entry in enumerate(entries[:MOST_ROWS], start=first):
        seals.append(AuditSeal(position=position, entry=entry, previous_hash=link, hash=entry_hash(link, entry)))
        link = seals[-1].hash
    AuditSeal.objects.bulk_create(seals)
    return len(seals)
