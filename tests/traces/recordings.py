"""Made leases as the advisor gets them, and as files."""

import csv
import json
from collections.abc import Iterable
from math import isfinite
from pathlib import Path
from typing import Any

import numpy as np

from scheduler.advisor.recording import Recording
from scheduler.advisor.trace_files import lease_of
from tests.traces.leases import Lease


def recording_of(lease: Lease) -> Recording:
    """With four decimals, as files have them."""
    ranks = ({name: np.round(values, 4) for name, values in rank.items()} for rank in lease.ranks)
    return Recording(lease_of(lease.truth), tuple(ranks))


def write_folder(folder: Path, leases: Iterable[Lease]) -> None:
    """As ``labels.jsonl`` and a CSV a lease; a second that never arrived has no row."""
    with (folder / "labels.jsonl").open("w") as labels:
        for made in leases:
            labels.write(json.dumps(made.truth) + "\n")
            with (folder / f"{made.truth['lease']}.csv").open("w", newline="") as file:
                _write(csv.writer(file), made)


def _write(out: Any, made: Lease) -> None:
    names = list(made.ranks[0])
    out.writerow(["t", "rank", *names])
    for second in range(len(made.ranks[0][names[0]])):
        for rank, table in enumerate(made.ranks):
            values = [float(table[name][second]) for name in names]
            if any(isfinite(value) for value in values):
                out.writerow([second, rank, *(f"{value:.4f}" if isfinite(value) else "" for value in values)])
