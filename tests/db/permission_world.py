"""The rows that the permission table speaks of, and a client for each of its roles."""

import datetime as dt
import hashlib
from dataclasses import dataclass, field

from django.test import Client
from django.utils import timezone

from portal.accounts.models import User
from portal.accounts.services import create_token, disable
from portal.notices.models import Delivery, DeliveryState, Kind, Notice
from portal.reservations.models import (
    Approval,
    CalendarFeed,
    LeaseLog,
    LeaseState,
    Maintenance,
    Reservation,
    Series,
    State,
)
from portal.tenants.models import Invitation, Role
from tests.db.permission_table import OURS
from tests.factories import (
    make_pool_with_gpus,
    make_quota,
    make_reservation,
    make_tenant,
    make_user,
    window,
)

UNKNOWN = 987_654_321


@dataclass
class World:
    """``ids`` fills the placeholders; ``texts`` are the tokens of programs by role."""

    people: dict[str, User] = field(default_factory=dict)
    texts: dict[str, str] = field(default_factory=dict)
    ids: dict[str, int | str] = field(default_factory=dict)

    def client(self, role: str, **options) -> Client:
        if role in self.texts:
            return Client(headers={"Authorization": f"Bearer {self.texts[role]}"}, **options)
        client = Client(**options)
        if role == "disabled":
            client.force_login(User(pk=self.people[role].pk, password=self.people[role].password))
        elif role != "anonymous":
            client.force_login(self.people[role])
        return client

    def filled(self, text, known: bool = True):
        """The text, or whatever holds texts, with its placeholders filled by ids of ours, or by such as nobody has."""
        if isinstance(text, dict):
            return {key: self.filled(value, known) for key, value in text.items()}
        if isinstance(text, list):
            return [self.filled(value, known) for value in text]
        whole = text[1:-1]
        ids = self.ids if known else {name: _unknown(value) for name, value in self.ids.items()}
        return ids[whole] if whole in ids and text == "{" + whole + "}" else text.format(**ids)


def _unknown(value: int | str) -> int | str:
    return UNKNOWN if isinstance(value, int) else value if "T" in value else "berth-nobodys"


def make_world() -> World:
    world = World()
    root = make_tenant("northquay")
    ours, other = make_tenant("vision-lab", root), make_tenant("robotics", root)
    for role in OURS:
        world.people[role] = make_user(role, ours, Role(role))
        world.people[f"other_{role}"] = make_user(f"other-{role}", other, Role(role))
    world.people["platform_admin"] = make_user("platform", root, Role.ADMIN)
    world.people["no_tenant"] = make_user("no-tenant")
    _make_programs(world, ours)
    _make_things(world, ours, root)
    return world


def _make_programs(world: World, ours) -> None:
    token, world.texts["token"] = create_token(person=world.people["member"], name="script", days=30)
    world.ids["token_key"] = token.token_key
    gone = make_user("gone", ours)
    _, world.texts["dead_token"] = create_token(person=gone, name="script", days=30)
    disable(person=gone, actor=gone)
    world.people["disabled"] = User.objects.get(pk=gone.pk)


def _make_things(world: World, ours, root) -> None:
    pool = make_pool_with_gpus("H100", gpus=1)
    make_quota(root, pool, limit=100)
    quota = make_quota(ours, pool, limit=100)
    gpu, member = pool.gpus.get(), world.people["member"]
    now = timezone.now().replace(microsecond=0)
    booked = make_reservation(
        ours, pool, "1g.10gb", window(now + dt.timedelta(hours=5)), places=((gpu, 0),), owner=member
    )
    ended = make_reservation(
        ours, pool, "1g.10gb", window(now - dt.timedelta(hours=5)), places=((gpu, 0),), owner=member,
        state=State.ENDED, lease_state=LeaseState.ENDED,
    )  # fmt: skip
    ended.leases.update(starting_at=ended.starts_at)
    LeaseLog.objects.create(lease=ended.leases.get(), tail="epoch 1\n")
    question = Approval.objects.create(
        tenant=ours, asked_by=member, expires_at=now + dt.timedelta(days=1), price_slice_seconds=7200,
        threshold_slice_seconds=3600,
    )  # fmt: skip
    asked = make_reservation(
        ours, pool, "1g.10gb", window(now + dt.timedelta(days=3)), places=((gpu, 0),), owner=member
    )
    type(asked).objects.filter(pk=asked.pk).update(
        state=State.REQUESTED, approval=question, hold_expires_at=question.expires_at
    )
    invitation = Invitation.objects.create(
        tenant=ours, email="someone@example.org", role=Role.MEMBER, invited_by=world.people["lead"],
        token_hash=hashlib.sha256(b"someone").hexdigest(), expires_at=now + dt.timedelta(days=1),
    )  # fmt: skip
    told = Notice.objects.create(
        user=member, kind=Kind.CONFIRMED, reservation_id=booked.pk, tenant=ours, url=f"/reservations/{booked.number}/"
    )
    refused = Delivery.objects.create(notice=told, address=member.email, state=DeliveryState.FAILED)
    ahead = Maintenance.objects.create(
        node=gpu.node, during=window(now + dt.timedelta(days=9)), reason="new driver",
        created_by=world.people["platform_admin"],
    )  # fmt: skip
    feed = CalendarFeed.objects.create(
        owner=member, kind="user", token_hash=hashlib.sha256(b"members").hexdigest(), sign_in_round=0
    )
    start, end = (f"{now + dt.timedelta(hours=hours):%Y-%m-%dT%H:%M:%SZ}" for hours in (1, 2))
    tomorrow = now.date() + dt.timedelta(days=1)
    course = Series.objects.create(
        tenant=ours, owner=world.people["lead"], created_by=world.people["lead"], pool=pool, profile=booked.profile,
        name="course", rule="FREQ=WEEKLY;COUNT=1", time_zone="UTC", first_date=tomorrow, opens=dt.time(9),
        closes=dt.time(10),
    )  # fmt: skip
    colleague = make_user("colleague", ours)
    course.roster.set([colleague])
    lesson = make_reservation(
        ours, pool, "1g.10gb", window(now + dt.timedelta(days=1)), places=((gpu, 6),), owner=colleague
    )
    Reservation.objects.filter(pk=lesson.pk).update(series=course, occurrence=tomorrow)
    world.ids |= {
        "tenant": ours.pk, "pool": pool.pk, "quota": quota.pk, "profile": booked.profile_id, "node": gpu.node_id,
        "reservation": booked.pk, "ended": ended.pk,
        "notice": told.pk, "delivery": refused.pk, "maintenance": ahead.pk,
        "series": course.pk, "occurrence": str(tomorrow),
        "approval": question.pk, "calendar_feed": feed.pk,
        "user": colleague.pk, "invitation": invitation.pk,
        "start": start, "end": end,
    }  # fmt: skip
