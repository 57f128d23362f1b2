"""Recorded traces: ``LEASE.csv``, a row a second and rank, and beside it ``labels.jsonl`` with what the portal
would know.

Empty is null. Columns that are not there are null as well; a trace without labels is judged by its metrics alone.
"""

import csv
import json
import tomllib
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.advisor.recording import Lease, Recording, Series, Size

SIZES: dict[str, dict[str, list[int]]] = tomllib.loads((Path(__file__).parent / "gpus.toml").read_text())
WHOLE = "whole"


class TraceUnreadable(ValueError):
    """Says which file, and why."""


@dataclass(frozen=True)
class Labelled:
    """A recording with the truth about it, as far as somebody wrote it down."""

    recording: Recording
    truth: dict[str, Any]


def read_folder(folder: Path) -> list[Labelled]:
    """Every lease named in ``labels.jsonl``, in its order."""
    truths = _truths(folder / "labels.jsonl")
    if not truths:
        raise TraceUnreadable(f"{folder} has no labels.jsonl with a lease")
    return [Labelled(read_trace(folder / f"{lease}.csv", truth), truth) for lease, truth in truths.items()]


def read_trace(path: Path, truth: dict[str, Any] | None = None) -> Recording:
    if truth is None:
        truth = _truths(path.parent / "labels.jsonl").get(path.stem, {})
    try:
        with path.open(newline="") as file:
            header, *rows = csv.reader(file)
        return Recording(lease_of(truth), _ranks(header, rows))
    except (OSError, ValueError, IndexError) as error:
        raise TraceUnreadable(f"{path}: {error}") from error


def _truths(path: Path) -> dict[str, dict[str, Any]]:
    if not path.exists():
        return {}
    return {truth["lease"]: truth for line in path.read_text().splitlines() if line and (truth := json.loads(line))}


def _ranks(header: list[str], rows: list[list[str]]) -> tuple[Series, ...]:
    """On a grid of seconds from the first row on; a second that is not there is null."""
    if "t" not in header or not rows:
        raise ValueError("a trace needs a column t and a row")
    values = np.array([[float(cell) if cell else np.nan for cell in row] for row in rows])
    seconds = values[:, header.index("t")].astype(int)
    rank = values[:, header.index("rank")].astype(int) if "rank" in header else np.zeros(len(rows), int)
    length = int(seconds.max() - seconds.min()) + 1
    names = [name for name in header if name not in ("t", "rank")]
    tables = []
    for one in range(int(rank.max()) + 1):
        mine = rank == one
        table = {name: np.full(length, np.nan) for name in names}
        for name in names:
            table[name][seconds[mine] - seconds.min()] = values[mine, header.index(name)]
        tables.append(table)
    return tuple(tables)


def lease_of(truth: dict[str, Any]) -> Lease:
    """What the portal would know. Without the model of the GPU nothing is said about size."""
    size, smaller = _sizes(truth.get("gpu", ""), truth.get("profile", ""))
    pcie = truth.get("pcie_max")
    return Lease(
        name=truth.get("lease", ""), mig=bool(truth.get("mig", False)), size=size, smaller=smaller,
        cpu_limit=truth.get("cpu_limit"), workload=truth.get("workload", "batch"), framework=truth.get("framework"),
        pcie_max=(int(pcie[0]), int(pcie[1])) if pcie else None, ended=bool(truth.get("ended", True)),
        workers=int(truth.get("workers", 1)),
    )  # fmt: skip


def _sizes(gpu: str, profile: str) -> tuple[Size | None, tuple[Size, ...]]:
    model = next((name for name in SIZES if gpu and name.startswith(gpu)), None)
    if model is None:
        return None, ()
    whole = SIZES[model][WHOLE]
    sizes = {name: _size(name, numbers, whole) for name, numbers in SIZES[model].items()}
    own = sizes.get(WHOLE if profile in ("", "full", WHOLE) else profile)
    return own, tuple(size for name, size in sizes.items() if name != WHOLE)


def _size(name: str, numbers: list[int], whole: list[int]) -> Size:
    """It weighs its compute slices, or its share of the memory where that is more, rounded half down."""
    sms, memory_mib, memory_slices, slices = numbers
    by_memory = -(-(2 * memory_slices * whole[3] - whole[2]) // (2 * whole[2]))
    return Size(name, sms, memory_mib, memory_slices, max(slices, by_memory))
