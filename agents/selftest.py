"""Whether this machine can be a node: looked at before it joins, by ``python -m agents check``.

Each finding is one sentence that says what is so and, where it does not do, what to do.
"""

import datetime as dt
import email.utils
import os
import shutil
import time
import urllib.error
import urllib.request
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Literal

from agents.containers.contract import EngineError
from agents.containers.podman_api import PodmanApi
from agents.drivers.contract import DriverError, GpuDriver
from agents.drivers.opening import open_driver
from agents.settings import RunSettings

Verdict = Literal["ok", "warn", "fail"]

OLDEST_PODMAN = (4, 3)
SKEW_WARN_SECONDS = 2.0
SKEW_FAIL_SECONDS = 30.0
STATE_MIB_LEAST = 200
IMAGES_GIB_WISHED = 20
_CONTROLLERS = frozenset(("cpu", "memory", "pids"))
_CGROUPS = Path("/sys/fs/cgroup/cgroup.controllers")
_PORTAL_SECONDS = 10


@dataclass(frozen=True)
class Finding:
    about: str
    verdict: Verdict
    text: str


def self_test(settings: RunSettings, portal: str) -> tuple[Finding, ...]:
    """One or more findings on each thing that a node needs. Nothing is changed, no instance is made."""
    engine = _process_engine() if settings.engine == "process" else _podman(settings)
    return (_gpus(settings), *engine, _cgroups(settings), _disk(settings), _portal_and_clock(portal))


def report(findings: tuple[Finding, ...]) -> str:
    return "".join(f"{finding.verdict:<5}{finding.about:<10}{finding.text}\n" for finding in findings)


def _gpus(settings: RunSettings) -> Finding:
    """Opening it is timed, too. A driver that hangs holds its thread; the process leaves without waiting for it."""
    looking = ThreadPoolExecutor(1, thread_name_prefix="driver").submit(_look_at_gpus, settings.simulate)
    try:
        return looking.result(settings.driver_seconds)
    except TimeoutError:
        return Finding("driver", "fail", f"The driver did not answer within {settings.driver_seconds:.0f} s. "
                       "See whether nvidia-smi answers; a reboot may be due.")


def _look_at_gpus(simulate: Path | None) -> Finding:
    driver: GpuDriver | None = None
    try:
        driver = open_driver(simulate)
        version, gpus = driver.versions(), driver.inventory()
    except DriverError as refusal:
        return Finding("driver", "fail", f"No GPU driver: {_sentence(refusal)} Install NVIDIA's driver, and see that "
                       "nvidia-smi answers.")
    finally:
        if driver is not None:
            driver.close()
    if not gpus:
        return Finding("driver", "fail", f"Driver {version} answers, but reports no GPU.")
    sick = [gpu.uuid for gpu in gpus if not gpu.healthy]
    if sick:
        return Finding("driver", "warn", f"Driver {version}: {len(sick)} of {len(gpus)} GPUs do not answer: "
                       f"{', '.join(sick)}.")
    models = ", ".join(sorted({gpu.model for gpu in gpus}))
    cut = sum(gpu.mig_enabled for gpu in gpus)
    return Finding("driver", "ok", f"Driver {version}, GPUs: {len(gpus)} ({models}), {cut} of them with MIG on.")


def _process_engine() -> tuple[Finding, ...]:
    return (Finding("engine", "warn", "Workloads run as plain processes: no isolation, for trying Berth alone."),)


def _podman(settings: RunSettings) -> tuple[Finding, ...]:
    try:
        facts = PodmanApi(settings.podman_url).get("/info")
    except EngineError as refusal:
        return (Finding("engine", "fail", f"{_sentence(refusal)} Install Podman 4.3 or newer and switch its service "
                        "on: systemctl enable --now podman.socket"),)
    return (_podman_version(facts.get("version", {}).get("Version", "")), _cdi(settings), _images(facts))


def _podman_version(version: str) -> Finding:
    numbers = tuple(int(part) for part in version.split(".")[:2] if part.isdigit())
    if numbers < OLDEST_PODMAN:
        return Finding("engine", "fail", f"Podman is {version or 'of unknown version'}; GPUs are handed over from 4.3 "
                       "on. Update it.")
    return Finding("engine", "ok", f"Podman {version} answers.")


def _cdi(settings: RunSettings) -> Finding:
    folder = _nearest(settings.cdi_dir)
    if not os.access(folder, os.W_OK):
        return Finding("cdi", "fail", f"{settings.cdi_dir} cannot be written. Run the agent as root or name another "
                       "folder with BERTH_AGENT_CDI_DIR that the engine reads.")
    if settings.simulate is None and shutil.which("nvidia-ctk") is None:
        return Finding("cdi", "fail", "nvidia-ctk is not installed. Install the NVIDIA Container Toolkit.")
    return Finding("cdi", "ok", f"Devices are described in {settings.cdi_dir}.")


def _images(facts: dict) -> Finding:
    root = Path(facts.get("store", {}).get("graphRoot") or "/var/lib/containers/storage")
    free_gib = shutil.disk_usage(_nearest(root)).free / 2**30
    verdict: Verdict = "ok" if free_gib >= IMAGES_GIB_WISHED else "warn"
    return Finding("images", verdict, f"{free_gib:.0f} GiB free for images in {root}"
                   + ("." if verdict == "ok" else f"; GPU images want {IMAGES_GIB_WISHED} GiB and more."))


def _cgroups(settings: RunSettings) -> Finding:
    try:
        missing = sorted(_CONTROLLERS - set(_CGROUPS.read_text().split()))
    except OSError:
        missing = sorted(_CONTROLLERS)
    if not missing:
        return Finding("cgroups", "ok", "Version 2 with cpu, memory and pids: limits of workloads are held.")
    verdict: Verdict = "warn" if settings.engine == "process" else "fail"
    return Finding("cgroups", verdict, f"Version 2 lacks {', '.join(missing)}: limits of workloads cannot be held. "
                   "Boot with systemd.unified_cgroup_hierarchy=1.")


def _disk(settings: RunSettings) -> Finding:
    folder = _nearest(settings.state)
    if not os.access(folder, os.W_OK):
        return Finding("disk", "fail", f"{settings.state} cannot be written. Run as root or name another folder.")
    free_mib = shutil.disk_usage(folder).free // 2**20
    if free_mib < STATE_MIB_LEAST:
        return Finding("disk", "fail", f"{free_mib} MiB free for {settings.state}; the journal wants "
                       f"{STATE_MIB_LEAST} MiB. Make room.")
    return Finding("disk", "ok", f"{free_mib} MiB free for {settings.state}.")


def _portal_and_clock(portal: str) -> Finding:
    """The portal's Date tells whole seconds, so a skew below one is not seen."""
    request = urllib.request.Request(f"{portal}/agent/v1/install.sh", method="HEAD")
    try:
        with urllib.request.urlopen(request, timeout=_PORTAL_SECONDS) as response:
            said = response.headers.get("Date", "")
    except urllib.error.HTTPError as error:
        return Finding("portal", "fail", f"{portal} answered {error.code}. Is that the portal's address?")
    except OSError as error:
        return Finding("portal", "fail", f"{portal} cannot be reached: {getattr(error, 'reason', error)}. Check the "
                       "address, the network and, with a certificate of your own, SSL_CERT_FILE.")
    try:
        skew = abs(time.time() - email.utils.parsedate_to_datetime(said).astimezone(dt.UTC).timestamp())
    except ValueError:
        return Finding("portal", "warn", f"{portal} answers, but tells no time; is the clock of this node right?")
    if skew >= SKEW_FAIL_SECONDS:
        return Finding("clock", "fail", f"This node's clock is {skew:.0f} s off the portal's. Switch NTP on: "
                       "timedatectl set-ntp true")
    verdict: Verdict = "ok" if skew < SKEW_WARN_SECONDS else "warn"
    return Finding("clock", verdict, f"{portal} answers; the clocks are less than {max(1.0, skew):.0f} s apart.")


def _sentence(refusal: Exception) -> str:
    return f"{str(refusal).rstrip('.')}."


def _nearest(path: Path) -> Path:
    """The folder itself, or what is there of the way to it."""
    return next(folder for folder in (path.absolute(), *path.absolute().parents) if folder.exists())
