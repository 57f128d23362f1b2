"""Going along the chain again: every entry still says what it said when it was sealed."""

import datetime as dt
from collections.abc import Iterator
from dataclasses import dataclass

from django.utils import timezone

from portal.audit.chain import FIRST_LINK, entry_hash
from portal.audit.models import AuditEntry, AuditSeal
from portal.audit.sealing import unsealed

ROWS_AT_ONCE = 1000
SEALED_WITHIN = dt.timedelta(minutes=1)


class ChainBroken(Exception):
    """The chain holds up to the position before this one."""

    def __init__(self, position: int, why: str):
        super().__init__(f"position {position}: {why}")
        self.position = position
        self.why = why


@dataclass(frozen=True)
class Verified:
    """``count`` entries hold, up to ``position``, whose hash is ``head``."""

    count: int
    position: int
    head: str


def verify_chain(*, since: int = 1, head: str = "") -> Verified:
    """Recompute every hash from position ``since`` on; what lies before is believed. Raises :class:`ChainBroken`.

    ``head`` is a hash that was noted down earlier: it has to be met on the way. Memory is bounded by 1,000 entries.
    """
    position, link = _start(since)
    met, count = head in ("", link), 0
    for seal, entry in _sealed_after(position):
        position += 1
        _check(position, link, seal, entry)
        link, count = seal.hash, count + 1
        met = met or link == head
    if not met:
        raise ChainBroken(position + 1, f"the chain ends and {head} was not met: it was cut off or written anew")
    _check_nothing_waits(position)
    return Verified(count, position, link)


def _start(since: int) -> tuple[int, str]:
    if since <= 1:
        return 0, FIRST_LINK
    before = AuditSeal.objects.filter(position=since - 1).first()
    if before is None:
        raise ChainBroken(since - 1, "its seal is missing")
    return before.position, before.hash


def _sealed_after(position: int) -> Iterator[tuple[AuditSeal, AuditEntry | None]]:
    while seals := list(AuditSeal.objects.filter(position__gt=position).order_by("position")[:ROWS_AT_ONCE]):
        entries = AuditEntry.objects.in_bulk([seal.entry_id for seal in seals])
        for seal in seals:
            yield seal, entries.get(seal.entry_id)
        position = seals[-1].position


def _check(position: int, link: str, seal: AuditSeal, entry: AuditEntry | None) -> None:
    if seal.position != position:
        raise ChainBroken(position, "its seal is missing")
    if seal.previous_hash != link:
        raise ChainBroken(position, "broken link: it does not follow the hash before it")
    if entry is None:
        raise ChainBroken(position, f"entry {seal.entry_id} is missing")
    if entry_hash(link, entry) != seal.hash:
        raise ChainBroken(position, f"entry {entry.pk} ({entry}) was changed after it was sealed")


def _check_nothing_waits(position: int) -> None:
    waiting = unsealed().filter(at__lt=timezone.now() - SEALED_WITHIN)
    first = waiting.first()
    if first is not None:
        raise ChainBroken(
            position + 1, f"unsealed for more than a minute: {waiting.count()}, the first is entry {first.pk}"
        )
