"""Why a quota, a policy or a budget was not changed."""

import dataclasses
from dataclasses import dataclass


@dataclass(eq=False)
class QuotaRefused(Exception):
    """Nothing was stored. ``message`` is a translated sentence with numbers; ``field`` names the form's field."""

    message: str
    evidence: dict[str, int | str] = dataclasses.field(default_factory=dict)
    field: str = ""

    code = "quota_refused"

    def __str__(self) -> str:
        return self.message


class NotAllowed(QuotaRefused):
    code = "not_allowed"


class Duplicate(QuotaRefused):
    """What is added is there already."""

    code = "duplicate"


class NotHeld(QuotaRefused):
    """What is removed is not there."""

    code = "not_held"


class PolicyLoosened(QuotaRefused):
    """A policy may only tighten what stands above it."""

    code = "policy_loosened"
