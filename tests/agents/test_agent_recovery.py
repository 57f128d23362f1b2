"""What happens when agent, portal, journal, device or machine fail in the middle, with the real agent process."""

import json
import signal
import time

import msgspec
import pytest

from agents.clock import seconds_since_boot
from agents.containers.fence import read_fence
from agents.drivers.opening import open_driver
from agents.drivers.simulator import NodeFile, reboot
from agents.protocol import Acknowledged, Heartbeat, Hello, LogChunk, Report, WatchLogs
from tests.agents.fake_portal import wait_for


def reconnected(node, portal):
    seen = len(portal.of(Hello))
    node.start_agent()
    wait_for(lambda: len(portal.of(Hello)) > seen, 20, node.read_log)


def test_an_agent_killed_and_started_again_adopts_what_runs(served, portal):
    leases = [served.lease(lease_id, start=lease_id) for lease_id in (1, 2, 3)]
    portal.want(*leases)
    for lease in leases:
        portal.event(lease.lease_id, "active", 8)
    before = {(running.name, running.pids) for running in served.workloads()}
    served.end_agent(signal.SIGKILL)
    reconnected(served, portal)
    hello = portal.of(Hello)[-1]
    assert {(each.start, each.lease_id) for each in hello.present} == {(1, 1), (2, 2), (3, 3)}
    assert {(running.name, running.pids) for running in served.workloads()} == before
    portal.want()
    for lease in leases:
        portal.event(lease.lease_id, "freed", 10)
    assert served.instances() == set()


def test_a_stopped_agent_leaves_workloads_and_one_told_to_take_them_along_does(served, portal):
    portal.want(served.lease(4))
    portal.event(4, "active", 8)
    served.end_agent()
    (running,) = served.workloads()
    served.start_agent("--engine", "process", "--stop-workloads")
    wait_for(lambda: len(portal.of(Hello)) == 2, 20, served.read_log)
    assert served.workloads() == [running]
    served.end_agent()
    assert not served.workloads()
    assert served.instances() == set()
    assert portal.event(4, "freed", 1).reason == "withdrawn"


def test_a_lease_whose_window_ends_while_no_agent_runs_is_freed_at_the_next_start(served, portal):
    lease = served.lease(5, seconds=3)
    portal.want(lease)
    portal.event(5, "active", 8)
    served.end_agent(signal.SIGKILL)
    wait_for(lambda: time.time() > lease.ends_at, 5)
    reconnected(served, portal)
    assert portal.event(5, "freed", 5).reason == "window_over"
    assert served.instances() == set()


def test_a_damaged_journal_is_set_aside_and_what_runs_is_adopted_not_ended(served, portal):
    lease = served.lease(6)
    portal.want(lease)
    portal.event(6, "active", 8)
    (before,) = served.workloads()
    served.end_agent(signal.SIGKILL)
    (served.state / "journal.json").write_text('{"format": 1, "boot')
    portal.down()
    served.start_agent()
    wait_for(lambda: "damaged" in served.read_log(), 10)
    time.sleep(1)
    assert served.workloads() == [before]
    portal.up()
    wait_for(lambda: "taken over" in served.read_log(), 20)
    assert served.workloads() == [before]
    assert list(served.state.glob("journal.json.damaged-*"))
    portal.want()
    assert portal.event(6, "freed", 10).reason == "withdrawn"
    assert served.instances() == set()


def test_a_workload_of_ours_that_no_lease_wants_is_ended_and_a_leftover_slice_is_cleared(served, portal):
    portal.want(served.lease(7))
    portal.event(7, "active", 8)
    served.end_agent(signal.SIGKILL)
    (served.state / "journal.json").unlink()
    driver = open_driver(served.file)
    driver.create(served.mig_gpu, 19, 6, 1)
    driver.close()
    portal.want()
    reconnected(served, portal)
    assert portal.event(7, "freed", 45).reason == "withdrawn"
    wait_for(lambda: served.instances() == set(), 20)
    assert not served.workloads()
    assert "belonged to no lease" in served.read_log()


def test_events_are_told_again_under_the_same_ids_until_they_are_acknowledged(served, portal):
    portal.acknowledge = False
    portal.want(served.lease(8))
    portal.event(8, "active", 8)
    first = {event.id for event in portal.events(8)}
    served.end_agent(signal.SIGKILL)
    told = len(portal.of(Report))
    reconnected(served, portal)
    wait_for(lambda: len(portal.of(Report)) > told, 8)
    again = {event.id for event in portal.of(Report)[-1].events}
    assert again == first
    portal.push(Acknowledged(tuple(first)))
    wait_for(lambda: not json.loads((served.state / "journal.json").read_text())["events"], 5)


def test_a_reboot_voids_what_was_prepared_and_the_lease_starts_anew_in_its_window(served, portal):
    portal.want(served.lease(9))
    portal.event(9, "active", 8)
    (before,) = served.workloads()
    boot_id = portal.of(Hello)[-1].boot_id
    served.end_agent(signal.SIGKILL)
    reboot(NodeFile(served.file))
    assert served.instances() == set()
    reconnected(served, portal)
    after = wait_for(lambda: [each for each in served.workloads() if each.pids != before.pids], 10)
    assert [each.lease_id for each in after] == [9]
    wait_for(lambda: served.instances() == {(served.mig_gpu, 0, 1)}, 5)
    assert portal.of(Hello)[-1].boot_id != boot_id


def test_a_lost_gpu_fails_its_lease_and_leaves_the_others_alone(served, portal):
    portal.want(served.lease(10), served.lease(
        11, gpu_uuid=served.whole_gpu, profile="whole", profile_id=None, start=0, size=8))
    for lease_id in (10, 11):
        portal.event(lease_id, "active", 8)
    with NodeFile(served.file).change() as machine:
        machine.gpu(served.mig_gpu).lost = True
    failed = portal.event(10, "failed", 20)
    assert failed.reason == "gpu_lost"
    assert [running.lease_id for running in served.workloads()] == [11]

    def told():
        facts = {gpu.uuid: gpu.healthy for gpu in portal.of(Report)[-1].gpus}
        return facts == {served.mig_gpu: False, served.whole_gpu: True}
    wait_for(told, 10)


def test_frames_that_do_not_decode_are_left_out_and_the_link_goes_on(served, portal):
    portal.push("{nonsense")
    portal.push('{"type": "desired", "generation": -1, "leases": []}')
    portal.push('{"type": "tomorrow"}')
    portal.want(served.lease(12))
    portal.event(12, "active", 8)
    assert portal.connections == 1
    assert served.read_log().count("was left out") == 3


def test_output_is_pushed_only_while_somebody_reads_and_without_control_characters(served, portal):
    noisy = "import time\nfor n in range(600): print(f'\\x1b[31mline {n}\\x1b[0m\\x07', flush=True); time.sleep(0.1)"
    portal.want(served.lease(13, command=("python", "-c", noisy)))
    portal.event(13, "active", 8)
    time.sleep(1.5)
    assert not portal.of(LogChunk)
    portal.push(WatchLogs((13,)))
    wait_for(lambda: len(portal.of(LogChunk)) >= 3, 10)
    text = "".join(chunk.text for chunk in portal.of(LogChunk))
    lines = text.splitlines()
    assert lines == [f"line {n}" for n in range(len(lines))]


def test_the_agent_says_how_old_its_last_good_answer_of_the_driver_is(served, portal):
    beat = wait_for(lambda: portal.of(Heartbeat), 12)[-1]
    assert beat.probe_age_seconds < 6


def test_a_portal_that_is_gone_costs_few_lines_and_the_credential_is_sent_as_a_header(served, portal):
    assert portal.headers == ["Bearer secret"]
    portal.down()
    time.sleep(4)
    assert 1 <= served.read_log().count("not connected") <= 6
    portal.up()
    wait_for(lambda: portal.connections == 2, 20)


def test_the_portals_clock_rules_however_wrong_this_machines_is(node, portal):
    portal.clock_ahead = 600.0
    node.start_agent()
    wait_for(lambda: portal.of(Hello), 20, node.read_log)
    portal.want(node.lease(14, begins=599.5, seconds=30), node.lease(15, start=1, begins=0, seconds=30))
    assert abs(portal.event(14, "active", 8).at - (time.time() + 600)) < 3
    assert portal.event(15, "freed", 5).reason == "window_over"
    node.end_agent()
    portal.down()
    node.start_agent()
    wait_for(lambda: node.read_log().count("not connected") >= 1, 10)
    assert [running.lease_id for running in node.workloads()] == [14]


@pytest.mark.case("A-14")
def test_a_workload_ends_with_its_window_although_its_agent_is_stopped(served, portal):
    portal.want(served.lease(21, seconds=8))
    portal.event(21, "active", 8)
    served.agent.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: not served.workloads(), 12, served.read_log)
    finally:
        served.agent.send_signal(signal.SIGCONT)
    assert portal.event(21, "freed", 10).reason in ("window_over", "exited")
    assert served.instances() == set()


def test_an_extended_window_moves_the_fence(served, portal):
    lease = served.lease(22, seconds=6)
    portal.want(lease)
    portal.event(22, "active", 8)
    portal.want(msgspec.structs.replace(lease, ends_at=lease.ends_at + 30))
    folder = served.state / "workloads" / "22-0"
    wait_for(lambda: (fence := read_fence(folder)) and fence.kill_at > seconds_since_boot() + 20, 8, served.read_log)
    served.agent.send_signal(signal.SIGSTOP)
    try:
        wait_for(lambda: time.time() > lease.ends_at + 1, 12)
        assert [running.lease_id for running in served.workloads()] == [22]
    finally:
        served.agent.send_signal(signal.SIGCONT)
