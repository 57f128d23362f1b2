"""Fills the demo's calendar once its nodes have told what they have."""

from typing import Any

from django.core.management.base import BaseCommand

from portal.demo.bookings import seed_bookings
from portal.demo.history import seed_history


class Command(BaseCommand):
    """Needs the profiles and GPUs that agents report; what was, is and will be is written once."""

    help = "Write the demo's past use and book what its teams hold now and next."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        past = seed_history()
        self.stdout.write(f"{past} past, {seed_bookings()} booked")
