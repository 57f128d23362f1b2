"""A workload's bytes as text that a page can show."""

import re

_ANSI = re.compile(r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])")
_CONTROL = re.compile(r"[\x00-\x08\x0b-\x1f\x7f-\x9f\u200e\u200f\u202a-\u202e\u2066-\u2069]")


def plain_text(data: bytes) -> str:
    """Decode with replacement; escape sequences, control and direction characters go, newline and tab stay.
    A carriage return becomes a newline, so that progress bars are lines."""
    text = data.decode(errors="replace").replace("\r\n", "\n").replace("\r", "\n")
    return _CONTROL.sub("", _ANSI.sub("", text))
