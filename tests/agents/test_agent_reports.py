"""What an agent tells of its own accord."""

import asyncio

from agents.agent import Agent, Parts
from agents.boot import boot_id_source
from agents.drivers.opening import open_driver
from agents.enrolment import Identity
from agents.journal import Journal
from agents.protocol import Report
from agents.starting import NoDeviceSpec
from tests.agents.fake_portal import wait_for


async def test_what_is_there_is_told_now_and_then_though_nothing_is_new(node, portal):
    parts = Parts(
        driver=open_driver(node.file), engine=node.engine(), spec=NoDeviceSpec(), journal=Journal(node.state),
        boot_id=boot_id_source(node.file), simulated=True, tell_all_seconds=0.5)
    stop = asyncio.Event()
    running = asyncio.create_task(Agent(Identity(portal.url, 1, "node", "secret"), parts).run(stop, False))
    try:
        await asyncio.to_thread(wait_for, lambda: len(portal.of(Report)) >= 6, 20)
    finally:
        stop.set()
        await running
    assert portal.of(Report)[-1] == portal.of(Report)[-2]
