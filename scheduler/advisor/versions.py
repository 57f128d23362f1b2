"""Versions of drivers, toolkits and frameworks, from ``cuda_compat.json`` and ``frameworks.json``; these name their
sources."""

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

Version = tuple[int, ...]
HERE = Path(__file__).parent
COMPAT: dict[str, Any] = json.loads((HERE / "cuda_compat.json").read_text())
FRAMEWORKS: dict[str, Any] = json.loads((HERE / "frameworks.json").read_text())


def version(text: str) -> Version:
    """``12.4.1`` as numbers; what follows them is left away."""
    found = re.match(r"\d+(\.\d+)*", text.strip())
    if not found:
        raise ValueError(f"no version: {text!r}")
    return tuple(int(part) for part in found[0].split("."))


def reaches(have: Version, least: Version) -> bool:
    """Compared as far as ``least`` goes, missing parts being 0."""
    length = max(len(have), len(least))
    return have + (0,) * (length - len(have)) >= least + (0,) * (length - len(least))


def told(numbers: Version) -> str:
    return ".".join(str(number) for number in numbers)


def driver_told(numbers: Version) -> str:
    """As NVIDIA writes it, 580.65.06."""
    return ".".join([str(numbers[0]), *(f"{number:02}" for number in numbers[1:])])


@dataclass(frozen=True)
class Wheel:
    """A framework's release as its default index ships it. None: not known. ``native``: capabilities it has code for;
    ``portable``: the highest for which it carries code that a newer GPU can compile."""

    name: str
    release: str
    cuda: Version | None
    capability_least: Version | None
    native: tuple[Version, ...] = ()
    portable: Version | None = None
    other_cuda: tuple[str, ...] = ()


def family_driver(major: int) -> Version | None:
    """The lowest driver for any toolkit of that major."""
    return next((version(one["min_driver"]) for one in COMPAT["_meta"]["families"] if one["major"] == major), None)


def bundled_driver(cuda: Version) -> Version | None:
    """The driver of the toolkit's first release: from there on it has everything."""
    name = told(cuda[:2])
    found = next((one["bundled_driver_linux"] for one in COMPAT["toolkits"] if one["toolkit"] == name), None)
    return version(found) if found else None


def cuda_of_driver(driver: Version) -> Version | None:
    """The newest CUDA that a driver speaks, as far as the table knows."""
    spoken = [
        version(one["toolkit"])
        for one in COMPAT["toolkits"]
        if one["bundled_driver_linux"] and reaches(driver, version(one["bundled_driver_linux"]))
    ]
    return max(spoken, default=None)


def capability_least(cuda: Version) -> Version | None:
    name = told(cuda[:2])
    found = next((one["compute_capability_min"] for one in COMPAT["toolkits"] if one["toolkit"] == name), None)
    return version(found) if found else None


def wheel(name: str, release: str) -> Wheel | None:
    """The row of that release, by as many of its parts as the table has; for JAX the plugin of the lowest CUDA."""
    rows = FRAMEWORKS.get({"torch": "pytorch", "tf": "tensorflow"}.get(name.lower(), name.lower()), [])
    asked = version(release)
    row = next((one for one in rows if asked[: len(version(one["release"]))] == version(one["release"])), None)
    if row is None:
        return None
    cuda = row.get("pypi_wheel_cuda") or row.get("and_cuda_runtime") or row.get("cuda_runtime")
    least = row.get("compute_capability_min_of_pypi_wheel") or row.get("compute_capability_min")
    native = row.get("native_sm") or row.get("native") or ()
    kept = [str(one) for one in native]
    return Wheel(
        name=name, release=row["release"], cuda=version(cuda.lstrip(">=")) if cuda else None,
        capability_least=version(least) if least else None,
        native=tuple(_capability(one) for one in kept if not one.startswith("compute")),
        portable=max((_capability(one) for one in kept if one.startswith("compute")), default=None),
        other_cuda=tuple(row.get("other_official_cuda") or ()),
    )  # fmt: skip


def _capability(text: str) -> Version:
    """``sm_90``, ``compute_90`` and ``120`` as 9.0 and 12.0."""
    digits = text.rpartition("_")[2]
    return int(digits[:-1]), int(digits[-1])
