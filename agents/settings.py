"""What the operator set: by options, or by the environment as BERTH_AGENT_*."""

import argparse
import os
from dataclasses import dataclass
from pathlib import Path

from agents.groups.session import Limits

ENGINES = ("podman", "process")
PREFIX = "BERTH_AGENT_"


@dataclass(frozen=True)
class RunSettings:
    """How ``run`` works. ``engine`` process gives no isolation and is used only when it is asked for by name."""

    state: Path
    simulate: Path | None = None
    engine: str = "podman"
    cdi_dir: Path = Path("/etc/cdi")
    podman_url: str = ""
    pull: bool = False
    network: str = "none"
    group_network: str = "none"
    user: str = "1000:1000"
    driver_seconds: float = 30.0
    stop_workloads: bool = False
    portal: str = ""
    cluster_address: str = ""
    cluster_interface: str = ""
    limits: Limits = Limits()


def parse(arguments: list[str]) -> argparse.Namespace:
    """Options win over the environment."""
    parser = argparse.ArgumentParser(prog="python -m agents", description="The Berth agent of a GPU node.")
    verbs = parser.add_subparsers(dest="verb", required=True)
    enrol = verbs.add_parser("enrol", help="join a portal with a one-time token")
    _option(enrol, "portal", help="address of the portal, as https://berth.example.org")
    _option(enrol, "token", help="the enrolment token the portal showed")
    _option(enrol, "state", help="folder for this node's identity and journal")
    _option(enrol, "name", help="how this node calls itself; its host name when left out")
    check = verbs.add_parser("check", help="tell whether this machine can be a node; nothing is changed")
    _option(check, "portal", help="address of the portal, as https://berth.example.org")
    _run_options(check)
    run = verbs.add_parser("run", help="serve this node's GPUs")
    _option(run, "portal", help="address of the portal, where it has moved since this node joined")
    _run_options(run)
    return parser.parse_args(arguments)


def _run_options(run: argparse.ArgumentParser) -> None:
    _option(run, "state", help="folder for this node's identity and journal")
    _option(run, "simulate", help="file of a simulated node, to work without a GPU")
    _option(run, "engine", choices=ENGINES, help="what runs workloads: podman, or process (no isolation)")
    _option(run, "cdi-dir", help="folder of the CDI spec, /etc/cdi when left out")
    _option(run, "podman-url", help="socket of the Podman service, as unix:///run/podman/podman.sock")
    _option(run, "network", help="network of containers: none, or the name of a Podman network")
    _option(run, "group-network", help="network of containers that run over several nodes: none, host, or a Podman "
            "network in which the nodes' addresses reach the containers")
    _option(run, "cluster-address", help="where other nodes reach this one; that towards the portal when left out")
    _option(run, "cluster-interface", help="over which interface; the one with that address when left out")
    _option(run, "group-silence-seconds", help="so long another node of a group may not be heard, 20 when left out")
    _option(run, "group-check-seconds", help="so long the nodes of a group may look for each other, 60 when left out")
    _option(run, "user", help="user and group of containers as UID:GID, 1000:1000 when left out")
    _option(run, "driver-seconds", help="how long one call of the driver may take")
    _flag(run, "pull", help="let Podman fetch images that are not on this machine")
    _flag(run, "stop-workloads", help="end the workloads when the agent stops; else the next agent takes them over")


def run_settings(options: argparse.Namespace) -> RunSettings:
    """Raises ValueError with a sentence for a setting that does not fit."""
    engine = options.engine or "podman"
    if engine not in ENGINES:
        raise ValueError(f"The engine is podman or process, not {engine!r}. Correct {PREFIX}ENGINE.")
    return RunSettings(
        state=_state(options), simulate=Path(options.simulate) if options.simulate else None, engine=engine,
        cdi_dir=Path(options.cdi_dir or "/etc/cdi"),
        podman_url=options.podman_url or os.environ.get("CONTAINER_HOST", ""),
        pull=options.pull, network=options.network or "none", group_network=options.group_network or "none",
        cluster_address=options.cluster_address or "", cluster_interface=options.cluster_interface or "",
        limits=Limits(_seconds(options, "group_silence_seconds", 20), _seconds(options, "group_check_seconds", 60)),
        user=options.user or "1000:1000", driver_seconds=_seconds(options, "driver_seconds", 30),
        stop_workloads=options.stop_workloads, portal=portal_address(options.portal) if options.portal else "")


def _seconds(options: argparse.Namespace, name: str, default: float) -> float:
    value = getattr(options, name) or default
    try:
        return float(value)
    except ValueError as error:
        raise ValueError(f"--{name.replace('_', '-')} is a number, not {value!r}.") from error


def _state(options: argparse.Namespace) -> Path:
    if not options.state:
        raise ValueError(f"Name a folder for the agent's state with --state or {PREFIX}STATE.")
    return Path(options.state)


def enrol_settings(options: argparse.Namespace) -> tuple[str, str, Path]:
    """Portal, token, state folder; raises ValueError with a sentence for one that is missing."""
    portal = portal_address(options.portal)
    if not options.token:
        raise ValueError("Give the enrolment token with --token; the portal shows it when a node is added.")
    return portal, options.token, _state(options)


def portal_address(portal: str | None) -> str:
    """Without a slash at its end; raises ValueError with a sentence for what is none."""
    if not portal or not portal.startswith(("http://", "https://")):
        raise ValueError("Give the portal's address with --portal, as https://berth.example.org.")
    return portal.rstrip("/")


def _option(parser: argparse.ArgumentParser, name: str, **more: object) -> None:
    default = os.environ.get(_variable(name)) or None
    parser.add_argument(f"--{name}", default=default, **more)  # type: ignore[arg-type]


def _flag(parser: argparse.ArgumentParser, name: str, help: str) -> None:
    default = os.environ.get(_variable(name), "").lower() in ("1", "true", "yes")
    parser.add_argument(f"--{name}", action="store_true", default=default, help=help)


def _variable(name: str) -> str:
    return PREFIX + name.upper().replace("-", "_")
