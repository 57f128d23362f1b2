"""Fills an empty Berth with a year of a made-up organisation."""

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from portal.demo.year import OrganisationThere, seed_year
from portal.demo.year_plan import YearTooFull


class Command(BaseCommand):
    """Everything or nothing. The same seed gives the same people, machines and reservations around the present."""

    help = "Write a year of a made-up organisation: 60 tenants, 400 people, 20,000 reservations on simulated machines."
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--seed", type=int, default=1)
        parser.add_argument("--scale", type=float, default=1.0, help="share of the people and reservations to write")
        parser.add_argument("--password", default="", help="of everybody; without it nobody can sign in by one")

    def handle(self, *args: Any, **options: Any) -> None:
        if not 0 < options["scale"] <= 1:
            raise CommandError("The scale is above 0 and at most 1.")
        try:
            rows = seed_year(seed=options["seed"], scale=options["scale"], password=options["password"])
        except (OrganisationThere, YearTooFull) as refusal:
            raise CommandError(str(refusal)) from refusal
        self.stdout.write(", ".join(f"{count} {what}" for what, count in rows.items()))
