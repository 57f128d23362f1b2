"""How the GPUs of a node are joined, through the real pynvml: what the driver does not tell stays unknown."""

import pynvml
import pytest

from agents.drivers.simulator.node import Fault
from agents.protocol import GpuFact, Report, decode_from_agent, encode
from tests.agents.simulated import driven_node


def links_of(driver):
    """By index and index."""
    facts = driver.inventory()
    index = {fact.uuid: fact.index for fact in facts}
    return {(fact.index, index[other]): word for fact in facts for other, word in (fact.links or {}).items()}


@pytest.mark.parametrize(
    ("gpus", "words"),
    [
        (["H100-80GB"] * 3, {(0, 1): "NV18", (0, 2): "NV18", (1, 2): "NV18"}),
        (["A30"] * 3, {(0, 1): "NV4", (0, 2): "NODE", (1, 2): "NODE"}),
        (["L40S"] * 5, {(0, 1): "PIX", (2, 3): "PIX", (0, 2): "NODE", (0, 3): "NODE", (1, 2): "NODE", (1, 3): "NODE",
                        (0, 4): "SYS", (1, 4): "SYS", (2, 4): "SYS", (3, 4): "SYS"}),
        (["L40S"], {}),
    ],
)  # fmt: skip
def test_each_pair_has_its_word_and_both_ends_say_the_same(tmp_path, gpus, words):
    with driven_node(tmp_path, *gpus) as (driver, _):
        assert links_of(driver) == words | {(other, one): word for (one, other), word in words.items()}


def test_what_an_old_driver_does_not_tell_is_unknown_and_not_slow(tmp_path):
    with driven_node(tmp_path, "L40S", "L40S", "H100-80GB", "H100-80GB") as (driver, file):
        with file.change() as node:
            node.hidden_symbols = ["nvmlDeviceGetTopologyCommonAncestor"]
            node.gpus[0].lost = True
        assert links_of(driver)[2, 3] == "NV18"
        known = {pair for pair in links_of(driver) if 0 not in pair}
        assert known == {(2, 3), (3, 2)}


def test_a_driver_that_fails_over_the_links_hides_no_gpu(tmp_path):
    with driven_node(tmp_path, "A30", "A30") as (driver, file):
        with file.change() as node:
            node.gpus[1].lost = True
        assert (0, 1) not in links_of(driver)
        with file.change() as node:
            node.gpus[1].lost = False
            node.faults["nvmlDeviceGetNvLinkState"] = Fault(code=pynvml.NVML_ERROR_UNKNOWN)
        assert [fact.healthy for fact in driver.inventory()] == [True, True]
        assert links_of(driver)[0, 1] == "NV4"


def test_an_agent_that_says_nothing_of_links_is_understood():
    fact = GpuFact("GPU-1", 0, "NVIDIA L40S", 46068, 8, 7, False, False, ())
    frame = encode(Report(1, (), (), (fact,)))
    assert decode_from_agent(frame.replace(',"links":null', "")) == Report(1, (), (), (fact,))
    assert '"links":null' in frame
