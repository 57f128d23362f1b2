"""Patterns of images: a name as it is, or the beginning of names with a star at its end (``registry/team/*``)."""

import re
from collections.abc import Iterable, Sequence

PATTERN = re.compile(r"[a-z0-9][a-z0-9._:/@-]{0,253}\*?|\*")


def is_pattern(text: str) -> bool:
    return PATTERN.fullmatch(text) is not None


def matches(patterns: Iterable[str], image: str) -> bool:
    """Whether one of the patterns takes the image."""
    return any(covers(pattern, image) for pattern in patterns)


def covers(upper: str, lower: str) -> bool:
    """Whether every image that ``lower`` takes is taken by ``upper`` too."""
    if upper.endswith("*"):
        return lower.startswith(upper[:-1])
    return upper == lower


def both(upper: Sequence[str], lower: Sequence[str]) -> tuple[str, ...]:
    """Patterns that take exactly what both lists take: of two beginnings that meet, the longer one."""
    found = [low for low in lower if any(covers(up, low) for up in upper)]
    found += [up for up in upper if any(covers(low, up) for low in lower)]
    return tuple(dict.fromkeys(found))
