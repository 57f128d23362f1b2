"""Podman's k8s-file log as the workload's own bytes. The file is decoded once, as it grows; the newest part is kept."""

from pathlib import Path

_KEPT_BYTES = 256 * 1024
_FIRST_BYTES = 1 << 20
_READ_BYTES = 4 << 20


class FollowedLog:
    """Offsets count the bytes decoded since this agent first looked; they only grow while it lives."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position: int | None = None
        self._rest = b""
        self._kept = b""
        self._end = 0

    def read(self, offset: int, limit: int) -> tuple[int, bytes]:
        """See :meth:`agents.containers.contract.Engine.log`."""
        self._follow()
        oldest = self._end - len(self._kept)
        begin = max(oldest, min(self._end, self._end - limit if offset < 0 else offset))
        return begin, self._kept[begin - oldest:begin - oldest + limit]

    def _follow(self) -> None:
        with open(self._path, "rb") as file:
            size = file.seek(0, 2)
            if self._position is None or size < self._position:
                self._position = max(0, size - _FIRST_BYTES)
                self._rest = b""
                file.seek(self._position)
                if self._position:
                    self._position += len(file.readline())
            file.seek(self._position)
            data = file.read(_READ_BYTES)
        self._position += len(data)
        *lines, self._rest = (self._rest + data).split(b"\n")
        text = b"".join(_content(line) for line in lines)
        self._end += len(text)
        self._kept = (self._kept + text)[-_KEPT_BYTES:]


def _content(line: bytes) -> bytes:
    """``TIME STREAM TAG TEXT``: tag F ends a line, tag P does not."""
    parts = line.split(b" ", 3)
    if len(parts) < 4:
        return b"\n" if len(parts) == 3 and parts[2] == b"F" else b""
    return parts[3] + (b"\n" if parts[2] == b"F" else b"")
