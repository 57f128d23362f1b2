"""A portal's own rows joined to an agent's own loop: services here, passes over the simulated driver there.

Nothing lies between but the two documents, which are handed over by hand, so that a test decides when each is heard.
"""

import datetime as dt

from django.utils import timezone

from agents.protocol import Acknowledged, Report
from portal.inventory.models import Gpu, GpuState, Node, Pool
from portal.inventory.reported import record_gpus
from portal.ledger.models import LedgerEntry
from portal.reservations.agent_reports import apply_report
from portal.reservations.booking import book_reservation
from portal.reservations.changing import release_reservation
from portal.reservations.dispatch import desired_document
from portal.reservations.models import LIVE, Lease, LeaseState, Reservation
from portal.workloads.drafts import WorkloadDraft
from tests.agents.conftest import SLEEP
from tests.agents.test_reconcile import Between, House
from tests.factories import HOUR, make_org, make_quota, make_user, profile_of, window

STATE_OF = {LeaseState.PLANNED: "reserved", LeaseState.STARTING: "in use", LeaseState.ACTIVE: "in use",
            LeaseState.STOPPING: "draining"}  # fmt: skip


class Joined:
    """An organisation whose only node is this house. ``engine`` and ``driver`` take faults by the name of a call."""

    def __init__(self, house: House) -> None:
        self.house = house
        self.engine = house.engine = Between(house.engine)
        self.driver = house.driver
        house.again()
        house.reconciler.run_pass()
        root, self.team, _ = make_org()
        self.pool = Pool.objects.create(name="joined")
        now = timezone.now()
        self.node = Node.objects.create(name=house.node.file.stem, pool=self.pool, enrolled_at=now, last_seen_at=now)
        record_gpus(self.node, house.reconciler.gpus)
        self.pool.refresh_from_db()
        self.gpu = Gpu.objects.get(pool=self.pool)
        make_quota(root, self.pool, 7)
        self.owner = make_user("rosa", self.team)

    def now(self) -> dt.datetime:
        return timezone.now() + dt.timedelta(seconds=self.house.ahead)

    def book(self, profile: str = "1g.10gb", after_seconds: int = 0, seconds: int = 3600, command=SLEEP) -> Reservation:
        start = timezone.now().replace(microsecond=0) + dt.timedelta(seconds=after_seconds)
        return book_reservation(
            created_by=self.owner, owner=self.owner, tenant=self.team, pool=self.pool, ranks=1,
            profile=profile_of(self.pool, profile), during=window(start, seconds / 3600),
            workload=WorkloadDraft("training", "", tuple(command), grace_seconds=1))  # fmt: skip

    def release(self, reservation: Reservation) -> None:
        release_reservation(reservation=reservation, actor=self.owner)

    def hand_over(self) -> None:
        """The portal's document reaches the agent, to be read at its next pass or in the middle of this one."""
        self.house.reconciler.deliver(desired_document(self.node.pk), False)

    def report(self) -> None:
        """What the agent has to tell reaches the portal, which forgets nothing and is thanked."""
        agent = self.house.reconciler
        record_gpus(self.node, agent.gpus)
        told = apply_report(self.node.pk, Report(agent.generation, agent.present, agent.events, agent.gpus), self.now())
        agent.acknowledge(Acknowledged(tuple(told)))

    def exchange(self, seconds: float = 0.0) -> None:
        """Time goes on, then one document, one pass, one report."""
        self.house.ahead += seconds
        self.hand_over()
        self.house.reconciler.run_pass()
        self.report()

    def exchange_until(self, condition, most_seconds: float, step: float = 2.0) -> float:
        """Returns how many seconds of the agent's clock it took."""
        began = self.house.ahead
        while not condition():
            assert self.house.ahead - began < most_seconds, f"not within {most_seconds} s: {self.house.journal.state}"
            self.exchange(step)
        return self.house.ahead - began

    def bring_forward(self, seconds: float) -> None:
        """Move every live window into the past, for the pages, whose clock is the real one."""
        by = dt.timedelta(seconds=seconds)
        for lease in Lease.objects.filter(state__in=LIVE).order_by("during"):
            moved = window(lease.during.lower - by, (lease.during.upper - lease.during.lower) / HOUR)
            Lease.objects.filter(pk=lease.pk).update(during=moved)
            Reservation.objects.filter(pk=lease.reservation_id).update(during=moved)

    def lease(self, reservation: Reservation) -> Lease:
        return Lease.objects.filter(reservation=reservation).latest("pk")

    def states_of_slices(self) -> list[str]:
        """One word for each slice of the GPU now, by the portal's rows; two at once would be an error here."""
        words = []
        held = list(Lease.objects.filter(gpu=self.gpu, state__in=LIVE, during__startswith__lte=self.now()))
        faulty = Gpu.objects.get(pk=self.gpu.pk).state == GpuState.FAULTY
        for number in range(self.gpu.memory_slices):
            here = [lease for lease in held if lease.span.lower <= number < lease.span.upper]
            assert len(here) <= 1, f"slice {number} has two leases: {here}"
            words.append(STATE_OF[here[0].state] if here else "faulty" if faulty else "free")
        return words

    def is_empty(self) -> bool:
        """Nothing on the device, nothing that runs, nothing that the portal holds."""
        nothing_there = not self.house.node.instances() and not self.house.node.workloads()
        return nothing_there and not Lease.objects.filter(state__in=LIVE).exists()

    def ledger(self) -> list[str]:
        return list(LedgerEntry.objects.order_by("pk").values_list("kind", flat=True))
