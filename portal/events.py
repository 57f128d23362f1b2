"""The only way out for messages: tasks by name and facts to sockets, both after commit.

A message is a doorbell. What it announces is in the database already, and a sweep finds it if the bell is not heard;
so an unreachable Redis costs seconds and is logged, never raised into a request.
"""

import asyncio
import logging
from functools import partial

from asgiref.sync import async_to_sync
from channels.layers import get_channel_layer
from django.db import transaction

from portal.celery import app, broker_errors

log = logging.getLogger(__name__)

# The one channel group of every web process that holds browsers' sockets.
BROWSERS = "browsers"
TELL_SECONDS = 2  # so long a request waits for a Redis that hangs


def node_group(node_id: int) -> str:
    """The channel group of the socket that a node's agent holds."""
    return f"node.{node_id}"


def tenant_group(tenant_id: int) -> str:
    """Names the browsers that may see a tenant."""
    return f"tenant.{tenant_id}"


def user_group(user_id: int) -> str:
    """Names the sockets that one person holds."""
    return f"user.{user_id}"


def push_desired_on_commit(node_ids: set[int]) -> None:
    """Have each node's desired document pushed to its agent once the transaction is through."""
    for node_id in sorted(node_ids):
        transaction.on_commit(partial(send_task, "scheduler.push_desired", node_id))


def tell_tenant_on_commit(tenant_id: int, fact: str, **what: int | str) -> None:
    """Tell browsers that something of this tenant changed; they fetch what they show."""
    transaction.on_commit(lambda: tell_group(tenant_group(tenant_id), {"type": "tenant.changed", "fact": fact, **what}))


def tell_user_on_commit(user_id: int, fact: str, **what: int | str) -> None:
    """Tell the sockets of one person, above all that their rights changed: each checks them anew."""
    transaction.on_commit(lambda: tell_group(user_group(user_id), {"type": "user.changed", "fact": fact, **what}))


def tell_everybody_on_commit(fact: str, **what: int | str) -> None:
    """Tell every open page that something all may see changed, such as a node's state."""
    transaction.on_commit(lambda: tell_group("everybody", {"type": "tenant.changed", "fact": fact, **what}))


def tell_node_on_commit(node_id: int, what: str) -> None:
    """Tell the socket of a node's agent; ``node.revoked`` closes it."""
    transaction.on_commit(lambda: tell_group(node_group(node_id), {"type": what, "node": node_id}))


def send_task(name: str, *arguments: int) -> None:
    try:
        app.send_task(name, args=arguments, retry=False)
    except broker_errors(app) as error:
        log.warning("task %s%s not sent, its sweep will find it: %s", name, arguments, error)


def tell_group(group: str, message: dict) -> None:
    """``to`` names whom it is for: all browsers share one channel group, and each web process sorts what it hears."""
    channel_group = group if group.startswith("node.") else BROWSERS
    try:
        async_to_sync(_group_send)(channel_group, {**message, "to": group})
    except Exception as error:  # the layer raises whatever its client raises; a lost bell is never an error
        log.warning("group %s not told %s: %r", group, message.get("type"), error)


async def _group_send(channel_group: str, message: dict) -> None:
    async with asyncio.timeout(TELL_SECONDS):
        await get_channel_layer().group_send(channel_group, message)
