"""The same on whole GPUs: one that could have MIG and keeps it off, and one of a model without MIG."""

import time

from tests.smoke.accounts import check_accounted
from tests.smoke.bookings import Facts, Researcher
from tests.smoke.client import Unexpected
from tests.smoke.place import Place
from tests.smoke.report import Report
from tests.smoke.watching import Seen, check_device, check_follows, watch

STEPS = 5
POOLS = ("H100 whole", "L40S")


class WholePath:
    """Five steps on one pool, each relying on the one before."""

    def __init__(self, report: Report, researcher: Researcher, place: Place, pool: str) -> None:
        self._report = report
        self._me = researcher
        self._place = place
        self._pool = pool
        self._mine: Facts = {}
        self._seen = Seen()

    def walk(self) -> None:
        step = self._report.step
        with step(f"book a whole GPU in {self._pool} for now, and it runs"):
            self._book()
        with step("live frames follow the workload's CPU"):
            self._watch()
        with step("its log says that it sees that GPU and no other"):
            check_device(self._seen.output, self._lease["gpu_uuid"])
        with step("release early, and the driver shows no process on it any more"):
            self._release()
        with step("its seconds are on the usage page"):
            check_accounted(self._me, self._mine)

    @property
    def _lease(self) -> Facts:
        return self._mine["leases"][0]

    def _book(self) -> None:
        profile = next(row["name"] for row in self._me.pools[self._pool]["profiles"] if row["whole"])
        began = time.monotonic()
        booked = self._me.book(self._pool, profile)
        self._mine = self._me.until_running(booked["id"])
        self._report.running_seconds.append(time.monotonic() - began)

    def _watch(self) -> None:
        self._seen = watch(self._me.client, self._lease["id"], self._lease["node_id"])
        check_follows(self._seen)
        self._report.sample_seconds.append(max(self._seen.ages))
        if self._place.processes_on(self._lease["node"], self._lease["gpu_uuid"]) == ():
            raise Unexpected("the driver shows no process on it")

    def _release(self) -> None:
        self._mine = self._me.release(self._mine["id"])
        left = self._place.processes_on(self._lease["node"], self._lease["gpu_uuid"])
        if left:
            raise Unexpected(f"the driver still shows processes {left}")
