"""The advisor on a recorded trace."""

import json
from pathlib import Path
from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import translation

from portal.advisor.presenting import told
from scheduler.advisor.judging import advise
from scheduler.advisor.trace_files import TraceUnreadable, read_trace


class Command(BaseCommand):
    help = (
        "Judge a recorded trace and print the findings as JSON: at most three, each with its evidence. What the portal "
        "would know of the lease is taken from the line of labels.jsonl beside it; its labels are not looked at."
    )
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("--trace", type=Path, required=True, metavar="FILE", help="a CSV, a row a second and rank")
        parser.add_argument("--language", default="en", choices=[code for code, _name in settings.LANGUAGES])

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            advice = advise(read_trace(options["trace"]))
        except TraceUnreadable as error:
            raise CommandError(str(error)) from error
        with translation.override(options["language"]):
            self.stdout.write(json.dumps(told(advice), indent=2, ensure_ascii=False))
