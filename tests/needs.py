"""What some tests need of the machine, and the sentence that says what is missing."""

import functools
import os
import shutil
import subprocess

CHROMIUM_NAMES = ("chromium", "chromium-browser", "google-chrome")
PODMAN_PROGRAMS = ("podman", "runc", "busybox")
PROBE_SECONDS = 60


def chromium() -> str | None:
    """The browser's path."""
    return next((found for name in CHROMIUM_NAMES if (found := shutil.which(name))), None)


@functools.cache
def missing_for_browser() -> str:
    """Empty when nothing is missing."""
    return "" if chromium() else f"no Chromium here (looked for {', '.join(CHROMIUM_NAMES)})"


@functools.cache
def missing_for_podman() -> str:
    """Empty when nothing is missing; that a container really starts is the business of the tests themselves."""
    absent = [name for name in PODMAN_PROGRAMS if shutil.which(name) is None]
    if absent:
        return f"no {', '.join(absent)} here"
    if os.geteuid() != 0:
        return "containers on simulated slices need root here"
    asked = subprocess.run(["podman", "--version"], capture_output=True, text=True, timeout=PROBE_SECONDS)
    return "" if asked.returncode == 0 else f"podman does not run: {asked.stderr.strip()[-200:]}"


NEEDS = {"browser": missing_for_browser, "podman": missing_for_podman}
