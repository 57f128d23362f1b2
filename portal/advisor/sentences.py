"""One sentence for each diagnosis; a rule that says more than one thing has one for each."""

from django.utils.translation import gettext_lazy as _

SENTENCES = {
    "no_process": _("Nothing touched this GPU for %(minutes)s minutes."),
    "idle_held": _(
        "Idle for %(minutes)s minutes; a process that runs nothing holds %(memory_percent)s%% of the memory."
    ),
    "unused_gpu": _("%(unused)s of %(gpus)s GPUs have not been used."),
    "input_cpu": _("The GPU waits for data %(percent)s%% of the time while all %(cores)s CPU cores are full."),
    "input_storage.remote": _(
        "The GPU waits %(percent)s%% of the time for reads from remote storage, at %(rate)s MiB/s."
    ),
    "input_storage.local": _("The GPU waits %(percent)s%% of the time for reads from disk, at %(rate)s MiB/s."),
    "transfer_bound": _(
        "Copies between host and GPU take %(rate)s GiB/s, and the kernels wait %(percent)s%% of the time."
    ),
    "small_kernels": _("Kernels run nearly all the time, but cover %(percent)s%% of the GPU."),
    "host_bound": _("One CPU thread drives the GPU and cannot launch fast enough: it waits %(percent)s%% of the time."),
    "tensor_unused": _("Tensor cores are idle; the work runs in FP32."),
    "fp64_accident": _("The work runs in double precision, and nothing in the workload asks for it."),
    "memory_bound": _("This run is limited by memory bandwidth, and uses it well: %(percent)s%%."),
    "slice_too_big": _(
        "%(size)s would hold this run; it would take %(longer_percent)s%% longer and cost %(less_percent)s%% less."
    ),
    "slice_too_small": _("Memory is %(percent)s%% full nearly all the time, and the GPU is at work."),
    "prealloc": _("The framework reserved %(percent)s%% of the memory at the start; how much it needs is not known."),
    "comm_bound.nvlink": _("The %(ranks)s ranks spend about %(percent)s%% of each step on exchange over NVLink."),
    "comm_bound.network": _("The %(ranks)s ranks spend about %(percent)s%% of each step on exchange over the network."),
    "straggler": _("Rank %(rank)s is late, and the other %(others)s wait for it."),
    "throttled.heat": _(
        "Heat slows the board down: its clock is %(percent)s%% lower in %(share)s%% of the time. It is not "
        "your program."
    ),
    "throttled.power": _(
        "The power supply slows the board down: its clock is %(percent)s%% lower in %(share)s%% of the "
        "time. It is not your program."
    ),
    "cpu_fallback": _("The program ran on %(cores)s CPU cores for %(minutes)s minutes and never touched the GPU."),
    "exclusive_mode": _("This GPU admits one process at a time; others were refused %(times)s times."),
    "hw_fault": _("The GPU reported a fault (XID %(xid)s); the time after it is not yours to answer for."),
    "periodic_stalls": _(
        "The GPU stands still %(times)s times, about every %(every)s seconds, %(percent)s%% of the time in all."
    ),
    "low_duty_service": _("The service computes %(percent)s%% of the time."),
    "pcie_degraded": _(
        "The card's link runs as generation %(gen)s x%(width)s instead of generation %(gen_most)s x%(width_most)s."
    ),
    "over_booked_time": _(
        "Your last %(times)s bookings left %(percent)s%% of their time unused, %(unused_hours)s hours in all."
    ),
    "spread_gang": _("%(gpus)s GPUs lie on %(nodes)s nodes; %(needed)s would do."),
    "memory_leak": _("Memory grows by %(percent)s%% of the slice an hour, and is full in about %(minutes)s minutes."),
}
