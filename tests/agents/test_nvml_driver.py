"""The driver over the real pynvml and simulated nodes: inventory, instances, failures that must not lie."""

import dataclasses
import time

import msgspec
import pynvml
import pytest

from agents.drivers.contract import DriverError, HealthEvent, Instance
from agents.drivers.nvml import NvmlDriver
from agents.drivers.nvml_profiles import MIB, computed_name
from agents.drivers.opening import open_driver
from agents.drivers.simulator import SimulatedNvml, install, reboot, uninstall
from agents.drivers.simulator.models import ComputeProfile, load_models
from agents.drivers.simulator.node import Event, Fault
from tests.agents.simulated import driven_node, eventually, holding, write_node_file

MIG_MODELS = [key for key, model in load_models().items() if model.profiles]
CREATE_INSTANCE = "nvmlDeviceCreateGpuInstanceWithPlacement"
CREATE_COMPUTE = "nvmlGpuInstanceCreateComputeInstance"


def inject(file, symbol, code, times=1):
    with file.change() as node:
        node.faults[symbol] = Fault(code=code, times=times)


def uuids(driver):
    return [fact.uuid for fact in driver.inventory()]


@pytest.mark.parametrize("key", MIG_MODELS)
def test_the_inventory_is_what_the_model_file_says(tmp_path, key):
    model = load_models()[key]
    with driven_node(tmp_path, f"{key}:mig", key) as (driver, _):
        on, off = driver.inventory()
        assert {(fact.name, fact.profile_id, fact.starts, fact.memory_mib) for fact in on.profiles} == {
            (each.name, each.profile_id, tuple(start for start, _ in each.spans), each.memory_mib)
            for each in model.profiles
        }
        for fact in (on, off):
            assert (fact.memory_slices, fact.compute_slices) == (model.memory_slices, model.compute_slices)
        assert (on.mig_enabled, off.mig_enabled, off.mig_capable) == (True, False, True)
        assert (on.measured, off.measured) == (model.gpm, True)
        (full,) = off.profiles
        assert (full.name, full.profile_id, full.starts, full.size) == ("full", None, (0,), model.memory_slices)
        assert (full.memory_mib, full.max_count) == (model.memory_mib, 1)


def test_a_gpu_without_mig_is_one_full_span(tmp_path):
    with driven_node(tmp_path, "L40S") as (driver, _):
        (fact,) = driver.inventory()
        assert (fact.model, fact.mig_capable, fact.memory_slices) == ("NVIDIA L40S", False, 8)
        assert [(each.name, each.size, each.compute_slices) for each in fact.profiles] == [("full", 8, 7)]
        assert driver.instances() == ()


@pytest.mark.parametrize("key", MIG_MODELS)
def test_an_old_driver_without_names_gives_the_same_profiles(tmp_path, key):
    file = write_node_file(tmp_path, f"{key}:mig")
    with file.change() as node:
        node.hidden_symbols = ["nvmlDeviceGetGpuInstanceProfileInfoV"]
    driver = open_driver(file.path)
    assert {each.name for each in driver.inventory()[0].profiles} == {each.name for each in load_models()[key].profiles}
    driver.close()
    uninstall()


def test_names_are_computed_from_the_memory_of_the_board():
    assert computed_name(0, 1, 9984, 81559 * MIB) == "1g.10gb"
    assert computed_name(2, 3, 71168, 143771 * MIB) == "3g.71gb"


@pytest.mark.parametrize("key", MIG_MODELS)
def test_every_place_can_be_made_read_back_and_cleared(tmp_path, key):
    with driven_node(tmp_path, f"{key}:mig") as (driver, file):
        (gpu,) = driver.inventory()
        for fact in gpu.profiles:
            for start in fact.starts:
                made = driver.create(gpu.uuid, fact.profile_id, start, fact.size)
                assert (made.start, made.size, made.profile_id) == (start, fact.size, fact.profile_id)
                assert driver.instances() == (made,)
                (compute,) = file.read().gpus[0].instances[0].compute
                assert compute.uuid == made.mig_uuid
                profile = load_models()[key].by_id(fact.profile_id)
                filling = next(each for each in profile.compute if each.profile_id == compute.profile_id)
                assert filling.slices == fact.compute_slices
                driver.destroy(made)
                assert driver.instances() == ()


def test_the_compute_instance_is_chosen_by_its_multiprocessors_not_by_its_number(tmp_path):
    model = load_models()["H100-80GB"]
    profile = model.by_id(15)
    decoy, full = profile.compute[0], msgspec.structs.replace(profile.compute[0], index=7, profile_id=7)
    decoy = msgspec.structs.replace(decoy, multiprocessors=16)
    assert isinstance(decoy, ComputeProfile)
    changed = msgspec.structs.replace(profile, compute=(decoy, full))
    profiles = tuple(changed if each is profile else each for each in model.profiles)
    models = {"H100-80GB": msgspec.structs.replace(model, profiles=profiles)}
    with driven_node(tmp_path, "H100-80GB:mig", models=models) as (driver, file):
        driver.create(uuids(driver)[0], 15, 2, 2)
        assert file.read().gpus[0].instances[0].compute[0].profile_id == 7


@pytest.mark.case("M-01")
def test_a_driver_that_says_ok_and_makes_nothing_is_not_believed(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, file):
        gpu = uuids(driver)[0]
        for symbol in (CREATE_INSTANCE, CREATE_COMPUTE):
            inject(file, symbol, pynvml.NVML_SUCCESS)
            with pytest.raises(DriverError):
                driver.create(gpu, 9, 0, 4)
            assert driver.instances() == ()
        made = driver.create(gpu, 9, 0, 4)
        for symbol in ("nvmlComputeInstanceDestroy", "nvmlGpuInstanceDestroy"):
            inject(file, symbol, pynvml.NVML_SUCCESS)
            with pytest.raises(DriverError):
                driver.destroy(made)
            assert [known.start for known in driver.instances()] == [0]
        driver.destroy(made)


@pytest.mark.case("M-03")
def test_only_the_gpu_that_is_named_is_touched(tmp_path):
    with driven_node(tmp_path, *["A100-40GB:mig"] * 4) as (driver, _):
        gpus = uuids(driver)
        kept = driver.create(gpus[3], 14, 2, 2)
        made = driver.create(gpus[1], 9, 4, 4)
        assert set(driver.instances()) == {kept, made}
        driver.destroy(made)
        assert driver.instances() == (kept,)


@pytest.mark.case("M-05")
def test_nothing_half_made_stays_when_the_compute_instance_fails(tmp_path):
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, file):
        gpu = uuids(driver)[0]
        beside = driver.create(gpu, 19, 0, 1)
        inject(file, CREATE_COMPUTE, pynvml.NVML_ERROR_UNKNOWN)
        with pytest.raises(DriverError) as refused:
            driver.create(gpu, 9, 4, 4)
        assert refused.value.code == pynvml.NVML_ERROR_UNKNOWN
        assert driver.instances() == (beside,)


@pytest.mark.case("M-05")
def test_what_cannot_be_cleared_is_shown_half_made_and_can_be_cleared_later(tmp_path):
    """The agent may die between the two steps."""
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, file):
        gpu = uuids(driver)[0]
        inject(file, CREATE_COMPUTE, pynvml.NVML_ERROR_UNKNOWN)
        inject(file, "nvmlGpuInstanceDestroy", pynvml.NVML_ERROR_IN_USE)
        with pytest.raises(DriverError, match="half made"):
            driver.create(gpu, 9, 4, 4)
        (left,) = driver.instances()
        assert left == Instance(gpu, 4, 4, 9, None)
        driver.destroy(left)
        assert driver.instances() == ()


def test_a_slice_in_use_is_refused_with_the_processes_that_hold_it(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        made = driver.create(uuids(driver)[0], 19, 5, 1)
        driver.use((made,), ())
        with holding(made.mig_uuid) as pid:
            with pytest.raises(DriverError) as refused:
                driver.destroy(made)
            assert refused.value.code == pynvml.NVML_ERROR_IN_USE
            assert refused.value.holders == (pid,)
            assert driver.instances() == (made,)
        driver.destroy(made)
        driver.destroy(made)
        assert driver.instances() == ()


def test_samples_are_let_go_before_an_instance_is_cleared(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        made = driver.create(uuids(driver)[0], 19, 5, 1)
        driver.use((made,), ())
        driver.destroy(made)
        assert driver.instances() == ()


@pytest.mark.parametrize(
    ("first", "second", "reason"),
    [
        ((19, 5, 1), (9, 4, 4), "taken by the GPU instance at slices 5 to 6"),
        ((20, 0, 1), (20, 3, 1), "takes 1g.10gb\\+me 1 times"),
    ],
)
def test_a_lack_of_room_is_explained(tmp_path, first, second, reason):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        gpu = uuids(driver)[0]
        made = driver.create(gpu, *first)
        with pytest.raises(DriverError, match=reason):
            driver.create(gpu, *second)
        assert driver.instances() == (made,)


def test_a_place_that_is_not_legal_is_refused(tmp_path):
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, _):
        with pytest.raises(DriverError) as refused:
            driver.create(uuids(driver)[0], 9, 1, 4)
        assert refused.value.code == pynvml.NVML_ERROR_INVALID_ARGUMENT
        with pytest.raises(DriverError, match="no profile 47"):
            driver.create(uuids(driver)[0], 47, 0, 1)


@pytest.mark.case("T-02")
def test_a_lost_gpu_is_reported_and_hides_no_other(tmp_path):
    with driven_node(tmp_path, *["H100-80GB:mig"] * 8) as (driver, file):
        gpus = uuids(driver)
        made = tuple(driver.create(gpu, 19, 2, 1) for gpu in gpus)
        with file.change() as node:
            node.gpus[3].lost = True
        facts = driver.inventory()
        assert [fact.uuid for fact in facts] == gpus
        assert [fact.healthy for fact in facts] == [True] * 3 + [False] + [True] * 4
        assert "lost" in facts[3].fault
        assert facts[3].profiles == facts[2].profiles
        assert set(driver.instances()) == set(made)
        samples = driver.gpu_samples()
        assert [sample.power_watts is None for sample in samples] == [index == 3 for index in range(8)]
        uses = driver.use(made, ())
        assert [uses[each.mig_uuid].memory_total_mib is None for each in made] == [index == 3 for index in range(8)]
        with pytest.raises(DriverError) as refused:
            driver.destroy(made[3])
        assert refused.value.code == pynvml.NVML_ERROR_GPU_IS_LOST
        with file.change() as node:
            node.gpus[3].lost = False
        assert all(fact.healthy and not fact.fault for fact in driver.inventory())


def test_instances_are_gone_after_a_reboot_and_the_same_place_has_the_same_uuid(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, file):
        gpu = uuids(driver)[0]
        before = driver.create(gpu, 9, 4, 4)
        with holding(before.mig_uuid) as pid:
            reboot(file)
            eventually(lambda: driver.use((before,), ())[before.mig_uuid].pids, lambda pids: not pids)
            assert pid
        assert driver.instances() == ()
        assert driver.create(gpu, 9, 4, 4) == before


def test_a_pending_mig_mode_is_told(tmp_path):
    with driven_node(tmp_path, "A100-40GB") as (driver, file):
        with file.change() as node:
            node.gpus[0].mig_pending = True
        (fact,) = driver.inventory()
        assert not fact.mig_enabled
        assert "waits for a reset" in fact.fault


def test_an_xid_is_blamed_on_the_slice_that_it_names(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig", "L40S") as (driver, file):
        gpus = uuids(driver)
        driver.create(gpus[0], 9, 4, 4)
        with file.change() as node:
            instance_id = node.gpus[0].instances[0].id
            assert instance_id != 4
            node.tell(Event(sequence=0, gpu_uuid=gpus[0], xid=43, gpu_instance=instance_id, compute_instance=0))
            node.tell(Event(sequence=0, gpu_uuid=gpus[1], xid=79))
            node.tell(Event(sequence=0, gpu_uuid=gpus[0], xid=43, gpu_instance=13, compute_instance=0))
        assert driver.health_events() == (HealthEvent(gpus[0], 43, 4), HealthEvent(gpus[1], 79, None))
        assert driver.health_events() == ()


def test_a_driver_that_is_not_loaded_can_be_opened_later(tmp_path):
    file = write_node_file(tmp_path, "L40S")
    inject(file, "nvmlInitWithFlags", pynvml.NVML_ERROR_DRIVER_NOT_LOADED, times=3)
    for _ in range(3):
        with pytest.raises(DriverError) as refused:
            NvmlDriver(lambda: install(SimulatedNvml(file.path)))
        assert refused.value.code == pynvml.NVML_ERROR_DRIVER_NOT_LOADED
    driver = open_driver(file.path)
    assert driver.versions() == file.read().driver_version
    driver.close()
    with pytest.raises(DriverError, match="no simulated node"):
        open_driver(tmp_path / "none.json")
    uninstall()


def test_a_pass_over_a_full_node_is_cheap(tmp_path):
    with driven_node(tmp_path, *["H100-80GB:mig"] * 8) as (driver, _):
        made = [driver.create(gpu, 19, start, 1) for gpu in uuids(driver) for start in range(7)]
        began = time.monotonic()
        assert len(driver.instances()) == len(made) == 56
        assert time.monotonic() - began < 1
        assert dataclasses.is_dataclass(made[0])
