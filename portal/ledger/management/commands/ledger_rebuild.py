"""The sums by day against the ledger they are made of."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import transaction

from portal.ledger.sums import Comparison, compare, rebuild


class Command(BaseCommand):
    help = (
        "Print where the daily sums differ from the ledger, and make them anew in one transaction. "
        "With --check nothing is changed, and a difference is an error."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--check", action="store_true", help="compare only")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["check"]:
            found = compare()
            self._tell(found)
            if not found.agrees:
                raise CommandError("The daily sums differ from the ledger. Make them anew without --check.")
            return
        with transaction.atomic():
            self._tell(compare())
            count = rebuild()
        self.stdout.write(f"Summed up {count} entries anew.")

    def _tell(self, found: Comparison) -> None:
        for difference in found.differences:
            self.stdout.write(str(difference))
        for entry_id in found.lost:
            self.stdout.write(f"entry {entry_id} is in no sum and does not wait for one")
        if found.agrees:
            self.stdout.write("The daily sums agree with the ledger.")
