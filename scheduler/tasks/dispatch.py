"""Rings the bell of a node: the process that holds its agent's socket sends the newest document."""

from celery import shared_task

from portal.events import node_group, tell_group


@shared_task(name="scheduler.push_desired")
def push_desired(node_id: int) -> None:
    """Several at once make one push; one that gets lost is found by ``push_behind``."""
    tell_group(node_group(node_id), {"type": "desired.changed", "node": node_id})
