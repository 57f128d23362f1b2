"""Waits until nodes have joined and done what they were told."""

import time
from datetime import UTC, datetime
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import F

from portal.inventory.models import Node

POLL_SECONDS = 0.2


class Command(BaseCommand):
    """Ends well once each node was heard since a moment, has reported devices and observed its generation."""

    help = "Wait until these nodes answer."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("names", help="names, separated by commas")
        parser.add_argument("--since", type=float, required=True, help="seconds since the epoch")
        parser.add_argument("--seconds", type=float, default=60)

    def handle(self, *args: Any, **options: Any) -> None:
        wanted = set(options["names"].split(","))
        since = datetime.fromtimestamp(options["since"], UTC)
        deadline = time.monotonic() + options["seconds"]
        while missing := wanted - self._ready(wanted, since):
            if time.monotonic() > deadline:
                raise CommandError(f"Not ready within {options['seconds']:.0f} s: {', '.join(sorted(missing))}.")
            time.sleep(POLL_SECONDS)

    def _ready(self, wanted: set[str], since: datetime) -> set[str]:
        heard = Node.objects.filter(name__in=wanted, last_seen_at__gte=since, observed_generation=F("generation"))
        return set(heard.filter(gpus__present=True).values_list("name", flat=True))
