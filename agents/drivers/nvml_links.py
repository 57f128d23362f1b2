"""How the GPUs of a machine reach each other: by NVLinks, straight or through switches, else over PCIe."""

from collections import Counter
from collections.abc import Callable
from typing import Any, NamedTuple

import pynvml

from agents.drivers.nvml_errors import UNKNOWN_TO_DRIVER

# The words of ``nvidia-smi topo``, which those who run the machines know. INTERNAL is one board that carries several.
PCIE_WORDS = {
    pynvml.NVML_TOPOLOGY_INTERNAL: "PIX",
    pynvml.NVML_TOPOLOGY_SINGLE: "PIX",
    pynvml.NVML_TOPOLOGY_MULTIPLE: "PXB",
    pynvml.NVML_TOPOLOGY_HOSTBRIDGE: "PHB",
    pynvml.NVML_TOPOLOGY_NODE: "NODE",
    pynvml.NVML_TOPOLOGY_SYSTEM: "SYS",
}
NVLINK_WORD = "NV"

Links = dict[str, dict[str, str]]
Address = tuple[int, int, int]


class _Device(NamedTuple):
    handle: Any
    address: Address


class _Ends(NamedTuple):
    """Where the active NVLinks of one GPU end: how many at which other GPU, how many at switches."""

    at_gpus: Counter[Address]
    at_switches: int


def read_links(uuids: list[str]) -> Links:
    """For each GPU the word for the way to each other one. A pair of which the driver tells nothing is absent."""
    devices = {}
    for uuid in uuids:
        handle = pynvml.nvmlDeviceGetHandleByUUID(uuid)
        devices[uuid] = _Device(handle, _address(pynvml.nvmlDeviceGetPciInfo(handle)))
    ends = {uuid: _ends(device) for uuid, device in devices.items()}
    links: Links = {uuid: {} for uuid in uuids}
    for place, uuid in enumerate(uuids):
        for other in uuids[place + 1 :]:
            word = _word(devices[uuid], devices[other], ends[uuid], ends[other])
            if word:
                links[uuid][other] = links[other][uuid] = word
    return links


def _word(one: _Device, other: _Device, from_one: _Ends, from_other: _Ends) -> str:
    straight = min(from_one.at_gpus[other.address], from_other.at_gpus[one.address])
    nvlinks = straight + min(from_one.at_switches, from_other.at_switches)
    if nvlinks:
        return f"{NVLINK_WORD}{nvlinks}"
    level = _told(lambda: pynvml.nvmlDeviceGetTopologyCommonAncestor(one.handle, other.handle))
    return "" if level is None else PCIE_WORDS.get(level, "")


def _ends(device: _Device) -> _Ends:
    at_gpus: Counter[Address] = Counter()
    at_switches = 0
    for link in range(pynvml.NVML_NVLINK_MAX_LINKS):
        state = _told(lambda link=link: pynvml.nvmlDeviceGetNvLinkState(device.handle, link))  # type: ignore[misc]
        if state != pynvml.NVML_FEATURE_ENABLED:
            continue
        if _ends_at_switch(device.handle, link):
            at_switches += 1
            continue
        remote = _told(lambda link=link: pynvml.nvmlDeviceGetNvLinkRemotePciInfo(device.handle, link))  # type: ignore[misc]
        if remote is not None:
            at_gpus[_address(remote)] += 1
    return _Ends(at_gpus, at_switches)


def _ends_at_switch(handle: Any, link: int) -> bool:
    kind = _told(lambda: pynvml.nvmlDeviceGetNvLinkRemoteDeviceType(handle, link))
    return kind == pynvml.NVML_NVLINK_DEVICE_TYPE_SWITCH


def _told(ask: Callable[[], Any]) -> Any:
    """None where the driver, the board or the link does not have it."""
    try:
        return ask()
    except pynvml.NVMLError as error:
        if error.value in UNKNOWN_TO_DRIVER:
            return None
        raise


def _address(info: Any) -> Address:
    return info.domain, info.bus, info.device
