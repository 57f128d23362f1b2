"""The beat table, the tasks behind it, and workers that hear."""

import ast
import contextlib
import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
from django.conf import settings
from django.db import connection, connections
from redis import Redis

from agents import protocol
from portal.celery import app
from portal.inventory.models import Node
from portal.live.database import in_database
from portal.reservations.models import IdempotencyKey
from scheduler.tasks.beat import BEAT_SCHEDULE
from scheduler.tasks.dispatch import push_desired
from scheduler.tasks.locks import only_one
from scheduler.tasks.sweeps import forget_old, freeze_due, push_behind, sweep
from scheduler.tasks.watchdog import DEAF_SECONDS, Watchdog
from tests.factories import make_user
from tests.live.parts import a_lease, handed, hello, said, some_nodes

ROOT = Path(__file__).resolve().parents[2]


def test_every_entry_of_the_beat_table_is_a_task_with_an_interval():
    app.loader.import_default_modules()
    for name, entry in BEAT_SCHEDULE.items():
        assert entry["task"] in app.tasks, name
        assert isinstance(entry["schedule"], int | float), "a crontab goes wrong when clocks change"
        assert entry["schedule"] <= entry["options"]["expires"]
    assert app.conf.beat_schedule == BEAT_SCHEDULE
    assert set(settings.CELERY_TASK_ROUTES) <= set(app.tasks), "a route of no task sends nothing anywhere"


def test_no_task_is_ever_sent_with_an_eta_or_a_countdown():
    told = [
        f"{path.relative_to(ROOT)}:{node.value.lineno}"
        for folder in ("portal", "scheduler")
        for path in (ROOT / folder).rglob("*.py")
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.keyword) and node.arg in ("eta", "countdown")
    ]
    assert not told


@pytest.mark.django_db(transaction=True)
def test_a_sweep_runs_in_one_place_at_a_time():
    inside, done, ran = threading.Event(), threading.Event(), []

    def hold() -> None:
        with only_one("alone") as ours:
            assert ours
            inside.set()
            done.wait(10)
        connection.close()

    holder = threading.Thread(target=hold)
    holder.start()
    assert inside.wait(10)
    assert sweep("alone", lambda: ran.append(1) or 0) == 0
    assert ran == []
    done.set()
    holder.join(10)
    sweep("alone", lambda: ran.append(1) or 0)
    assert ran == [1]


@pytest.mark.django_db
def test_a_sweep_goes_on_while_it_finds_something_and_gives_its_lock_back():
    left = [200, 200, 17, 0, 5]
    assert sweep("many", lambda: left.pop(0)) == 417
    with only_one("many") as ours:
        assert ours


@pytest.mark.django_db
def test_a_sweep_that_is_late_stops_after_its_ten_seconds(monkeypatch):
    now = iter(range(0, 1000, 4))
    monkeypatch.setattr(time, "monotonic", lambda: float(next(now)))
    assert sweep("endless", lambda: 200) == 400


@pytest.mark.django_db
def test_what_is_old_is_forgotten():
    user = make_user()
    for key, created_at in (("old", "2020-01-01T00:00Z"), ("new", None)):
        row = IdempotencyKey.objects.create(user=user, key=key, request_hash="x")
        if created_at:
            IdempotencyKey.objects.filter(pk=row.pk).update(created_at=created_at)
    assert forget_old() == 1
    assert IdempotencyKey.objects.get().key == "new"


@pytest.mark.django_db(transaction=True)
async def test_a_pushed_document_and_one_that_was_missed_reach_the_agent(as_agent, credential_of):
    (node,) = await in_database(some_nodes)()
    socket = as_agent(await in_database(credential_of)(node))
    await socket.connect()
    await socket.send(await in_database(hello)(node))
    await said(socket, protocol.Desired)
    lease = await in_database(a_lease)(node)
    await in_database(push_desired)(node.pk)
    await handed(socket, lease)
    await in_database(Node.objects.filter(pk=node.pk).update)(generation=5, silent_since=None)
    assert await in_database(push_behind)() == 1
    assert (await said(socket, protocol.Desired, within_seconds=3)).generation == 5


@pytest.mark.django_db
def test_a_sweep_without_work_costs_little(django_assert_max_num_queries):
    with django_assert_max_num_queries(4):
        assert freeze_due() == 0


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def watched(looks: list[float], sing=lambda: None, busy=lambda: False) -> list[bool]:
    """What the watchdog finds at these moments when no canary is ever received."""
    clock = Clock()
    watchdog = Watchdog(sing, busy, clock)
    found = []
    for clock.now in looks:
        found.append(watchdog.is_deaf())
    return found


def test_a_worker_that_hears_nothing_for_two_minutes_is_deaf():
    assert watched([30, 90, 120, 121]) == [False, False, False, True]
    assert DEAF_SECONDS == 120


def test_a_worker_that_hears_its_canary_is_well():
    clock = Clock()
    watchdog = Watchdog(lambda: None, lambda: False, clock)
    for clock.now in range(0, 1000, 30):
        watchdog.hear()
        assert not watchdog.is_deaf()


def test_a_worker_is_not_deaf_because_the_broker_is_away_or_a_task_is_long():
    def unreachable() -> None:
        raise OSError("no broker")

    assert not any(watched([100, 200, 300], sing=unreachable))
    assert not any(watched([100, 200, 300], busy=lambda: True))


@pytest.fixture
def worker(tmp_path):
    """A real worker process on the test's broker and database."""
    log = tmp_path / "worker.log"
    database = connections["default"].settings_dict
    environment = os.environ | {"PYTHONUNBUFFERED": "1"}
    where = database["HOST"].replace("/", "%2F")
    environment["DATABASE_URL"] = f"postgres://{database['USER']}:{database['PASSWORD']}@{where}/{database['NAME']}"
    command = [sys.executable, "-m", "celery", "-A", "portal.celery:app", "worker", "-c", "1", "-l", "info",
               "-Q", "control", "--without-gossip", "--without-mingle"]  # fmt: skip
    with open(log, "wb") as output:
        process = subprocess.Popen(command, cwd=ROOT, env=environment, stdout=output, stderr=output)
    try:
        wait_for(lambda: b" ready." in log.read_bytes(), log)
        yield log
    finally:
        process.terminate()
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(30)
        process.kill()


def wait_for(condition, log: Path, within_seconds: float = 60) -> None:
    deadline = time.monotonic() + within_seconds
    while not condition():
        assert time.monotonic() < deadline, log.read_text()[-3000:]
        time.sleep(0.1)


@pytest.mark.stack
@pytest.mark.django_db(transaction=True)
def test_a_worker_goes_on_after_its_connections_are_reset_again_and_again(worker):
    for number in range(1, 6):
        with Redis.from_url(settings.REDIS_STORE_URL) as redis:
            redis.execute_command("CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes")
        app.send_task("scheduler.push_desired", args=[number])
        wait_for(lambda number=number: worker.read_text().count("push_desired") >= 2 * number, worker)
