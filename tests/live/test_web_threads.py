"""Requests one after another share a thread, and so its connection to the database; those at once have one each."""

import asyncio
import threading

import pytest
from asgiref.sync import sync_to_async
from django.core.signals import request_finished
from django.db import connection, connections

from portal import web_threads
from portal.asgi import pages
from portal.web_threads import WithKeptThreads

SIGN_IN = {
    "type": "http", "asgi": {"version": "3.0"}, "http_version": "1.1", "method": "GET", "path": "/password/reset/done/",
    "raw_path": b"/password/reset/done/", "query_string": b"", "root_path": "", "scheme": "http",
    "headers": [(b"host", b"127.0.0.1")], "client": ("127.0.0.1", 1), "server": ("127.0.0.1", 80),
}  # fmt: skip


async def ask(application) -> int:
    told, heard = [], asyncio.Event()

    async def receive() -> dict:
        if heard.is_set():
            await asyncio.Event().wait()
        heard.set()
        return {"type": "http.request", "body": b"", "more_body": False}

    async def send(message: dict) -> None:
        told.append(message)

    await application(SIGN_IN, receive, send)
    return told[0]["status"]


@pytest.mark.django_db(transaction=True)
async def test_a_connection_outlives_its_request(monkeypatch):
    monkeypatch.setitem(connections.settings["default"], "CONN_MAX_AGE", 60)
    used = []

    def note(**_) -> None:
        connection.ensure_connection()
        used.append((threading.get_ident(), connection.connection.info.backend_pid))

    request_finished.connect(note)
    try:
        assert [await ask(pages) for _ in range(4)] == [200] * 4
    finally:
        request_finished.disconnect(note)
        while pages._free:
            pages._free.pop().submit(connections.close_all).result(10)
    assert len(used) == 4 and len(set(used)) == 1


async def test_requests_at_once_never_wait_for_each_others_thread(monkeypatch):
    monkeypatch.setattr(web_threads, "KEPT", 2)
    everybody = threading.Barrier(5)

    async def application(scope, receive, send) -> None:
        await sync_to_async(everybody.wait)(10)

    kept = WithKeptThreads(application)
    for _ in range(2):
        await asyncio.gather(*(kept(None, None, None) for _ in range(5)))
        assert len(kept._free) == 2
