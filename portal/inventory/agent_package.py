"""The agent as nodes fetch it: one archive of its sources, byte for byte the same from every web process of a version.

With ``AGENT_WHEELS`` (a folder made by ``pip download -r agents/requirements.txt``) the archive also brings what the
agent needs, so that a node installs it without a package index.
"""

import gzip
import hashlib
import io
import shlex
import tarfile
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from django.conf import settings

RELEASE_DIGITS = 12


@dataclass(frozen=True)
class AgentPackage:
    content: bytes
    sha256: str
    has_wheels: bool

    @property
    def release(self) -> str:
        """What tells one archive from another, short enough for a page."""
        return self.sha256[:RELEASE_DIGITS]


def install_command(token: str = "", name: str = "") -> str:
    """What is typed on a node: with a token to join, without one to update."""
    options = [part for option, value in (("--token", token), ("--name", name)) if value for part in (option, value)]
    after = f" -s -- {shlex.join(options)}" if options else ""
    return f"curl -fsSL {settings.PORTAL_URL}/agent/v1/install.sh | sudo sh{after}"


def is_outdated(agent_version: str) -> bool:
    """Whether an agent that was installed from here is of another release than what is given out now."""
    _, _, release = agent_version.partition("+")
    return bool(release) and release != agent_package().release


@cache
def agent_package() -> AgentPackage:
    """Read once in a process: an update of the portal starts it anew."""
    wheels = sorted(Path(settings.AGENT_WHEELS).glob("*.whl")) if settings.AGENT_WHEELS else []
    agents = settings.BASE_DIR / "agents"
    sources = [path for path in sorted(agents.rglob("*")) if path.is_file() and "__pycache__" not in path.parts]
    files = [(f"agents/{path.relative_to(agents)}", path) for path in sources]
    files += [(f"wheels/{path.name}", path) for path in wheels]
    content = _archive(files)
    return AgentPackage(content, hashlib.sha256(content).hexdigest(), bool(wheels))


def _archive(files: list[tuple[str, Path]]) -> bytes:
    """Without times, owners and modes of this machine."""
    packed = io.BytesIO()
    with gzip.GzipFile(fileobj=packed, mode="wb", mtime=0) as stream, tarfile.open(fileobj=stream, mode="w") as tar:
        for name, path in files:
            body = path.read_bytes()
            entry = tarfile.TarInfo(name)
            entry.size, entry.mode = len(body), 0o644
            tar.addfile(entry, io.BytesIO(body))
    return packed.getvalue()
