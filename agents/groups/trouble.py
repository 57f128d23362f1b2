"""Why a group does not start or goes no further."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Trouble:
    """``reason`` is a word of :mod:`agents.group_reasons`, ``about`` the node or port it is about."""

    reason: str
    about: str = ""
