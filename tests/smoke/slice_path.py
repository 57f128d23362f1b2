"""The straight path on a slice: book, run on exactly that span, look, fill the GPU, be refused, release, account."""

import time

from tests.smoke.accounts import check_accounted
from tests.smoke.bookings import Facts, Researcher
from tests.smoke.client import Unexpected
from tests.smoke.place import Place
from tests.smoke.report import Report
from tests.smoke.watching import Seen, check_device, check_follows, watch

STEPS = 10
POOL, PROFILE = "H100 MIG", "1g.10gb"


class SlicePath:
    """Ten steps; each relies on the one before."""

    def __init__(self, report: Report, researcher: Researcher, place: Place) -> None:
        self._report = report
        self._me = researcher
        self._place = place
        self._mine: Facts = {}
        self._neighbours: list[Facts] = []
        self._seen = Seen()

    def walk(self) -> None:
        step = self._report.step
        with step(f"book {PROFILE} in {POOL} for now, and it runs"):
            self._book()
        with step("the driver shows it on exactly that span"):
            self._on_its_span()
        with step("live frames follow the workload's CPU"):
            self._seen = watch(self._me.client, self._lease["id"], self._lease["node_id"])
            check_follows(self._seen)
            self._report.sample_seconds.append(max(self._seen.ages))
        with step("its log says that it sees its MIG UUID and no other device"):
            self._read_log()
        with step("book the rest of the GPU beside it"):
            self._fill_gpu()
        with step("the first one was not touched"):
            self._untouched()
        with step("with nothing left, be refused with alternatives"):
            self._refused()
        with step("release early"):
            self._release()
        with step("the freed span is gone from the driver, the neighbours are not"):
            self._freed()
        with step("its seconds are on the usage page"):
            self._accounted()

    @property
    def _lease(self) -> Facts:
        return self._mine["leases"][0]

    def _book(self) -> None:
        began = time.monotonic()
        booked = self._me.book(POOL, PROFILE)
        self._mine = self._me.until_running(booked["id"])
        self._report.running_seconds.append(time.monotonic() - began)

    def _on_its_span(self) -> None:
        span = self._lease["span"]
        profile = next(row for row in self._me.pools[POOL]["profiles"] if row["name"] == PROFILE)
        if span["start"] not in profile["starts"] or span["end"] - span["start"] != profile["size"]:
            raise Unexpected(f"{span} is no legal place of {PROFILE}")
        if not self._lease["mig_uuid"].startswith("MIG-") or self._lease["mig_uuid"] not in self._in_driver():
            raise Unexpected(f"the driver does not show {self._lease['mig_uuid']} at {span}")

    def _in_driver(self) -> set[str]:
        """MIG UUIDs at exactly this lease's span; what the portal was told where the machine is out of reach."""
        found = self._place.instances(self._lease["node"])
        if found is None:
            return {self._lease["mig_uuid"]}
        span = (self._lease["gpu_uuid"], self._lease["span"]["start"], self._lease["span"]["end"])
        return {each.mig_uuid or "" for each in found if (each.gpu_uuid, each.start, each.start + each.size) == span}

    def _read_log(self) -> None:
        check_device(self._seen.output, self._lease["mig_uuid"])
        check_device(self._me.log(self._mine["id"]), self._lease["mig_uuid"])

    def _fill_gpu(self) -> None:
        """Largest shapes first; what lands on another GPU of the pool fills that one, so that nothing is left."""
        shapes = [row for row in self._me.pools[POOL]["profiles"] if "+" not in row["name"]]
        for shape in sorted(shapes, key=lambda row: (-row["size"], -row["weight"])):
            while self._me.availability(POOL, shape["name"])["fits"]:
                self._neighbours.append(self._me.book(POOL, shape["name"]))
        self._neighbours = [self._me.until_running(each["id"]) for each in self._neighbours]
        beside = [each for each in self._neighbours if each["leases"][0]["gpu"] == self._lease["gpu"]]
        if not beside:
            raise Unexpected("nothing was booked beside it on its GPU")

    def _untouched(self) -> None:
        now = self._me.reservation(self._mine["id"])
        same = ("state", "mig_uuid", "span", "gpu", "active_at")
        if any(now["leases"][0][name] != self._lease[name] for name in same):
            raise Unexpected(f"it was {self._lease} and is {now['leases'][0]}")
        seen = watch(self._me.client, self._lease["id"], self._lease["node_id"], seconds=3)
        if seen.turn <= self._seen.turn or seen.output.count("device ") != 1:
            raise Unexpected(f"its output does not go on where it was: {seen.output[-200:]!r}")
        if self._lease["mig_uuid"] not in self._in_driver():
            raise Unexpected("its instance is another one now")

    def _refused(self) -> None:
        answer = self._me.try_to_book(POOL, PROFILE)
        if answer.status != 409 or not answer.json["message"]:
            raise Unexpected(f"answered {answer.status} {answer.text[:300]}")
        ways = answer.json["alternatives"]
        if not 1 <= len(ways) <= 3:
            raise Unexpected(f"{len(ways)} alternatives")

    def _release(self) -> None:
        ended = self._me.release(self._mine["id"])
        if ended["end_reason"] != "released":
            raise Unexpected(f"it ended as {ended['end_reason']}")
        self._mine = ended

    def _freed(self) -> None:
        present = self._place.instances(self._lease["node"])
        if present is None:
            held = [one for gpu in self._gpus() if gpu["id"] == self._lease["gpu"] for one in gpu["held"]]
            if any(one["start"] == self._lease["span"]["start"] for one in held):
                raise Unexpected("the fleet still shows the span as held")
            return
        uuids = {each.mig_uuid for each in present}
        on_node = [each["leases"][0] for each in self._neighbours if each["leases"][0]["node"] == self._lease["node"]]
        if self._lease["mig_uuid"] in uuids or not {lease["mig_uuid"] for lease in on_node} <= uuids:
            raise Unexpected(f"the driver shows {uuids}")

    def _gpus(self) -> list[Facts]:
        return [gpu for node in self._me.rows("/api/v1/fleet/") for gpu in node["gpus"]]

    def _accounted(self) -> None:
        check_accounted(self._me, self._mine)
