"""Embedded servers that outlived their supervisor do not stand in the way of the next start."""

import os
import signal
from pathlib import Path

import pytest

from portal.demo.leftovers import end_leftover
from portal.demo.places import places_of
from portal.demo.servers import start_postgres, start_valkey, stop_postgres, stop_valkey


@pytest.fixture
def places(tmp_path_factory):
    home = tmp_path_factory.mktemp("home")
    for folder in (home, *home.parents):
        if folder.stat().st_uid == os.geteuid() and folder != Path("/"):
            folder.chmod(folder.stat().st_mode | 0o011)
    return places_of(home)


def test_servers_left_running_are_ended_and_their_data_is_kept(places):
    left = [start_postgres(places), start_valkey(places)]  # as if their supervisor had been killed: never stopped
    postgres, valkey = start_postgres(places), start_valkey(places)
    try:
        assert [process.wait(30) is not None for process in left] == [True, True]
        assert postgres.poll() is None and valkey.poll() is None
        assert (places.postgres_data / "postmaster.pid").read_text().split()[0] == str(postgres.pid)
    finally:
        stop_valkey(valkey)
        stop_postgres(postgres)


def test_a_killed_valkeys_socket_is_not_taken_for_an_answer(places):
    killed = start_valkey(places)
    killed.kill()
    killed.wait(10)
    assert places.valkey_socket.is_socket()
    valkey = start_valkey(places)
    stop_valkey(valkey)
    assert valkey.returncode == 0


def test_a_number_that_now_belongs_to_another_program_is_left_alone(tmp_path):
    pid_file = tmp_path / "postmaster.pid"
    pid_file.write_text(f"{os.getpid()}\n")
    end_leftover(pid_file, "/no/such/data", signal.SIGKILL)
    pid_file.write_text("nonsense")
    end_leftover(pid_file, "", signal.SIGKILL)
