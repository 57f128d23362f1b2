"""A workload's output on disk, capped: a few files, each named by the offset of its first byte."""

import os
from pathlib import Path

FILE_BYTES = 20 * 1000 * 1000
FILES_KEPT = 3


class LogWriter:
    """Appends and rotates; never holds more than ``FILES_KEPT`` files of ``FILE_BYTES``."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        folder.mkdir(parents=True, exist_ok=True)
        files = _files(folder)
        self._offset = files[-1][0] + files[-1][1].stat().st_size if files else 0
        self._open()

    def write(self, data: bytes) -> None:
        while data:
            room = FILE_BYTES - self._size
            if room <= 0:
                self.close()
                self._open()
                continue
            written = os.write(self._descriptor, data[:room])
            self._size += written
            self._offset += written
            data = data[written:]

    def close(self) -> None:
        os.close(self._descriptor)

    def _open(self) -> None:
        path = self._folder / f"{self._offset:016d}.log"
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC, 0o600)
        self._size = 0
        for _, path in _files(self._folder)[:-FILES_KEPT]:
            path.unlink(missing_ok=True)


def read_log(folder: Path, offset: int, limit: int) -> tuple[int, bytes]:
    """Where the bytes begin and up to ``limit`` of them; see :meth:`agents.containers.contract.Engine.log`."""
    files = [(start, path, path.stat().st_size) for start, path in _files(folder)]
    if not files:
        return 0, b""
    end = files[-1][0] + files[-1][2]
    offset = max(files[0][0], min(end, end - limit if offset < 0 else offset))
    pieces = []
    wanted = limit
    for start, path, size in files:
        if wanted and start <= offset + limit - wanted < start + size:
            with open(path, "rb") as file:
                file.seek(offset + limit - wanted - start)
                pieces.append(file.read(wanted))
            wanted -= len(pieces[-1])
    return offset, b"".join(pieces)


def _files(folder: Path) -> list[tuple[int, Path]]:
    return sorted((int(path.stem), path) for path in folder.glob("*.log") if path.stem.isdigit())
