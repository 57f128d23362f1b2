"""Making, revoking and finding the addresses of calendars. Whoever knows an address reads as the person who made it."""

import datetime as dt
import hashlib
import secrets

from django.conf import settings
from django.db import transaction
from django.db.models import F, Q, QuerySet
from django.urls import reverse
from django.utils import timezone

from portal.accounts.models import User
from portal.audit.services import record_change
from portal.inventory.models import Node, NodeState
from portal.reservations.models import CalendarFeed, FeedKind
from portal.tenants.models import Tenant
from portal.tenants.selectors import is_platform_admin, tenants_of

NOTE_READS_EVERY = dt.timedelta(minutes=1)


def live_feeds(owner: User) -> QuerySet[CalendarFeed]:
    """Not revoked, and made since they were last disabled."""
    return CalendarFeed.objects.filter(owner=owner, revoked_at__isnull=True, sign_in_round=owner.sign_in_round)


@transaction.atomic
def make_feed(*, owner: User, tenant: Tenant | None = None, node: Node | None = None) -> tuple[CalendarFeed, str]:
    """The feed and its address, which exists only here. The older address of the same thing dies. Locks the owner."""
    owner = User.objects.select_for_update(no_key=True).get(pk=owner.pk)
    kind = FeedKind.TENANT if tenant else FeedKind.NODE if node else FeedKind.USER
    for older in CalendarFeed.objects.filter(owner=owner, kind=kind, tenant=tenant, node=node, revoked_at=None):
        revoke_feed(feed=older, actor=owner)
    token = secrets.token_urlsafe(32)
    feed = CalendarFeed.objects.create(
        owner=owner, kind=kind, tenant=tenant, node=node, token_hash=_hash(token), sign_in_round=owner.sign_in_round
    )
    record_change(
        actor=owner, action="feed.made", subject=f"feed {feed.pk}", tenant_id=feed.tenant_id, after=_what(feed)
    )
    return feed, settings.PORTAL_URL + reverse("calendar_feed", args=[token])


@transaction.atomic
def revoke_feed(*, feed: CalendarFeed, actor: User) -> bool:
    """Its address is unknown from now on. False: it was so already."""
    if not CalendarFeed.objects.filter(pk=feed.pk, revoked_at__isnull=True).update(revoked_at=timezone.now()):
        return False
    record_change(
        actor=actor, action="feed.revoked", subject=f"feed {feed.pk}", tenant_id=feed.tenant_id, before=_what(feed)
    )
    return True


def feed_at(token: str) -> CalendarFeed | None:
    """The feed of this address while its owner may read it still: asked at every read, nothing is remembered."""
    rows = CalendarFeed.objects.filter(
        token_hash=_hash(token), revoked_at__isnull=True, owner__is_active=True, sign_in_round=F("owner__sign_in_round")
    )
    feed = rows.select_related("owner", "tenant", "node").first()
    return feed if feed is not None and _may_read(feed) else None


def note_read(feed: CalendarFeed, tag: str, now: dt.datetime) -> dt.datetime:
    """Remember that this content was given out; answers since when it is that, to the second. A reader that asks all
    the time writes once a minute."""
    stale = Q(last_read_at__isnull=True) | Q(last_read_at__lt=now - NOTE_READS_EVERY)
    if feed.content_tag == tag:
        CalendarFeed.objects.filter(stale, pk=feed.pk).update(last_read_at=now)
        return feed.content_changed_at
    changed_at = now.replace(microsecond=0)
    CalendarFeed.objects.filter(pk=feed.pk).update(last_read_at=now, content_tag=tag, content_changed_at=changed_at)
    return changed_at


def _may_read(feed: CalendarFeed) -> bool:
    if feed.tenant is not None:
        return tenants_of(feed.owner).filter(pk=feed.tenant.pk).exists()
    if feed.node is not None:
        return feed.node.state != NodeState.RETIRED and is_platform_admin(feed.owner)
    return True


def _what(feed: CalendarFeed) -> dict[str, str]:
    shown = feed.tenant or feed.node
    return {"kind": str(feed.kind), "of": str(shown)} if shown else {"kind": str(feed.kind)}


def _hash(token: str) -> str:
    return hashlib.sha256(token.encode()).hexdigest()
