"""Verbs of a researcher on the API: book, wait, look, release; what was booked is given back at the end."""

import datetime as dt
import time
from collections.abc import Callable
from typing import Any
from urllib.parse import urlencode

from tests.smoke.client import Answer, Client, Unexpected

WINDOW = dt.timedelta(minutes=15)
RUNNING_SECONDS = 30
ENDED_SECONDS = 30
POLL_SECONDS = 0.1

# Busy and idle in turn, so that a chart that follows the CPU has steps; says which device it was given.
WORKLOAD = """
import os, time
print("device", os.environ["CUDA_VISIBLE_DEVICES"], flush=True)
turn = 0
while True:
    turn += 1
    until = time.monotonic() + 2.5
    while turn % 2 and time.monotonic() < until:
        pass
    print("turn", turn, flush=True)
    time.sleep(max(0, until - time.monotonic()))
"""

Facts = dict[str, Any]


class Researcher:
    """Signed in, booking for one tenant."""

    def __init__(self, client: Client, tenant: str) -> None:
        self.client = client
        self.tenant = next(row for row in self.rows("/api/v1/tenants/") if row["name"] == tenant)
        self.pools = {row["name"]: row for row in self.rows("/api/v1/pools/")}
        self._booked: list[int] = []

    def rows(self, path: str) -> list[Facts]:
        return self.client.get(f"{path}?limit=200", expect=200).json["results"]

    def wish(self, pool: str, profile: str) -> Facts:
        start = dt.datetime.now(dt.UTC)
        window = {"start": start.isoformat(), "end": (start + WINDOW).isoformat()}
        return {"tenant": self.tenant["id"], "pool": self.pools[pool]["id"], "profile": profile, **window}

    def try_to_book(self, pool: str, profile: str) -> Answer:
        workload = {"name": "smoke", "command": ["python3", "-c", WORKLOAD], "grace_seconds": 1}
        answer = self.client.post("/api/v1/reservations/", self.wish(pool, profile) | {"workload": workload})
        if answer.status == 201:
            self._booked.append(answer.json["id"])
        return answer

    def book(self, pool: str, profile: str) -> Facts:
        answer = self.try_to_book(pool, profile)
        if answer.status != 201:
            raise Unexpected(f"{profile} in {pool} was not booked: {answer.status} {answer.text[:300]}")
        return answer.json

    def availability(self, pool: str, profile: str) -> Facts:
        return self.client.get(f"/api/v1/availability/?{urlencode(self.wish(pool, profile))}", expect=200).json

    def reservation(self, reservation_id: int) -> Facts:
        return self.client.get(f"/api/v1/reservations/{reservation_id}/", expect=200).json

    def until_running(self, reservation_id: int) -> Facts:
        return self._until(reservation_id, lambda facts: facts["state"] == "running", RUNNING_SECONDS)

    def log(self, reservation_id: int) -> str:
        return self.client.get(f"/api/v1/reservations/{reservation_id}/log/", expect=200).json["text"]

    def release(self, reservation_id: int) -> Facts:
        """Give back, and wait until the node has said that the span is free."""
        self.client.post(f"/api/v1/reservations/{reservation_id}/release/", {}, expect=200)
        facts = self._until(reservation_id, lambda now: now["state"] == "ended" and _all_free(now), ENDED_SECONDS)
        self._booked.remove(reservation_id)
        return facts

    def give_everything_back(self) -> None:
        for reservation_id in list(self._booked):
            self.client.post(f"/api/v1/reservations/{reservation_id}/release/", {})
        for reservation_id in self._booked:
            self._until(reservation_id, _all_free, ENDED_SECONDS)
        self._booked.clear()

    def usage(self, reservation_id: int) -> Facts:
        """The reservation's figures in today's usage of the tenant, in weighted slice-seconds."""
        today = dt.datetime.now(dt.UTC).date()
        asked = {
            "tenant": self.tenant["id"],
            "since": today - dt.timedelta(days=1),
            "until": today + dt.timedelta(days=1),
        }
        usage = self.client.get(f"/api/v1/usage/?{urlencode(asked)}", expect=200).json
        return next(row["figures"] for row in usage["by_reservation"] if row["id"] == reservation_id)

    def _until(self, reservation_id: int, reached: Callable[[Facts], bool], seconds: float) -> Facts:
        deadline = time.monotonic() + seconds
        while True:
            facts = self.reservation(reservation_id)
            if reached(facts):
                return facts
            if facts["state"] in ("refused", "cancelled", "ended") and not _all_free(facts):
                raise Unexpected(f"{facts['number']} is {facts['state']}: {facts['end_detail']}")
            if time.monotonic() > deadline:
                raise Unexpected(f"{facts['number']} is still {facts['state']} after {seconds:.0f} s")
            time.sleep(POLL_SECONDS)


def _all_free(facts: Facts) -> bool:
    return all(lease["state"] in ("ended", "failed") for lease in facts["leases"])
