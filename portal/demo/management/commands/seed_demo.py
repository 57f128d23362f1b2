"""Writes the demo's organisation and lets its simulated nodes in."""

import json
from typing import Any

from django.core.management.base import BaseCommand, CommandParser

from portal.demo.seed import admit_nodes, seed_organisation


class Command(BaseCommand):
    """Its last line is JSON: ``accounts`` and, for each node named, an enrolment token under ``tokens``."""

    help = "Write the demo's organisation; what is there already stays as it is."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--password", required=True, help="of every account of the demo")
        parser.add_argument("--node", action="append", default=[], metavar="NAME:POOL", help="a node to let in")

    def handle(self, *args: Any, **options: Any) -> None:
        accounts = seed_organisation(options["password"])
        tokens = admit_nodes(dict(node.split(":", 1) for node in options["node"]))
        self.stdout.write(json.dumps({"accounts": accounts, "tokens": tokens}))
