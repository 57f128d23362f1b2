"""A simulated node outlives the processes that look at it, and is one for all of them."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pynvml
import pytest

from agents.drivers.contract import DriverError
from agents.drivers.opening import open_driver
from agents.drivers.simulator import NodeFile, create_node, reboot, uninstall
from agents.drivers.simulator.models import load_models
from tests.agents.simulated import driven_node, holding, raw_node, write_node_file

ROOT = Path(__file__).resolve().parents[2]


def control(path, *arguments, status=0):
    command = [sys.executable, "-m", "agents.drivers.simulator", "--state", str(path), *arguments]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=60)
    assert done.returncode == status, done.stderr
    return json.loads(done.stdout) if status == 0 else done.stderr


def test_another_process_sees_what_this_one_made(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig", "L40S") as (driver, file):
        gpu, plain = (fact.uuid for fact in driver.inventory())
        made = driver.create(gpu, 9, 4, 4)
        with holding(plain) as pid:
            shown = control(file.path, "read-slices")
        slice_row = {"gpu_uuid": gpu, "start": 4, "size": 4, "mig_uuid": made.mig_uuid, "pids": []}
        whole_row = {"gpu_uuid": plain, "start": 0, "size": 8, "mig_uuid": None, "pids": [pid]}
        assert shown == [slice_row, whole_row]
    driver = open_driver(file.path)
    assert driver.instances() == (made,)
    driver.destroy(made)
    driver.close()
    uninstall()
    assert control(file.path, "read-slices") == []


def test_a_reboot_elsewhere_is_seen_here(tmp_path):
    with driven_node(tmp_path, "A100-40GB:mig") as (driver, file):
        before = file.read().boot_id
        driver.create(driver.inventory()[0].uuid, 19, 0, 1)
        after = control(file.path, "reboot")["boot_id"]
        assert after == file.read().boot_id != before
        assert driver.instances() == ()


def test_mig_mode_after_a_reboot_is_that_of_the_generation(tmp_path):
    path = tmp_path / "node.json"
    gpus = [{"model": "A100-40GB", "mig": True}, {"model": "H100-80GB", "mig": True}]
    for on_boot, hopper_after in ((None, True), ((), False)):
        create_node(path, "node", gpus, mig_on_boot=on_boot)
        file = NodeFile(path)
        reboot(file)
        assert [gpu.mig_current for gpu in file.read().gpus] == [True, hopper_after]


def test_gpus_keep_their_uuids_and_no_two_nodes_share_one(tmp_path):
    first = write_node_file(tmp_path, "L40S", "L40S").read()
    again = write_node_file(tmp_path, "L40S", "L40S").read()
    other = create_node(tmp_path / "other.json", "node", [{"model": "L40S"}, {"model": "L40S"}])
    seen = [gpu.uuid for node in (first, other) for gpu in node.gpus]
    assert len(set(seen)) == 4
    assert [gpu.uuid for gpu in again.gpus] == seen[:2]


TAKE_ALL = """
import sys
from pathlib import Path
from agents.drivers.contract import DriverError
from agents.drivers.opening import open_driver
driver = open_driver(Path(sys.argv[1]))
gpu, won = driver.inventory()[0].uuid, 0
sys.stdin.readline()
for start in range(7):
    try:
        driver.create(gpu, 19, start, 1)
        won += 1
    except DriverError as refusal:
        assert refusal.code == 23, refusal
sys.stdout.write(str(won))
"""
COUNT = """
import sys
from pathlib import Path
from agents.drivers.simulator import NodeFile
file = NodeFile(Path(sys.argv[1]))
sys.stdin.readline()
for _ in range(200):
    with file.change() as node:
        node.next_serial()
sys.stdout.write("200")
"""


def race(program, path, racers=3):
    """What each of several processes wrote, all let go at once."""
    command = [sys.executable, "-c", program, str(path)]
    started = [
        subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)
        for _ in range(racers)
    ]
    for racer in started:
        racer.stdin.write("go\n")
        racer.stdin.flush()
    said = [racer.communicate(timeout=60)[0] for racer in started]
    assert [racer.returncode for racer in started] == [0] * racers
    return [int(text) for text in said]


def test_processes_that_want_the_same_place_at_once_get_it_once(tmp_path):
    file = write_node_file(tmp_path, "A100-40GB:mig")
    assert sum(race(TAKE_ALL, file.path)) == 7
    assert len(file.read().gpus[0].instances) == 7


def test_no_change_of_one_process_is_lost_to_another(tmp_path):
    file = write_node_file(tmp_path, "L40S")
    assert sum(race(COUNT, file.path)) == file.read().serial == 600


def test_a_reader_never_takes_a_new_file_for_the_old_one(tmp_path):
    """Quick changes of one size, where the file system gives a freed inode out again within one tick of its clock."""
    file = write_node_file(tmp_path, "L40S")
    reader = NodeFile(file.path)
    for count in range(1000, 1600, 2):
        for version in (count, count + 1):
            with file.change() as node:
                node.driver_version = str(version)
        assert reader.read().driver_version == str(count + 1)


def test_threads_share_the_library(tmp_path):
    with driven_node(tmp_path, "H100-80GB:mig") as (driver, _):
        gpu = driver.inventory()[0].uuid

        def cycle(start):
            for _ in range(20):
                made = driver.create(gpu, 19, start, 1)
                driver.use((made,), ())
                driver.destroy(made)

        with ThreadPoolExecutor(7) as pool:
            list(pool.map(cycle, range(7)))
        assert driver.instances() == ()


def test_a_change_that_fails_leaves_the_file_as_it_was(tmp_path):
    file = write_node_file(tmp_path, "L40S")
    before = file.path.read_bytes()
    with pytest.raises(RuntimeError), file.change() as node:
        node.gpus.clear()
        raise RuntimeError
    assert file.path.read_bytes() == before
    assert sorted(path.name for path in tmp_path.iterdir()) == ["node.json", "node.json.lock"]


def test_a_node_whose_file_is_gone_has_no_driver(tmp_path):
    with raw_node(tmp_path, "L40S") as file:
        file.path.unlink()
        with pytest.raises(pynvml.NVMLError_DriverNotLoaded):
            pynvml.nvmlDeviceGetCount()


def test_the_control_makes_shows_and_breaks_a_node(tmp_path):
    path = tmp_path / "made" / "node.json"
    control(path, "create", "n1", "--gpu", "H100-80GB:mig", "--gpu", "A30")
    assert [gpu["model"] for gpu in control(path, "show")["gpus"]] == ["H100-80GB", "A30"]
    assert set(control(path, "models")) == set(load_models())
    control(path, "mig", "1", "on")
    control(path, "lose-gpu", "0")
    driver = open_driver(path)
    try:
        assert [fact.model for fact in driver.inventory()] == ["NVIDIA A30"]
        control(path, "restore-gpu", "0")
        assert [fact.healthy for fact in driver.inventory()] == [True, True]
        made = driver.create(driver.inventory()[1].uuid, 5, 2, 2)
        control(path, "xid", "1", "43", "--start", "2")
        assert [(event.xid, event.start) for event in driver.health_events()] == [(43, 2)]
        control(path, "fault", "nvmlComputeInstanceDestroy", "--code", "19")
        with pytest.raises(DriverError, match="In use"):
            driver.destroy(made)
        driver.destroy(made)
    finally:
        driver.close()
        uninstall()


def test_the_control_says_what_is_wrong(tmp_path):
    path = tmp_path / "node.json"
    assert "no model B300" in control(path, "create", "n1", "--gpu", "B300", status=1)
    control(path, "create", "n1", "--gpu", "L40S")
    assert "has no MIG" in control(path, "mig", "0", "on", status=1)
    assert "KeyError" in control(path, "lose-gpu", "7", status=1)


def test_every_model_names_its_source():
    for model in load_models().values():
        assert model.source
        assert model.board.source
        assert all(span[0] + span[1] <= model.memory_slices for each in model.profiles for span in each.spans)
