"""The organisation of the demo: a harbour town's research institute, its teams, people, limits and workloads."""

from dataclasses import dataclass

from portal.demo.names import DOMAIN
from portal.tenants.models import Role

SLICE_HOUR_SECONDS = 3600


@dataclass(frozen=True)
class Team:
    """``budget_slice_hours`` is for a month; ``quotas`` are (pool, guaranteed, limit) in weights."""

    name: str
    parent: str
    code: str
    hue: int
    budget_slice_hours: int
    quotas: tuple[tuple[str, int, int], ...]


@dataclass(frozen=True)
class Person:
    name: str
    role: Role
    tenant: str
    language: str = "en"

    @property
    def email(self) -> str:
        return f"{self.name.split()[0].lower()}@{DOMAIN}"


@dataclass(frozen=True)
class Kind:
    """A workload template; ``source`` is the Python that its command runs."""

    name: str
    summary: str
    source: str


ROOT = Team(
    "Northquay", "", "NQ", 1, 9000, (("H100 MIG", 0, 14), ("A100 MIG", 0, 14), ("H100 whole", 0, 7), ("L40S", 0, 7))
)
TEAMS = (
    Team("vision-lab", "Northquay", "VL", 1, 2500,
         (("H100 MIG", 4, 14), ("A100 MIG", 3, 14), ("H100 whole", 0, 7), ("L40S", 0, 7))),
    Team("segmentation", "vision-lab", "SG", 2, 900,
         (("H100 MIG", 2, 14), ("A100 MIG", 0, 14), ("H100 whole", 0, 7), ("L40S", 0, 7))),
    Team("nlp-team", "Northquay", "NL", 3, 2500, (("H100 MIG", 4, 10), ("A100 MIG", 2, 7), ("H100 whole", 0, 7))),
    Team("bio-imaging", "Northquay", "BI", 4, 1500, (("A100 MIG", 4, 10), ("L40S", 0, 7))),
    Team("robotics", "Northquay", "RO", 5, 900, (("H100 MIG", 2, 7), ("L40S", 0, 7))),
    Team("teaching", "Northquay", "TE", 6, 400, (("A100 MIG", 2, 4),)),
)  # fmt: skip

PEOPLE = (
    Person("Ada Brandt", Role.ADMIN, "Northquay"),
    Person("Lin Yu-Chen", Role.LEAD, "vision-lab", "zh-hant"),
    Person("Rosa Weber", Role.MEMBER, "segmentation"),
    Person("Tomas Novak", Role.MEMBER, "segmentation"),
    Person("Noor Haddad", Role.LEAD, "nlp-team"),
    Person("Emil Larsen", Role.MEMBER, "nlp-team"),
    Person("Ines Moreau", Role.LEAD, "bio-imaging"),
    Person("Jonas Pichler", Role.MEMBER, "bio-imaging"),
    Person("Mei Tanaka", Role.MEMBER, "robotics"),
    Person("Olga Ferrari", Role.LEAD, "teaching"),
    Person("Petra Kovacs", Role.MEMBER, "teaching"),
    Person("Sven Lund", Role.MEMBER, "teaching"),
    Person("Aisha Rahman", Role.MEMBER, "teaching"),
    Person("Viktor Sand", Role.VIEWER, "Northquay"),
)

_WAVES = """
import math, time
step, began = 0, time.monotonic()
while True:
    share = 0.22 + 0.18 * math.sin((time.monotonic() - began) / 12)
    until = time.monotonic() + 0.2 * share
    while time.monotonic() < until:
        math.sqrt(step)
    time.sleep(0.2 * (1 - share))
    step += 1
    if step % 50 == 0:
        print(f"tick {step}: load {share:.0%}", flush=True)
"""
_TRAINING = """
import math, os, random, time
device = os.environ["CUDA_VISIBLE_DEVICES"]
print(f"training on {device}, until {os.environ['BERTH_ENDS_AT']}", flush=True)
weights, loss = bytearray(96 << 20), 2.4
for step in range(1, 10**9):
    until = time.monotonic() + 0.12
    while time.monotonic() < until:
        math.sqrt(step)
    loss = 0.31 + (loss - 0.31) * 0.995 + random.uniform(-0.01, 0.01)
    print(f"step {step:6d}  loss {loss:.4f}  lr {3e-4 * 0.999**step:.2e}", flush=True)
    time.sleep(0.38)
"""
_MEMORY = """
import time
held = []
for block in range(16):
    held.append(bytearray(b"1" * (16 << 20)))
    print(f"holding {16 * len(held)} MiB", flush=True)
    time.sleep(2)
while True:
    time.sleep(5)
"""
_IDLE = """
import os, time
print(f"notebook kernel on {os.environ['CUDA_VISIBLE_DEVICES']}, waiting for cells", flush=True)
while True:
    time.sleep(5)
"""

KINDS = (
    Kind("Training run", "A training loop: steps and loss in the log, a quarter of a core busy", _TRAINING),
    Kind("Load in waves", "CPU load that rises and falls, to see the chart move", _WAVES),
    Kind("Memory ladder", "Takes 256 MiB in steps of 16 MiB and holds them", _MEMORY),
    Kind("Idle notebook", "Holds its slice and does nothing: what waste looks like", _IDLE),
)
