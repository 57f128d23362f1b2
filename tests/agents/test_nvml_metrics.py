"""What is measured: real processes found by themselves, their real CPU time, and None where nothing is told."""

import os
import time

import psutil
import pytest

from agents.drivers.contract import DeviceUse
from agents.drivers.simulator.activity import MEMORY_BANDWIDTH_SHARE, TENSOR_SHARE
from tests.agents.simulated import BUSY, driven_node, eventually, holding


@pytest.mark.parametrize("variable", ["CUDA_VISIBLE_DEVICES", "NVIDIA_VISIBLE_DEVICES"])
def test_a_process_is_found_by_what_it_was_given_to_see(tmp_path, variable):
    with driven_node(tmp_path, "H100-80GB:mig", "L40S") as (driver, _):
        mig, plain = (fact.uuid for fact in driver.inventory())
        mine, other = driver.create(mig, 19, 0, 1), driver.create(mig, 19, 1, 1)

        def pids(uuid):
            return driver.use((mine, other), (plain,))[uuid].pids

        with holding(mine.mig_uuid, variable=variable) as first, holding(plain, variable=variable) as second:
            eventually(lambda: pids(mine.mig_uuid), lambda found: found == (first,))
            eventually(lambda: pids(plain), lambda found: found == (second,))
            assert pids(other.mig_uuid) == ()
        eventually(lambda: pids(mine.mig_uuid), lambda found: found == ())


def test_utilization_of_a_slice_follows_the_cpu_of_its_process(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        gpu = driver.inventory()[0].uuid
        busy, idle = driver.create(gpu, 9, 0, 4), driver.create(gpu, 9, 4, 4)

        def read():
            uses = driver.use((busy, idle), ())
            return uses[busy.mig_uuid], uses[idle.mig_uuid]

        assert [use.utilization for use in read()] == [None, None]
        with holding(busy.mig_uuid, BUSY) as pid, holding(idle.mig_uuid):
            eventually(read, lambda uses: bool(uses[0].pids and uses[1].pids))
            eventually(read, lambda uses: (uses[0].utilization or 0) > 10 and uses[1].utilization is not None)
            driver.use((busy, idle), ())
            process, began = psutil.Process(pid), time.monotonic()
            spent = process.cpu_times().user
            eventually(lambda: time.monotonic() - began, lambda seconds: seconds > 1.5)
            after, _ = read()
            share = 100 * (process.cpu_times().user - spent) / (time.monotonic() - began)
            assert after.utilization == pytest.approx(min(share, 100), abs=15)
            assert after.tensor == pytest.approx(after.utilization * TENSOR_SHARE)
            assert after.memory_bandwidth == pytest.approx(after.utilization * MEMORY_BANDWIDTH_SHARE)
            assert after.power_watts is None
            (board,) = driver.gpu_samples()
            assert board.power_watts > 70
            assert board.utilization is None
        eventually(read, lambda uses: uses[0].utilization == 0)


def test_asking_for_one_slice_does_not_forget_another(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        gpu = driver.inventory()[0].uuid
        first, second = driver.create(gpu, 19, 0, 1), driver.create(gpu, 19, 1, 1)
        began = time.monotonic()
        driver.use((first, second), ())
        eventually(lambda: time.monotonic() - began, lambda seconds: seconds > 0.15)
        driver.use((second,), ())
        driver.instances()
        assert driver.use((first,), ())[first.mig_uuid].utilization == 0


def test_memory_of_a_slice_is_that_of_its_processes_within_its_bounds(tmp_path):
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, _):
        made = driver.create(driver.inventory()[0].uuid, 19, 0, 1)
        empty = driver.use((made,), ())[made.mig_uuid]
        assert empty.memory_total_mib == 4864
        with holding(made.mig_uuid, "import threading; kept = bytearray(100 << 20); threading.Event().wait()"):
            used = eventually(lambda: driver.use((made,), ())[made.mig_uuid], lambda use: use.memory_used_mib > 350)
            assert used.memory_used_mib < 4864


@pytest.mark.case("T-01")
def test_what_an_ampere_slice_does_not_tell_is_none_and_not_zero(tmp_path):
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, _):
        made = driver.create(driver.inventory()[0].uuid, 19, 0, 1)
        for _ in range(2):
            use = driver.use((made,), ())[made.mig_uuid]
            assert (use.utilization, use.tensor, use.memory_bandwidth, use.power_watts) == (None,) * 4
            assert use.memory_used_mib is not None
        (board,) = driver.gpu_samples()
        assert board.utilization is None
        assert board.power_watts is not None


@pytest.mark.parametrize(
    ("symbol", "field"),
    [
        ("nvmlDeviceGetMemoryInfo", "memory_used_mib"),
        ("nvmlDeviceGetUtilizationRates", "utilization"),
        ("nvmlDeviceGetPowerUsage", "power_watts"),
        ("nvmlDeviceGetComputeRunningProcesses_v3", "pids"),
    ],
)
@pytest.mark.case("T-01")
def test_each_value_that_is_missing_is_none_alone(tmp_path, symbol, field):
    with driven_node(tmp_path, "L40S") as (driver, file):
        gpu = driver.inventory()[0].uuid
        assert getattr(driver.use((), (gpu,))[gpu], field) is not None
        with file.change() as node:
            node.hidden_symbols = [symbol]
        use = driver.use((), (gpu,))[gpu]
        assert getattr(use, field) is None
        assert sum(value is None for value in vars(use).values()) <= 4
        with file.change() as node:
            node.hidden_symbols = []


def test_a_whole_gpu_is_measured_by_the_driver_itself(tmp_path):
    with driven_node(tmp_path, "L40S", "H100-80GB") as (driver, _):
        plain, hopper = (fact.uuid for fact in driver.inventory())
        idle = driver.use((), (plain, hopper))
        assert idle[plain].utilization == 0
        with holding(plain, BUSY), holding(hopper, BUSY):
            eventually(lambda: driver.use((), (plain, hopper))[plain].utilization, lambda value: value > 10)
            eventually(lambda: driver.use((), (plain, hopper))[hopper].tensor or 0, lambda value: value > 5)
            use = driver.use((), (plain, hopper))[plain]
            assert use.tensor is None
            assert use.power_watts > 35
            assert use.memory_total_mib == 46068


def test_a_slice_that_is_gone_is_not_measurable(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        made = driver.create(driver.inventory()[0].uuid, 19, 0, 1)
        driver.destroy(made)
        assert driver.use((made,), ()) == {made.mig_uuid: DeviceUse()}


def test_the_test_itself_holds_no_device():
    assert not os.environ.get("CUDA_VISIBLE_DEVICES", "").startswith(("GPU-", "MIG-"))
