"""Control of a simulated node: ``python -m agents.drivers.simulator --state FILE COMMAND``. Prints JSON."""

import argparse
import json
import sys
from pathlib import Path
from typing import Any

import msgspec

from agents.drivers.contract import DriverError
from agents.drivers.opening import open_driver
from agents.drivers.simulator.models import load_models
from agents.drivers.simulator.node import Event, Fault, NodeFile, create_node, reboot


def main(arguments: list[str] | None = None) -> int:
    options = _parser().parse_args(arguments)
    try:
        answer = options.run(options)
    except (DriverError, KeyError, ValueError, OSError) as error:
        sys.stderr.write(f"{type(error).__name__}: {error}\n")
        return 1
    sys.stdout.write(json.dumps(msgspec.to_builtins(answer), indent=1) + "\n")
    return 0


def create(options: argparse.Namespace) -> Any:
    gpus = [{"model": text.partition(":")[0], "mig": text.endswith(":mig")} for text in options.gpu]
    return create_node(options.state, options.name, gpus)


def show(options: argparse.Namespace) -> Any:
    return NodeFile(options.state).read()


def models(options: argparse.Namespace) -> Any:
    return {
        key: {"product": model.product, "source": model.source, "profiles": [each.name for each in model.profiles]}
        for key, model in load_models().items()
    }


def reboot_node(options: argparse.Namespace) -> Any:
    file = NodeFile(options.state)
    reboot(file)
    return {"boot_id": file.read().boot_id}


def lose(options: argparse.Namespace) -> Any:
    return _set_lost(options, True)


def restore(options: argparse.Namespace) -> Any:
    return _set_lost(options, False)


def _set_lost(options: argparse.Namespace, lost: bool) -> Any:
    with NodeFile(options.state).change() as node:
        gpu = node.gpu(options.which)
        gpu.lost = lost
    return {"gpu_uuid": gpu.uuid, "lost": lost}


def xid(options: argparse.Namespace) -> Any:
    """Of the GPU, or of the instance that begins at ``--start``."""
    with NodeFile(options.state).change() as node:
        gpu = node.gpu(options.which)
        event = Event(sequence=0, gpu_uuid=gpu.uuid, xid=options.number)
        if options.start is not None:
            at = [instance for instance in gpu.instances if instance.start == options.start]
            if not at:
                raise ValueError(f"No instance of {gpu.uuid} begins at slice {options.start}.")
            event.gpu_instance = at[0].id
            event.compute_instance = at[0].compute[0].id if at[0].compute else None
        node.tell(event)
    return event


def mig(options: argparse.Namespace) -> Any:
    """The administrator's switch: refused while the GPU has instances."""
    wanted = options.mode == "on"
    with NodeFile(options.state).change() as node:
        gpu = node.gpu(options.which)
        if not load_models()[gpu.model].profiles:
            raise ValueError(f"{gpu.model} has no MIG.")
        if gpu.instances:
            raise ValueError(f"{gpu.uuid} has instances; clear them first.")
        gpu.mig_current = gpu.mig_pending = wanted
        others = [index for index in node.mig_on_boot if index != gpu.index]
        node.mig_on_boot = sorted([*others, gpu.index]) if wanted else others
    return {"gpu_uuid": gpu.uuid, "mig": wanted}


def fault(options: argparse.Namespace) -> Any:
    injected = Fault(code=options.code, times=options.times, seconds=options.seconds)
    with NodeFile(options.state).change() as node:
        node.faults[options.symbol] = injected
    return {options.symbol: msgspec.to_builtins(injected)}


def read_slices(options: argparse.Namespace) -> Any:
    """Read through the real pynvml. A GPU with MIG off is listed while processes hold it, without a MIG UUID."""
    driver = open_driver(options.state)
    try:
        present = driver.instances()
        whole = [fact for fact in driver.inventory() if fact.healthy and not fact.mig_enabled]
        uses = driver.use(present, tuple(fact.uuid for fact in whole))
    finally:
        driver.close()
    rows = [
        (known.gpu_uuid, known.start, known.size, known.mig_uuid, uses[known.mig_uuid].pids if known.mig_uuid else None)
        for known in present
    ]
    rows += [(fact.uuid, 0, fact.memory_slices, None, uses[fact.uuid].pids) for fact in whole if uses[fact.uuid].pids]
    return [dict(zip(("gpu_uuid", "start", "size", "mig_uuid", "pids"), row, strict=True)) for row in rows]


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m agents.drivers.simulator", description=__doc__)
    parser.add_argument("--state", type=Path, required=True, help="the node's file")
    commands = parser.add_subparsers(required=True)
    _add(commands, "show", show, "the whole state")
    _add(commands, "models", models, "the GPU models that can be simulated")
    _add(commands, "reboot", reboot_node, "a new boot: instances are gone")
    _add(commands, "read-slices", read_slices, "what the driver shows now")
    making = _add(commands, "create", create, "write a new node")
    making.add_argument("name")
    making.add_argument("--gpu", action="append", required=True, help="MODEL or MODEL:mig; once for each GPU")
    for name, run, text in (("lose-gpu", lose, "off the bus"), ("restore-gpu", restore, "back on the bus")):
        _add(commands, name, run, text).add_argument("which", help="UUID or index")
    event = _add(commands, "xid", xid, "an XID event")
    event.add_argument("which", help="UUID or index")
    event.add_argument("number", type=int)
    event.add_argument("--start", type=int, help="first slice of the instance that is meant")
    mode = _add(commands, "mig", mig, "turn MIG on or off")
    mode.add_argument("which", help="UUID or index")
    mode.add_argument("mode", choices=("on", "off"))
    failing = _add(commands, "fault", fault, "let the next calls of a symbol fail")
    failing.add_argument("symbol")
    failing.add_argument("--code", type=int, help="NVML's number; 0 says OK and does nothing; without it only late")
    failing.add_argument("--times", type=int, default=1)
    failing.add_argument("--seconds", type=float, default=0.0)
    return parser


def _add(commands: Any, name: str, run: Any, text: str) -> argparse.ArgumentParser:
    parser = commands.add_parser(name, help=text)
    parser.set_defaults(run=run)
    return parser


if __name__ == "__main__":
    sys.exit(main())
