"""NVML symbols about how the GPUs of a node are joined: PCIe levels and NVLinks, as the models' files say."""

from collections.abc import Callable
from typing import Any

import pynvml

from agents.drivers.simulator.arguments import InvalidArgument, NotSupported, number, target
from agents.drivers.simulator.node import Gpu
from agents.drivers.simulator.session import Session
from agents.drivers.simulator.symbols_device import write_pci

SWITCH_BUS_ID = "00000000:C0:00.0"


def common_ancestor(session: Session, one: Any, other: Any, reference: Any) -> None:
    first, second = session.gpu(one), session.gpu(other)
    if first.uuid == second.uuid:
        target(reference).value = pynvml.NVML_TOPOLOGY_INTERNAL
        return
    target(reference).value = session.model(first).ways.level(first.index, second.index)


def nvlink_state(session: Session, handle: Any, link: Any, reference: Any) -> None:
    """A link whose other end is missing is there and off."""
    gpu = _gpu_with_link(session, handle, link)
    joined = session.model(gpu).ways.nvlinks_end_at == "switch" or _paired(session, gpu) is not None
    target(reference).value = pynvml.NVML_FEATURE_ENABLED if joined else pynvml.NVML_FEATURE_DISABLED


def nvlink_remote_type(session: Session, handle: Any, link: Any, reference: Any) -> None:
    gpu = _gpu_with_link(session, handle, link)
    switched = session.model(gpu).ways.nvlinks_end_at == "switch"
    kind = pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH if switched else pynvml.NVML_NVLINK_DEVICE_TYPE_GPU
    target(reference).value = kind


def nvlink_remote_pci(session: Session, handle: Any, link: Any, reference: Any) -> None:
    gpu = _gpu_with_link(session, handle, link)
    if session.model(gpu).ways.nvlinks_end_at == "switch":
        write_pci(target(reference), SWITCH_BUS_ID)
        return
    pair = _paired(session, gpu)
    if pair is None:
        raise InvalidArgument
    write_pci(target(reference), pair.pci_bus_id)


def _gpu_with_link(session: Session, handle: Any, link: Any) -> Gpu:
    gpu = session.gpu(handle)
    nvlinks = session.model(gpu).ways.nvlinks
    if not nvlinks:
        raise NotSupported
    if not 0 <= number(link) < nvlinks:
        raise InvalidArgument
    return gpu


def _paired(session: Session, gpu: Gpu) -> Gpu | None:
    """The GPU at the other end of the bridge, if it is there and of the same model."""
    others = (one for one in session.node.gpus if one.index == gpu.index ^ 1 and one.model == gpu.model)
    return next(others, None)


SYMBOLS: dict[str, Callable[..., None]] = {
    "nvmlDeviceGetTopologyCommonAncestor": common_ancestor,
    "nvmlDeviceGetNvLinkState": nvlink_state,
    "nvmlDeviceGetNvLinkRemoteDeviceType": nvlink_remote_type,
    "nvmlDeviceGetNvLinkRemotePciInfo_v2": nvlink_remote_pci,
}
