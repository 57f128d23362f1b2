"""What the socket shows of one lease: whether use follows the CPU, and how old a sample is when the browser has it."""

import re
import statistics
from dataclasses import dataclass, field

from tests.smoke.client import Client, Unexpected

WATCH_SECONDS = 12
FRAMES_LEAST = 8
CPU_SWING_LEAST_PERCENT = 5  # of one core: on a crowded machine a busy loop gets little
SHARE_OF_SWING_LEAST = 0.5
CORRELATION_LEAST = 0.6


@dataclass
class Seen:
    """``ages`` are seconds from the sample's arrival at the portal to the frame's arrival here."""

    use: list[float] = field(default_factory=list)
    cpu: list[float] = field(default_factory=list)
    ages: list[float] = field(default_factory=list)
    output: str = ""

    @property
    def turn(self) -> int:
        """The last turn that the workload told of, 0 when none."""
        return max((int(number) for number in re.findall(r"^turn (\d+)$", self.output, re.MULTILINE)), default=0)


def watch(client: Client, lease_id: int, node_id: int, seconds: float = WATCH_SECONDS) -> Seen:
    """Look at the lease and its node for a while, and follow its output."""
    seen = Seen()
    with client.socket([f"l{lease_id}", f"n{node_id}"], log=lease_id) as live:
        for at, message in live.messages(seconds):
            if message.get("log") == lease_id:
                seen.output += message["text"]
            elif "v" in message:
                _take(seen, message, lease_id, node_id, at)
    return seen


def _take(seen: Seen, frame: dict, lease_id: int, node_id: int, at: float) -> None:
    use, cpu = frame["v"].get(f"l{lease_id}:util"), frame["v"].get(f"l{lease_id}:cpu")
    age = frame["v"].get(f"n{node_id}:age")
    if use is None or cpu is None or age is None:
        return
    seen.use.append(use)
    seen.cpu.append(cpu)
    seen.ages.append(age + max(0.0, at - frame["t"]))


def check_follows(seen: Seen) -> None:
    """The workload is busy and idle in turn, so the CPU swings, and use must swing as far and at the same time."""
    if len(seen.use) < FRAMES_LEAST:
        raise Unexpected(f"only {len(seen.use)} frames with values in {WATCH_SECONDS} s")
    cpu, use = _swing([min(percent, 100.0) for percent in seen.cpu]), _swing(seen.use)
    if cpu < CPU_SWING_LEAST_PERCENT or use < SHARE_OF_SWING_LEAST * cpu:
        raise Unexpected(f"use moved by {use:.0f} % while the CPU moved by {cpu:.0f} %")
    together = statistics.correlation(seen.use, seen.cpu)
    if together < CORRELATION_LEAST:
        raise Unexpected(f"use does not follow the CPU: correlation {together:.2f} over {len(seen.use)} frames")


def _swing(percents: list[float]) -> float:
    return max(percents) - min(percents)


def check_device(output: str, uuid: str) -> None:
    """The workload says once, at its start, what it was given."""
    given = re.findall(r"^device (.*)$", output, re.MULTILINE)
    if given != [uuid]:
        raise Unexpected(f"the workload was given {given}, not {uuid}; its output ends {output[-80:]!r}")
