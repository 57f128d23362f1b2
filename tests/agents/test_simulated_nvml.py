"""The real pynvml over the simulated library: legal places, life cycle, error codes, default placement."""

import ctypes

import pynvml
import pytest

from agents.drivers.simulator import reboot
from agents.drivers.simulator.models import load_models
from tests.agents.simulated import holding, raw_node

MIG_MODELS = [key for key, model in load_models().items() if model.profiles]


def places(gpu, profile_id):
    count = ctypes.c_uint()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile_id, None, ctypes.byref(count))
    array = (pynvml.c_nvmlGpuInstancePlacement_t * count.value)()
    pynvml.nvmlDeviceGetGpuInstancePossiblePlacements(gpu, profile_id, array, ctypes.byref(count))
    return [(place.start, place.size) for place in array]


def make(gpu, profile_id, start, size):
    placement = pynvml.c_nvmlGpuInstancePlacement_t(start, size)
    return pynvml.nvmlDeviceCreateGpuInstanceWithPlacement(gpu, profile_id, ctypes.byref(placement))


def fill(instance, profile_id):
    compute = pynvml.nvmlGpuInstanceCreateComputeInstance(instance, profile_id)
    return compute, pynvml.nvmlComputeInstanceGetInfo(compute).device


def test_nothing_answers_before_init(tmp_path):
    with raw_node(tmp_path, "L40S"):
        pynvml.nvmlShutdown()
        with pytest.raises(pynvml.NVMLError_Uninitialized):
            pynvml.nvmlDeviceGetCount()


@pytest.mark.parametrize("key", MIG_MODELS)
def test_every_place_of_every_profile_is_legal_and_no_other(tmp_path, key):
    model = load_models()[key]
    with raw_node(tmp_path, f"{key}:mig"):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        for profile in model.profiles:
            offered = places(gpu, profile.profile_id)
            assert offered == list(profile.spans)
            for start in range(model.memory_slices):
                size = offered[0][1]
                if (start, size) in offered:
                    pynvml.nvmlGpuInstanceDestroy(make(gpu, profile.profile_id, start, size))
                else:
                    with pytest.raises(pynvml.NVMLError_InvalidArgument):
                        make(gpu, profile.profile_id, start, size)


@pytest.mark.parametrize("key", MIG_MODELS)
def test_a_gpu_takes_each_profile_as_often_as_it_says(tmp_path, key):
    with raw_node(tmp_path, f"{key}:mig"):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        for profile in load_models()[key].profiles:
            assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile.profile_id) == profile.max_count
            made = [pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.profile_id) for _ in range(profile.max_count)]
            assert pynvml.nvmlDeviceGetGpuInstanceRemainingCapacity(gpu, profile.profile_id) == 0
            with pytest.raises(pynvml.NVMLError_InsufficientResources):
                pynvml.nvmlDeviceCreateGpuInstance(gpu, profile.profile_id)
            for instance in made:
                pynvml.nvmlGpuInstanceDestroy(instance)


@pytest.mark.parametrize(
    ("key", "swapped", "wanted", "ids"),
    [
        ("A100-40GB", False, [19, 14, 5], [13, 5, 1]),
        ("A100-40GB", False, [9, 19, 14, 19], [2, 7, 4, 8]),
        ("A100-40GB", False, [19, 19, 14, 9], [13, 11, 3, None]),
        ("A100-40GB", False, [14, 19, 19, 19, 19, 19], [5, 13, 7, 8, 9, 10]),
        ("H100-80GB", False, [9, 14], [2, 3]),
        ("H100-80GB", True, [19] * 7, [9, 7, 8, 11, 12, 13, 14]),
    ],
)
def test_without_a_place_the_driver_chooses_as_public_transcripts_show(tmp_path, key, swapped, wanted, ids):
    with raw_node(tmp_path, f"{key}:mig") as file:
        with file.change() as node:
            node.gpus[0].swapped = swapped
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        got = []
        for profile_id in wanted:
            try:
                got.append(pynvml.nvmlGpuInstanceGetInfo(pynvml.nvmlDeviceCreateGpuInstance(gpu, profile_id)).id)
            except pynvml.NVMLError_InsufficientResources:
                got.append(None)
        assert got == ids


def test_media_engines_exist_once_on_a_gpu(tmp_path):
    with raw_node(tmp_path, "A30:mig"):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        make(gpu, 21, 0, 1)
        with pytest.raises(pynvml.NVMLError_InsufficientResources):
            make(gpu, 6, 2, 2)
        make(gpu, 5, 2, 2)


def test_an_instance_lives_and_dies_in_order(tmp_path):
    with raw_node(tmp_path, "H100-80GB:mig"):
        gpu = pynvml.nvmlDeviceGetHandleByIndex(0)
        instance = make(gpu, 9, 4, 4)
        info = pynvml.nvmlGpuInstanceGetInfo(instance)
        assert (info.placement.start, info.placement.size, info.profileId) == (4, 4, 9)
        compute, mig = fill(instance, 2)
        uuid = pynvml.nvmlDeviceGetUUID(mig)
        assert len(uuid) == 40
        assert pynvml.nvmlDeviceGetName(mig) == "NVIDIA H100 80GB HBM3 MIG 3g.40gb"
        assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 0)) == uuid
        assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlDeviceGetHandleByUUID(uuid)) == uuid
        attributes = pynvml.nvmlDeviceGetAttributes(mig)
        assert (attributes.multiprocessorCount, attributes.memorySizeMB) == (60, 40448)
        assert bool(pynvml.nvmlDeviceIsMigDeviceHandle(mig))
        with pytest.raises(pynvml.NVMLError_InUse):
            pynvml.nvmlGpuInstanceDestroy(instance)
        pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlGpuInstanceDestroy(instance)
        again, _ = fill(make(gpu, 9, 4, 4), 2)
        assert pynvml.nvmlDeviceGetUUID(pynvml.nvmlComputeInstanceGetInfo(again).device) == uuid
        for stale in (instance, compute, mig):
            with pytest.raises(pynvml.NVMLError_InvalidArgument):
                pynvml.nvmlGpuInstanceGetInfo(stale)
        with pytest.raises(pynvml.NVMLError_InvalidArgument):
            pynvml.nvmlDeviceGetUUID(mig)


def test_refusals_have_the_codes_of_the_device(tmp_path):
    with raw_node(tmp_path, "A100-40GB:mig", "L40S", "A100-40GB") as file:
        gpu, plain, off = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(3))
        instance = make(gpu, 9, 4, 4)
        fill(instance, 0)
        for error, call in (
            (pynvml.NVMLError_InvalidArgument, lambda: pynvml.nvmlDeviceGetHandleByIndex(9)),
            (pynvml.NVMLError_NotFound, lambda: pynvml.nvmlDeviceGetHandleByUUID("GPU-none")),
            (pynvml.NVMLError_FunctionNotFound, lambda: pynvml.nvmlDeviceGetFanSpeed(gpu)),
            (pynvml.NVMLError_NotSupported, lambda: pynvml.nvmlDeviceGetMigMode(plain)),
            (pynvml.NVMLError_NotSupported, lambda: make(off, 9, 4, 4)),
            (pynvml.NVMLError_InvalidArgument, lambda: make(gpu, 47, 0, 1)),
            (pynvml.NVMLError_InsufficientResources, lambda: make(gpu, 9, 4, 4)),
            (pynvml.NVMLError_InsufficientResources, lambda: fill(instance, 2)),
            (pynvml.NVMLError_NotSupported, lambda: fill(instance, 7)),
            (pynvml.NVMLError_NotFound, lambda: pynvml.nvmlDeviceGetGpuInstanceById(gpu, 14)),
            (pynvml.NVMLError_NotFound, lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 5)),
            (pynvml.NVMLError_InvalidArgument, lambda: pynvml.nvmlDeviceGetMigDeviceHandleByIndex(gpu, 7)),
            (pynvml.NVMLError_NotSupported, lambda: pynvml.nvmlDeviceGetUtilizationRates(gpu)),
            (pynvml.NVMLError_NotSupported, lambda: pynvml.nvmlDeviceGetAttributes(gpu)),
            (pynvml.NVMLError_NotSupported, lambda: pynvml.nvmlGpmMigSampleGet(gpu, 2, pynvml.nvmlGpmSampleAlloc())),
            (pynvml.NVMLError_InvalidArgument, lambda: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 18)),
            (pynvml.NVMLError_NotSupported, lambda: pynvml.nvmlDeviceGetGpuInstanceProfileInfo(gpu, 5)),
            (pynvml.NVMLError_InvalidArgument, lambda: pynvml.nvmlDeviceSetMigMode(gpu, 2)),
        ):
            with pytest.raises(error):
                call()
        with file.change() as node:
            node.root = False
        with pytest.raises(pynvml.NVMLError_NoPermission):
            make(gpu, 19, 0, 1)
        with file.change() as node:
            node.gpus[0].lost = True
        with pytest.raises(pynvml.NVMLError_GpuIsLost):
            pynvml.nvmlDeviceGetMemoryInfo(gpu)


def test_a_live_process_keeps_its_slice(tmp_path):
    with raw_node(tmp_path, "A100-40GB:mig"):
        instance = make(pynvml.nvmlDeviceGetHandleByIndex(0), 19, 3, 1)
        compute, mig = fill(instance, 0)
        with holding(pynvml.nvmlDeviceGetUUID(mig)), pytest.raises(pynvml.NVMLError_InUse):
            pynvml.nvmlComputeInstanceDestroy(compute)
        pynvml.nvmlComputeInstanceDestroy(compute)


def test_mig_mode_of_a_busy_ampere_stays_pending(tmp_path):
    with raw_node(tmp_path, "A100-40GB", "H100-80GB") as file:
        with file.change() as node:
            for gpu in node.gpus:
                gpu.clients = ["dcgm"]
        ampere, hopper = (pynvml.nvmlDeviceGetHandleByIndex(index) for index in range(2))
        for gpu in (ampere, hopper):
            assert pynvml.nvmlDeviceSetMigMode(gpu, 1) == pynvml.NVML_ERROR_IN_USE
        assert pynvml.nvmlDeviceGetMigMode(ampere) == [0, 1]
        assert pynvml.nvmlDeviceGetMigMode(hopper) == [0, 0]
        reboot(file)
        assert pynvml.nvmlDeviceGetMigMode(ampere) == [1, 1]
        assert pynvml.nvmlDeviceSetMigMode(hopper, 1) == pynvml.NVML_SUCCESS
        assert pynvml.nvmlDeviceGetMigMode(hopper) == [1, 1]
