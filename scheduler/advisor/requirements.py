"""What an image asks of the machine in ``NVIDIA_REQUIRE_*``: a space is OR, a comma AND, several variables AND.

The toolkit asserts these in its legacy hook alone; with CDI nobody does, so the portal and the agent have to.
"""

import operator
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from scheduler.advisor.versions import Version, told, version

PREFIX = "NVIDIA_REQUIRE_"
SKIPPED = "NVIDIA_REQUIRE_JETPACK"
CONSTRAINT = re.compile(r"(\w+)(<=|>=|!=|=|<|>)(.+)")
COMPARE: dict[str, Callable[[Any, Any], bool]] = {
    "=": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le, ">": operator.gt, ">=": operator.ge,
}  # fmt: skip


@dataclass(frozen=True)
class Machine:
    """A node as its driver describes it. ``cuda`` is the version that the driver speaks, not a toolkit's."""

    driver: Version
    cuda: Version | None
    capability: Version
    brand: str = "tesla"
    data_centre: bool = True


def unmet(environment: Mapping[str, str], machine: Machine) -> str | None:
    """The first requirement that the machine does not meet, in the image's words."""
    if environment.get("NVIDIA_DISABLE_REQUIRE", "").lower() in {"1", "true"}:
        return None
    for text in _requirements(environment):
        if text.split() and not any(_all_hold(choice, machine) for choice in text.split()):
            return text
    return None


def _requirements(environment: Mapping[str, str]) -> list[str]:
    """An image without a requirement on CUDA that names its version means at least that."""
    found = [
        value
        for name, value in sorted(environment.items())
        if name.startswith(PREFIX) and not name.startswith(SKIPPED)
    ]
    if "NVIDIA_REQUIRE_CUDA" not in environment and environment.get("CUDA_VERSION"):
        found.append(f"cuda>={told(version(environment['CUDA_VERSION'])[:2])}")
    return found


def _all_hold(choice: str, machine: Machine) -> bool:
    return all(_holds(one, machine) for one in choice.split(",") if one)


def _holds(constraint: str, machine: Machine) -> bool:
    """What is not understood is skipped, as the toolkit does; so is a CUDA version that the driver did not tell."""
    parts = CONSTRAINT.fullmatch(constraint)
    if not parts:
        return True
    name, how, wanted = parts.groups()
    if name == "brand":
        return COMPARE[how](machine.brand, wanted)
    have = {"cuda": machine.cuda, "driver": machine.driver, "arch": machine.capability}.get(name)
    if have is None:
        return True
    want = version(wanted)
    length = max(len(have), len(want))
    return COMPARE[how](have + (0,) * (length - len(have)), want + (0,) * (length - len(want)))
