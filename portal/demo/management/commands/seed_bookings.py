"""Fills the demo's calendar once its nodes have told what they have."""

from typing import Any

from django.core.management.base import BaseCommand

from portal.demo.bookings import seed_bookings
from portal.demo.history import seed_history
from portal.demo.story import seed_policies, seed_story


class Command(BaseCommand):
    """Needs the profiles and GPUs that agents report; what was, is and will be is written once."""

    help = "Write the demo's past use and book what its teams hold now and next."
    requires_system_checks: list[str] = []

    def handle(self, *args: Any, **options: Any) -> None:
        past, fresh = seed_history(), seed_policies()
        booked = seed_bookings()
        told = seed_story() if fresh else 0
        self.stdout.write(f"{past} past, {booked} booked, {told} beside")
