"""The CDI spec is compared before each start and made again when it was deleted, cut short or went stale."""

import json
import stat
from pathlib import Path

import pytest

from agents.containers.cdi import CdiSpec, simulated_spec, toolkit_spec
from agents.containers.contract import EngineError

ONE, TWO = "MIG-1", "MIG-2"


@pytest.fixture
def spec(tmp_path):
    return CdiSpec(tmp_path / "cdi", "7", simulated_spec)


@pytest.fixture
def file(tmp_path):
    return tmp_path / "cdi" / "berth-7.json"


def names(file: Path) -> list[str]:
    return [entry["name"] for entry in json.loads(file.read_text())["devices"]]


def test_every_device_is_named_after_ensure(spec, file):
    spec.ensure((ONE, TWO))
    assert names(file) == [ONE, TWO]
    assert spec.nodes_of(ONE) == {f"/dev/berth/{ONE}"}


@pytest.mark.parametrize("damage", [
    lambda file: file.unlink(),
    lambda file: file.write_text(file.read_text()[:40]),
    lambda file: file.write_text(json.dumps(simulated_spec((TWO,)))),
    lambda file: file.write_text(json.dumps(simulated_spec((ONE,)) | {"kind": "else/gpu"})),
], ids=["deleted", "truncated", "stale", "another kind"])
def test_a_spec_that_does_not_name_the_device_is_made_again(spec, file, damage):
    spec.ensure((ONE,))
    damage(file)
    spec.ensure((ONE,))
    assert names(file) == [ONE]


def test_a_spec_left_by_an_earlier_run_is_not_believed(spec, file):
    spec.ensure((ONE,))
    file.write_text(file.read_text().replace('"minor": 5', '"minor": 3'))
    CdiSpec(file.parent, "7", simulated_spec).ensure((ONE,))
    assert '"minor": 5' in file.read_text()


def test_a_folder_that_cannot_be_written_is_told(tmp_path):
    (tmp_path / "cdi").write_text("a file where the folder should be")
    with pytest.raises(EngineError, match="cannot be written"):
        CdiSpec(tmp_path / "cdi", "7", simulated_spec).ensure((ONE,))


def test_a_generator_that_leaves_a_device_out_is_not_believed(tmp_path):
    with pytest.raises(EngineError, match="lacks MIG-2"):
        CdiSpec(tmp_path, "7", lambda devices: simulated_spec(devices[:1])).ensure((ONE, TWO))


def toolkit(tmp_path: Path, script: str) -> str:
    program = tmp_path / "nvidia-ctk"
    program.write_text(f"#!/bin/sh\n{script}\n")
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


def test_the_toolkit_is_asked_for_our_vendor_and_its_answer_is_taken(tmp_path):
    answer = json.dumps(simulated_spec((ONE,)))
    program = toolkit(tmp_path, f"echo \"$@\" > {tmp_path}/asked; cat <<'END'\n{answer}\nEND")
    assert toolkit_spec((ONE,), program)["devices"][0]["name"] == ONE
    asked = (tmp_path / "asked").read_text()
    assert "cdi generate --vendor=berth.local --class=gpu --device-name-strategy=uuid --format=json" in asked


def test_a_toolkit_that_fails_is_quoted_in_its_own_words(tmp_path):
    program = toolkit(tmp_path, "echo 'failed to initialize NVML: Driver/library version mismatch' >&2; exit 1")
    with pytest.raises(EngineError, match="version mismatch"):
        toolkit_spec((ONE,), program)
    with pytest.raises(EngineError, match="not installed"):
        toolkit_spec((ONE,), str(tmp_path / "nothing"))
