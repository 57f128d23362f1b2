"""The real agent over a real websocket on a simulated node: starts, ends, and what may go wrong in between."""

import time

from agents.protocol import Samples, event_id
from tests.agents.fake_portal import wait_for

STUBBORN = (
    "python", "-c", "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); print('up'); time.sleep(600)")
BYE = ("python", "-c", "import time; print('bye'); time.sleep(0.7); raise SystemExit(7)")


def kinds(portal, lease_id):
    return [event.kind for event in portal.events(lease_id)]


def test_a_lease_runs_on_exactly_its_span_and_is_read_back_free_when_withdrawn(served, portal):
    lease = served.lease(1, start=2, size=1)
    asked = time.monotonic()
    portal.want(lease)
    active = portal.event(1, "active", 5)
    assert time.monotonic() - asked < 5
    assert served.instances() == {(served.mig_gpu, 2, 1)}
    assert active.mig_uuid.startswith("MIG-")
    (running,) = served.workloads()
    assert served.engine().device_of(running) == active.mig_uuid
    portal.want()
    freed = portal.event(1, "freed", 10)
    assert (freed.reason, kinds(portal, 1)) == ("withdrawn", ["starting", "active", "stopping", "freed"])
    assert freed.log_tail == "up\n"
    assert served.instances() == set()
    assert not served.workloads()


def test_nothing_starts_before_its_window_and_the_end_needs_no_portal(served, portal):
    lease = served.lease(2, begins=2.0, seconds=3.0)
    portal.want(lease)
    wait_for(lambda: any(frame.observed_generation == 1 for frame in portal.frames if hasattr(frame, "present")), 5)
    portal.down()
    assert time.time() < lease.starts_at
    assert served.instances() == set()
    running = wait_for(served.workloads, lease.starts_at - time.time() + 3)
    assert time.time() >= lease.starts_at
    assert served.instances() == {(served.mig_gpu, 0, 1)}
    wait_for(lambda: not served.workloads(), lease.ends_at - time.time() + 0.5)
    wait_for(lambda: served.instances() == set(), 2)
    portal.up()
    freed = portal.event(2, "freed", 20)
    assert freed.reason == "window_over"
    assert kinds(portal, 2) == ["starting", "active", "stopping", "freed"]
    assert running[0].lease_id == 2


def test_a_workload_that_ignores_term_is_gone_when_its_window_ends_and_the_next_starts_after_it(served, portal):
    first = served.lease(3, seconds=4.0, command=STUBBORN)
    second = served.lease(4, begins=first.ends_at - time.time(), seconds=30)
    portal.want(first, second)
    freed = portal.event(3, "freed", 12)
    starting = portal.event(4, "starting", 5)
    portal.event(4, "active", 5)
    assert freed.reason == "window_over"
    assert freed.at >= first.ends_at - 0.05
    assert freed.at < first.ends_at + 2
    assert freed.at <= starting.at
    assert [running.lease_id for running in served.workloads()] == [4]


def test_a_workload_that_ends_by_itself_frees_its_lease_with_exit_code_and_output(served, portal):
    portal.want(served.lease(5, command=BYE))
    freed = portal.event(5, "freed", 10)
    assert (freed.reason, freed.exit_code, freed.log_tail) == ("exited", 7, "bye\n")
    assert served.instances() == set()
    portal.push(portal._desired)
    time.sleep(0.5)
    assert not served.workloads()
    assert kinds(portal, 5).count("starting") == 1


def test_a_command_that_does_not_exist_fails_at_once_with_words_and_leaves_nothing(served, portal):
    portal.want(served.lease(6, command=("no-such-command",)))
    failed = portal.event(6, "failed", 5)
    assert failed.reason == "start_failed"
    assert "no-such-command" in failed.detail
    assert served.instances() == set()


def test_a_window_that_is_over_starts_nothing(served, portal):
    portal.want(served.lease(7, begins=-100, seconds=50))
    freed = portal.event(7, "freed", 5)
    assert freed.reason == "window_over"
    assert kinds(portal, 7) == ["freed"]
    assert not served.workloads()


def test_the_same_document_twice_changes_nothing_and_a_new_attempt_starts_anew(served, portal):
    lease = served.lease(8)
    portal.want(lease)
    portal.event(8, "active", 5)
    (before,) = served.workloads()
    for _ in range(3):
        portal.push(portal._desired)
    portal.want(lease)
    time.sleep(0.5)
    assert served.workloads() == [before]
    portal.want(served.lease(8, attempt=1))
    again = wait_for(lambda: next((e for e in portal.events(8) if e.id == event_id(8, "active", 1)), None), 10)
    assert again.kind == "active"
    (after,) = served.workloads()
    assert (after.attempt, before.attempt) == (1, 0)


def test_a_whole_gpu_without_mig_runs_with_the_gpus_own_uuid(served, portal):
    portal.want(served.lease(9, gpu_uuid=served.whole_gpu, profile="whole", profile_id=None, start=0, size=8))
    active = portal.event(9, "active", 5)
    (running,) = served.workloads()
    assert served.engine().device_of(running) == served.whole_gpu
    assert active.mig_uuid == ""
    portal.want()
    portal.event(9, "freed", 10)
    assert not served.workloads()


def test_what_the_owner_sets_cannot_widen_what_the_workload_sees(served, portal):
    print_it = "import os; print(os.environ.get('CUDA_VISIBLE_DEVICES'), os.environ.get('NVIDIA_VISIBLE_DEVICES'), " \
               "os.environ.get('LD_PRELOAD'), os.environ.get('GREETING'))"
    portal.want(served.lease(10, command=("python", "-c", print_it), environment={
        "CUDA_VISIBLE_DEVICES": "0,1", "NVIDIA_VISIBLE_DEVICES": "all", "LD_PRELOAD": "/evil.so", "PATH": "/evil",
        "GREETING": "hello"}))
    freed = portal.event(10, "freed", 10)
    seen = freed.log_tail.split()
    assert seen[0].startswith("MIG-")
    assert seen[1:] == ["void", "None", "hello"]


def test_two_leases_side_by_side_do_not_touch_each_other(served, portal):
    one, two = served.lease(11), served.lease(12, start=4, size=4, profile="3g.40gb", profile_id=9)
    portal.want(one, two)
    devices = {portal.event(lease_id, "active", 5).mig_uuid for lease_id in (11, 12)}
    assert len(devices) == 2
    portal.want(two)
    portal.event(11, "freed", 10)
    assert served.instances() == {(served.mig_gpu, 4, 4)}
    assert [running.lease_id for running in served.workloads()] == [12]


def test_samples_follow_the_workload_and_say_none_for_what_cannot_be_measured(served, portal):
    portal.want(served.lease(13, command=("python", "-c", "while True: pass")))
    portal.event(13, "active", 5)

    def busy():
        found = [s for frame in portal.of(Samples) for s in frame.leases if s.lease_id == 13]
        return [s for s in found if s.cpu_percent is not None and s.cpu_percent > 20]
    sample = wait_for(busy, 8)[-1]
    assert sample.memory_total_mib
    assert sample.processes == 1
