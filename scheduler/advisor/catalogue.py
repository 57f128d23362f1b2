"""The 26 diagnoses: for each its rule, what it cannot judge without, what to change in order, and what it silences."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import IntEnum

import numpy as np

from scheduler.advisor import rules_board as board
from scheduler.advisor import rules_booking as booking
from scheduler.advisor import rules_gang as gang
from scheduler.advisor import rules_size as size
from scheduler.advisor import rules_unused as unused
from scheduler.advisor import rules_waiting as waiting
from scheduler.advisor import rules_work as work
from scheduler.advisor.findings import Seen
from scheduler.advisor.recording import Recording
from scheduler.advisor.view import ACTIVITY, View


class Tier(IntEnum):
    """What is told first: a board that is not well explains the rest, and size is what is left in the end."""

    BOARD = 0
    UNUSED = 1
    USE = 2
    SIZE = 3
    NOTE = 4


@dataclass(frozen=True)
class Rule:
    """One of three looks: at each phase of the run, at the whole of it after the warm-up, or at the raw recording.

    ``silences``: rules that say nothing where this one holds for at least half of their time.
    """

    name: str
    tier: Tier
    steps: tuple[str, ...]
    needs: tuple[str, ...] = ()
    phase: Callable[[View], Seen | None] | None = None
    whole: Callable[[View], Seen | None] | None = None
    run: Callable[[Recording, np.ndarray], list[Seen]] | None = None
    silences: frozenset[str] = frozenset()


def _any_seconds(look: Callable[[Recording], list[Seen]]) -> Callable[[Recording, np.ndarray], list[Seen]]:
    """For what is idle there is no warm-up."""
    return lambda recording, counts: look(recording)


WAITING = frozenset(
    {"input_cpu", "input_storage", "transfer_bound", "host_bound", "comm_bound", "straggler", "periodic_stalls",
     "low_duty_service"}
)  # fmt: skip
WORKING = frozenset({"small_kernels", "tensor_unused", "fp64_accident", "memory_bound"})
SIZES = frozenset({"slice_too_big", "slice_too_small", "prealloc", "memory_leak"})
NOT_USED = WAITING | WORKING | SIZES
BUSY, FILLED, HELD, DRAM = "gr_active", "sm_active", "mem_used_frac", "dram_active"

RULES = (
    Rule("no_process", Tier.UNUSED, ("log", "release", "command"),
         run=_any_seconds(unused.no_process), silences=NOT_USED),
    Rule("idle_held", Tier.UNUSED, ("shut_kernel", "short", "small_first", "idle_rule"),
         run=_any_seconds(unused.idle_held), silences=NOT_USED),
    Rule("unused_gpu", Tier.UNUSED, ("launch", "visible", "fewer", "mig_each"), (ACTIVITY, HELD),
         phase=unused.unused_gpu, silences=frozenset({"straggler", "comm_bound", "slice_too_big"})),
    Rule("input_cpu", Tier.USE, ("workers", "cpu_rebook", "less_work", "tf_data", "not_too_many"), (BUSY,),
         phase=waiting.input_cpu, silences=frozenset({"slice_too_big", "host_bound"})),
    Rule("input_storage", Tier.USE, ("local_copy", "pack", "larger_reads", "cache", "near"),
         (BUSY, "cpu_util_of_limit"), phase=waiting.input_storage, silences=frozenset({"slice_too_big", "host_bound"})),
    Rule("transfer_bound", Tier.USE, ("pin", "keep", "no_sync", "fewer_copies", "no_offload"),
         (BUSY, "pcie_rx_mib_s", "pcie_tx_mib_s"), phase=waiting.transfer_bound,
         silences=frozenset({"slice_too_big", "host_bound"})),
    Rule("small_kernels", Tier.USE, ("batch", "graphs", "fuse", "pack_trials", "rebook"), (BUSY, FILLED, DRAM),
         phase=work.small_kernels),
    Rule("host_bound", Tier.USE, ("no_sync", "graphs", "batch", "to_workers"), (BUSY, "cpu_util_of_limit", "io_wait"),
         phase=waiting.host_bound),
    Rule("tensor_unused", Tier.USE, ("tf32", "autocast", "channels_last", "multiples", "compare"),
         (BUSY, FILLED, "tensor_active", DRAM), phase=work.tensor_unused),
    Rule("fp64_accident", Tier.USE, ("to_float", "default_type", "fp64_card"), (BUSY, "fp64_active"),
         phase=work.fp64_accident, silences=frozenset({"tensor_unused"})),
    Rule("memory_bound", Tier.NOTE, ("serving_batch", "quantise", "fuse"), (BUSY, DRAM, "tensor_active"),
         phase=work.memory_bound, silences=frozenset({"small_kernels", "tensor_unused"})),
    Rule("slice_too_big", Tier.SIZE, ("rebook", "pack_trials", "batch"), (BUSY, FILLED, DRAM, HELD),
         whole=size.slice_too_big),
    Rule("slice_too_small", Tier.SIZE, ("next_up", "checkpointing", "whole"), (FILLED, HELD),
         phase=size.slice_too_small, silences=frozenset({"slice_too_big"})),
    Rule("prealloc", Tier.NOTE, ("probe",), (HELD,), whole=size.prealloc,
         silences=frozenset({"slice_too_small", "slice_too_big"})),
    Rule("comm_bound", Tier.USE, ("one_node", "accumulate", "compress", "fewer", "micro_batches"), (BUSY, FILLED),
         phase=gang.comm_bound, silences=frozenset({"small_kernels", "slice_too_big"})),
    Rule("straggler", Tier.USE, ("equal_shards", "swap_node", "report"), (BUSY, FILLED), phase=gang.straggler,
         silences=frozenset({"comm_bound", "small_kernels", "slice_too_big"})),
    Rule("throttled", Tier.BOARD, ("operator", "move"), run=board.throttled, silences=frozenset({"slice_too_big"})),
    Rule("cpu_fallback", Tier.UNUSED, ("image", "node", "compat", "gpu_build", "to_cuda", "visible"),
         run=_any_seconds(unused.cpu_fallback), silences=NOT_USED),
    Rule("exclusive_mode", Tier.UNUSED, ("default_mode", "one_process", "spawn"), run=board.exclusive_mode,
         silences=frozenset({"slice_too_big", "small_kernels"})),
    Rule("hw_fault", Tier.BOARD, ("nothing", "operator"), run=board.hw_fault,
         silences=frozenset({"no_process", "idle_held", "cpu_fallback", "unused_gpu", "slice_too_big",
                             "slice_too_small", "host_bound", "periodic_stalls"})),
    Rule("periodic_stalls", Tier.USE, ("async_checkpoint", "less_often", "evaluate_on_gpu"),
         run=waiting.periodic_stalls,
         silences=frozenset({"slice_too_big", "input_cpu", "input_storage", "host_bound"})),
    Rule("low_duty_service", Tier.USE, ("smaller", "several_models", "office_hours"), (BUSY,),
         whole=waiting.low_duty_service),
    Rule("pcie_degraded", Tier.BOARD, ("operator", "move"), (BUSY, "pcie_rx_mib_s", "pcie_gen", "pcie_width"),
         phase=board.pcie_degraded),
    Rule("over_booked_time", Tier.SIZE, ("shorter", "extend"), run=booking.over_booked_time),
    Rule("spread_gang", Tier.SIZE, ("one_node", "give_back"), run=booking.spread_gang),
    Rule("memory_leak", Tier.SIZE, ("detach", "segments", "save"), (HELD,), whole=size.memory_leak,
         silences=frozenset({"slice_too_big", "slice_too_small"})),
)  # fmt: skip
BY_NAME = {rule.name: rule for rule in RULES}
