"""Where the embedded servers keep their data and sockets. Imports no Django: the settings read this file."""

import hashlib
import json
import os
import secrets
from dataclasses import dataclass
from pathlib import Path

SOCKET_PATH_LIMIT_BYTES = 107  # sun_path of Linux, less its NUL
SERVER_UID_AS_ROOT = 65534  # PostgreSQL refuses to run as root


@dataclass(frozen=True)
class Places:
    """The folders of one Berth. ``servers`` holds data and sockets; as root it belongs to an unprivileged uid."""

    home: Path
    servers: Path

    @property
    def postgres_data(self) -> Path:
        return self.servers / "postgres"

    @property
    def sockets(self) -> Path:
        return self.servers / "run"

    @property
    def valkey_data(self) -> Path:
        return self.servers / "valkey"

    @property
    def valkey_socket(self) -> Path:
        return self.sockets / "valkey.sock"

    @property
    def logs(self) -> Path:
        return self.home / "logs"

    @property
    def secrets_file(self) -> Path:
        return self.home / "secrets.json"


def places_of(home: Path) -> Places:
    """Data lies under ``home``, or elsewhere when a socket's path would be too long or, as root, a parent is closed."""
    home = home.resolve()
    servers = home / "servers"
    longest = len(os.fsencode(servers / "run" / ".s.PGSQL.5432.lock"))
    if longest > SOCKET_PATH_LIMIT_BYTES or (os.geteuid() == 0 and not _open_to_all(home)):
        servers = Path("/var/tmp") / f"berth-{hashlib.sha256(os.fsencode(home)).hexdigest()[:12]}"
    return Places(home=home, servers=servers)


def read_secrets(places: Places) -> dict[str, str]:
    """The installation's own secrets; made once, readable by the owner alone."""
    places.home.mkdir(parents=True, exist_ok=True)
    if not places.secrets_file.exists():
        made = {name: secrets.token_urlsafe(48) for name in ("secret_key", "database_password")}
        scratch = places.secrets_file.with_suffix(f".{os.getpid()}")
        with open(os.open(scratch, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600), "w") as file:
            json.dump(made, file)
        try:
            os.link(scratch, places.secrets_file)  # the first of two starting processes wins
        except FileExistsError:
            pass
        finally:
            scratch.unlink()
    return json.loads(places.secrets_file.read_text())


def _open_to_all(folder: Path) -> bool:
    return all(parent.stat().st_mode & 0o001 for parent in (folder, *folder.parents) if parent.exists())
