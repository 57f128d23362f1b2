"""An image against a node before launch: what NVIDIA's tables say, and what nobody else checks with CDI."""

import pytest

from scheduler.advisor.compatibility import Reason, Verdict, image_fits_driver, nodes_that_bar
from scheduler.advisor.requirements import Machine, unmet
from scheduler.advisor.versions import cuda_of_driver, version, wheel


def machine(driver: str, capability: str = "9.0", **more) -> Machine:
    return Machine(version(driver), cuda_of_driver(version(driver)), version(capability), **more)


@pytest.mark.parametrize(
    ("driver", "capability", "framework", "release", "verdict", "reason"),
    [
        ("550.54.14", "9.0", "pytorch", "2.12.1", Verdict.REFUSE, Reason.DRIVER_TOO_OLD),
        ("580.95.05", "9.0", "torch", "2.12.1", Verdict.OK, Reason.FITS),
        ("580.95.05", "7.0", "pytorch", "2.12", Verdict.REFUSE, Reason.NO_CODE),
        ("535.54.03", "9.0", "pytorch", "2.6.0", Verdict.WARN, Reason.LIMITED),
        ("580.95.05", "10.0", "tensorflow", "2.20", Verdict.WARN, Reason.CODE_IS_COMPILED_FIRST),
        ("580.95.05", "10.0", "pytorch", "2.6", Verdict.REFUSE, Reason.NO_CODE),
        ("580.95.05", "8.9", "pytorch", "2.6", Verdict.OK, Reason.FITS),
        ("525.60.13", "8.0", "jax", "0.10.2", Verdict.WARN, Reason.LIMITED),
        ("550.54.14", "9.0", "pytorch", "9.9", Verdict.OK, Reason.UNKNOWN),
    ],
)
def test_a_framework_against_driver_and_gpu(driver, capability, framework, release, verdict, reason):
    found = image_fits_driver({}, machine(driver, capability), framework, release)
    assert (found.verdict, found.reason) == (verdict, reason)


def test_the_refusal_names_the_driver_that_it_takes_and_the_builds_that_would_run():
    found = image_fits_driver({}, machine("550.54.14"), "pytorch", "2.12")
    assert found.params == {"cuda": "13.0", "driver": "550.54.14", "needs": "580.65.06"}
    assert found.instead == ("12.6", "12.8")


@pytest.mark.parametrize(
    ("driver", "verdict"),
    [("450.51.05", Verdict.REFUSE), ("450.80.02", Verdict.WARN), ("520.61.05", Verdict.OK), ("580.95.05", Verdict.OK)],
)
def test_within_a_major_an_older_driver_runs_with_limits_and_a_newer_one_always(driver, verdict):
    assert image_fits_driver({"CUDA_VERSION": "11.8.0"}, machine(driver)).verdict is verdict


def test_forward_compatibility_is_for_the_data_centre_alone():
    image = {"CUDA_VERSION": "13.0.2", "NV_CUDA_COMPAT_PACKAGE": "cuda-compat-13-0"}
    assert image_fits_driver(image, machine("550.54.14")).verdict is Verdict.WARN
    assert image_fits_driver(image, machine("550.54.14", data_centre=False)).verdict is Verdict.REFUSE


def test_the_grammar_of_requirements():
    old, branch = machine("525.60.13"), machine("535.54.03")
    text = {"NVIDIA_REQUIRE_CUDA": "cuda>=12.4 brand=tesla,driver>=535,driver<536"}
    assert unmet(text, old) == text["NVIDIA_REQUIRE_CUDA"]
    assert unmet(text, branch) is None
    assert unmet(text, machine("535.54.03", brand="geforce")) is not None
    assert unmet(text | {"NVIDIA_DISABLE_REQUIRE": "true"}, old) is None
    assert unmet({"NVIDIA_REQUIRE_A": "driver>=500", "NVIDIA_REQUIRE_B": "arch>=9.5"}, old) == "arch>=9.5"
    assert unmet({"NVIDIA_REQUIRE_JETPACK": "csv-mounts=all", "NVIDIA_REQUIRE_NEW": "moon>=3"}, old) is None
    assert unmet({"CUDA_VERSION": "12.4.1"}, old) == "cuda>=12.4"


def test_a_requirement_is_a_warning_only_within_the_family_of_the_driver():
    image = {"CUDA_VERSION": "12.4.1", "NVIDIA_REQUIRE_CUDA": "cuda>=12.4"}
    assert image_fits_driver(image, machine("535.54.03")).verdict is Verdict.WARN
    assert image_fits_driver(image, machine("515.43.04")).verdict is Verdict.REFUSE
    assert image_fits_driver({"NVIDIA_REQUIRE_X": "driver>=600"}, machine("580.95.05")).reason is Reason.REQUIREMENT


def test_the_fleet_knows_its_nodes_that_bar_what_is_current():
    fleet = {"old": machine("550.54.14", "8.0"), "new": machine("580.95.05")}
    assert nodes_that_bar(fleet, [("pytorch", "2.14"), ("tensorflow", "2.21")]) == {"old": ["pytorch 2.14"]}


def test_a_release_is_found_by_the_parts_that_the_table_has():
    assert wheel("pytorch", "2.1.2").release == "2.1"
    assert wheel("pytorch", "2.10.0").release == "2.10"
    assert wheel("pytorch", "1.0") is None
