"""The output of the workloads that somebody is reading, as far as it is new."""

import logging
import time
from collections.abc import Callable

from agents.complaints import Complaints
from agents.containers.contract import Engine, EngineError
from agents.logtext import plain_text
from agents.protocol import LOG_TAIL_BYTES, LogChunk

log = logging.getLogger(__name__)

WATCH_SECONDS = 60.0
CHUNK_BYTES = LOG_TAIL_BYTES // 2


class LogWatch:
    """Remembers who is watched and how far each was read. A new reader gets the tail first."""

    def __init__(self, engine: Engine, steady: Callable[[], float] = time.monotonic) -> None:
        self._engine = engine
        self._steady = steady
        self._complaints = Complaints(log)
        self._until = 0.0
        self._watched: frozenset[int] = frozenset()
        self._offsets: dict[int, int] = {}

    def watch(self, lease_ids: tuple[int, ...]) -> None:
        """Replaces the last list, for a minute. A lease that is new in the list is read from its tail."""
        self._watched = frozenset(lease_ids)
        self._until = self._steady() + WATCH_SECONDS
        self._offsets = {lease: offset for lease, offset in self._offsets.items() if lease in self._watched}

    def read_new(self) -> list[LogChunk]:
        """At most one chunk a lease. A reader that is far behind skips to the tail."""
        watched = self._watched
        if not watched or self._steady() > self._until:
            self._offsets.clear()
            return []
        chunks = []
        try:
            for running in self._engine.running():
                if running.lease_id in watched:
                    offset = self._offsets.get(running.lease_id, -1)
                    begin, data = self._engine.log(running, offset, CHUNK_BYTES)
                    data = _whole_characters(data)
                    self._offsets[running.lease_id] = begin + len(data)
                    if data:
                        chunks.append(LogChunk(lease_id=running.lease_id, offset=begin, text=plain_text(data)))
        except (EngineError, OSError) as refusal:
            self._complaints.say(f"output cannot be read: {refusal}")
        return chunks


def _whole_characters(data: bytes) -> bytes:
    """Leave the beginning of a character that is not complete yet for the next time."""
    for back in range(1, min(4, len(data) + 1)):
        byte = data[-back]
        if byte & 0xC0 == 0x80:
            continue
        needed = 4 if byte >= 0xF0 else 3 if byte >= 0xE0 else 2 if byte >= 0xC0 else 1
        return data[:-back] if needed > back and len(data) > back else data
    return data
