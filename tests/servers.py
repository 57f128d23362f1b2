"""pytest plugin (loaded by ``-p`` before Django is set up): real PostgreSQL and Valkey for the run.

DATABASE_URL and REDIS_URL select servers that run already; else embedded ones are started in BERTH_HOME, or in a
scratch folder, and stopped at the end. With pytest-xdist the workers share the controller's PostgreSQL, where each has
a database of its own, and start a Valkey each, since channels and keys carry ids that repeat between databases.
"""

import atexit
import os
import shutil
import tempfile
from pathlib import Path

from portal.demo.places import places_of
from portal.demo.servers import start_postgres, start_valkey, stop_postgres, stop_valkey


def _start() -> None:
    if "PYTEST_XDIST_WORKER" in os.environ:
        if not os.environ.get("REDIS_URL"):
            _start_own_valkey()
        return
    if os.environ.get("DATABASE_URL"):
        return
    kept = os.environ.get("BERTH_HOME")
    home = Path(kept) if kept else Path(tempfile.mkdtemp(prefix="berth-test-"))
    os.environ["BERTH_HOME"] = str(home)
    home.mkdir(parents=True, exist_ok=True)
    home.chmod(0o755)
    places = places_of(home)
    postgres, valkey = start_postgres(places), start_valkey(places)

    def stop() -> None:
        stop_valkey(valkey)
        stop_postgres(postgres)
        if not kept:
            shutil.rmtree(places.servers, ignore_errors=True)
            shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)


def _start_own_valkey() -> None:
    home = Path(tempfile.mkdtemp(prefix="berth-test-"))
    home.chmod(0o755)
    places = places_of(home)
    valkey = start_valkey(places)
    os.environ["REDIS_URL"] = f"unix://{places.valkey_socket}"

    def stop() -> None:
        stop_valkey(valkey)
        shutil.rmtree(places.servers, ignore_errors=True)
        shutil.rmtree(home, ignore_errors=True)

    atexit.register(stop)


_start()
