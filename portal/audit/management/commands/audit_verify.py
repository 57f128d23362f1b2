"""Whether the audit trail still says what it said."""

import re
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.audit.verifying import ChainBroken, verify_chain


class Command(BaseCommand):
    help = (
        "Recompute the chain of hashes over the audit trail. Prints how many entries hold and the newest hash, to be "
        "noted down elsewhere; ends with status 1 at the first position that does not hold."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--since", type=int, default=1, metavar="POSITION", help="begin here; what lies before is believed"
        )
        parser.add_argument("--head", default="", metavar="HASH", help="a hash noted down earlier, which must be met")

    def handle(self, *args: Any, **options: Any) -> None:
        head = options["head"].strip().lower()
        if head and not re.fullmatch(r"[0-9a-f]{64}", head):
            raise CommandError("A hash has 64 hexadecimal digits.")
        try:
            found = verify_chain(since=options["since"], head=head)
        except ChainBroken as broken:
            raise CommandError(f"The audit trail does not hold at {broken}.") from broken
        self.stdout.write(f"{found.count} entries hold, up to position {found.position}.")
        self.stdout.write(f"head {found.head}")
