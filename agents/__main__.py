"""``python -m agents check`` tells whether this machine can be a node, ``enrol`` joins a portal, ``run`` serves.

TERM or INT stops the agent and leaves the workloads running: the next agent adopts them, so that an update costs no
researcher an hour. ``--stop-workloads`` ends them first, each with its grace, for a stack that is torn down as a whole.
"""

import asyncio
import fcntl
import logging
import os
import signal
import sys
import time
from collections.abc import Callable
from pathlib import Path

from agents.agent import Agent, Parts
from agents.boot import boot_id_source
from agents.cluster import Cluster, find_cluster
from agents.containers.cdi import CdiSpec, simulated_spec, toolkit_spec
from agents.containers.contract import Engine, EngineError
from agents.containers.podman import PodmanEngine
from agents.containers.podman_spec import Hardening
from agents.containers.process import ProcessEngine
from agents.drivers.contract import DriverError, GpuDriver
from agents.drivers.opening import open_driver
from agents.enrolment import EnrolmentFailed, Identity, enrol, read_identity
from agents.journal import Journal
from agents.selftest import report, self_test
from agents.settings import RunSettings, enrol_settings, parse, portal_address, run_settings
from agents.starting import DeviceSpec, NoDeviceSpec

log = logging.getLogger("agents")

_MOST_WAIT_SECONDS = 15.0


def main(arguments: list[str]) -> int:
    """The exit status; what went wrong is one sentence on standard error."""
    options = parse(arguments)
    try:
        if options.verb == "enrol":
            portal, token, state = enrol_settings(options)
            identity = enrol(portal, token, state, options.name)
            sys.stdout.write(f"Joined {identity.portal} as node {identity.node_name}.\n")
        elif options.verb == "check":
            findings = self_test(run_settings(options), portal_address(options.portal))
            sys.stdout.write(report(findings))
            return 1 if any(finding.verdict == "fail" for finding in findings) else 0
        else:
            _run(run_settings(options))
    except (ValueError, OSError, EnrolmentFailed, DriverError, EngineError) as error:
        sys.stderr.write(f"{error}\n")
        return 1
    return 0


def _run(settings: RunSettings) -> None:
    logging.basicConfig(level=logging.INFO, format="%(asctime)s %(levelname)s %(name)s: %(message)s")
    identity = read_identity(settings.state, settings.portal)
    lock = _sole_agent(settings.state)
    try:
        cluster = _cluster(settings, identity)
        engine, spec = _engine(settings, identity, cluster)
        parts = Parts(
            driver=_driver(settings), engine=engine, spec=spec, journal=Journal(settings.state),
            boot_id=boot_id_source(settings.simulate), simulated=settings.simulate is not None,
            driver_seconds=settings.driver_seconds, cluster=cluster, limits=settings.limits)
        asyncio.run(_serve(Agent(identity, parts), settings.stop_workloads))
    finally:
        os.close(lock)


async def _serve(agent: Agent, stop_workloads: bool) -> None:
    stop = asyncio.Event()
    loop = asyncio.get_running_loop()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stop.set)
    await agent.run(stop, stop_workloads)
    log.info("the agent has stopped")


def _driver(settings: RunSettings) -> GpuDriver:
    """Until the driver is there: one that is missing at boot must not keep the node down for ever."""
    wait_seconds = 1.0
    while True:
        try:
            return open_driver(settings.simulate)
        except DriverError as refusal:
            if settings.simulate is not None:
                raise
            log.warning("the driver cannot be opened: %s; next try in %.0f s", refusal, wait_seconds)
        time.sleep(wait_seconds)
        wait_seconds = min(_MOST_WAIT_SECONDS, 2 * wait_seconds)


def _cluster(settings: RunSettings, identity: Identity) -> Callable[[], Cluster]:
    """Looked up whenever it is asked for: addresses may come late and change."""
    network = settings.engine == "process" or settings.group_network != "none"
    return lambda: find_cluster(identity.portal, settings.cluster_address, settings.cluster_interface, network)


def _engine(
    settings: RunSettings, identity: Identity, cluster: Callable[[], Cluster]
) -> tuple[Engine, DeviceSpec]:
    def interface() -> str:
        return cluster().interface

    if settings.engine == "process":
        return ProcessEngine(settings.state, interface), NoDeviceSpec()
    spec = CdiSpec(settings.cdi_dir, str(identity.node_id), simulated_spec if settings.simulate else toolkit_spec)
    hardening = Hardening(user=settings.user, network=settings.network, group_network=settings.group_network)
    return PodmanEngine(settings.podman_url, str(identity.node_id), spec, hardening, settings.pull, interface), spec


def _sole_agent(state: Path) -> int:
    """Hold the state folder: two agents on one journal would undo each other's work."""
    lock = os.open(state / "agent.lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
    try:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError as error:
        os.close(lock)
        raise ValueError(f"Another agent works with {state}. Stop it first, or name another folder.") from error
    return lock


def _leave(status: int) -> None:
    """Exit without waiting for threads: a driver call that hangs would hold the interpreter for ever."""
    logging.shutdown()
    sys.stdout.flush()
    sys.stderr.flush()
    os._exit(status)


if __name__ == "__main__":
    _leave(main(sys.argv[1:]))
