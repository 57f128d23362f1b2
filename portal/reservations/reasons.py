"""The sentences of refusals, each with its numbers, worded once for booking and preview."""

import datetime as dt
from collections.abc import Mapping

from django.utils import timezone
from django.utils.translation import gettext as _

from portal.inventory.models import Pool, Profile
from portal.reservations.errors import BudgetExceeded, NoCapacity, QuotaExceeded
from scheduler.placement.explain import Reason, Why

NO_NAMES: Mapping[int, str] = {}


def quota_exceeded(tenant: str, limit: int, held: int, asked: int) -> QuotaExceeded:
    """``held`` is the peak within the window; all are weights."""
    numbers: dict[str, int | str] = {"tenant": tenant, "limit": limit, "held": held, "asked": asked}
    sentence = _("%(tenant)s holds %(held)d of its %(limit)d slices in this window; this asks for %(asked)d more.")
    return QuotaExceeded(sentence % numbers, numbers, field="ranks")


def budget_exceeded(tenant: str, period: str, amount: int, left: int, asked: int) -> BudgetExceeded:
    """Amounts in weighted slice-seconds; shown in slice-h, what is left rounded down and what is asked rounded up."""
    shown = {
        "tenant": tenant,
        "period": period,
        "amount": slice_hours(amount),
        "left": slice_hours(max(left, 0)),
        "asked": slice_hours(asked, up=True),
    }
    evidence: dict[str, int | str] = {
        "tenant": tenant,
        "period": period,
        "amount_slice_seconds": amount,
        "left_slice_seconds": left,
        "asked_slice_seconds": asked,
    }
    sentence = _("%(tenant)s has %(left)s of its %(amount)s slice-h left in %(period)s; this needs %(asked)s.")
    return BudgetExceeded(sentence % shown, evidence, field="end")


def no_capacity(why: Reason, pool: Pool, profile: Profile, nodes: Mapping[int, str] = NO_NAMES) -> NoCapacity:
    """The dominant reason why the ranks found no place; ``why`` in the evidence is its code. ``nodes``: names by id."""
    numbers = {key: value for key, value in why.evidence.items() if value is not None}
    evidence: dict[str, int | str] = {"why": str(why.code), "pool": pool.name, "profile": profile.name, **numbers}
    moments = {key: int(value) for key, value in numbers.items() if key.endswith("_at")}
    times = {key: dt.datetime.fromtimestamp(moment, dt.UTC) for key, moment in moments.items()}
    evidence |= {key: time.isoformat() for key, time in times.items()}
    shown = {key: f"{timezone.localtime(time):%Y-%m-%d %H:%M}" for key, time in times.items()}
    node_id = why.evidence.get("node_id")
    where = nodes.get(int(node_id), "") if node_id is not None else ""
    told = {**numbers, **shown, "pool": pool, "profile": profile.name, "what": where or pool}
    return NoCapacity(_capacity_sentence(why) % told, evidence)


def _capacity_sentence(why: Reason) -> str:
    if why.code == Why.NO_DEVICE:
        return _("No GPU of %(pool)s takes %(profile)s now.")
    if why.code == Why.TOO_LARGE:
        return _("%(pool)s takes at most %(at_most)d × %(profile)s even when it is empty; this needs %(ranks)d.")
    if why.code == Why.MAINTENANCE:
        return _("%(what)s is in maintenance from %(closed_at)s to %(opens_at)s; without that there would be room.")
    if why.code == Why.TOO_FEW:
        return _("%(fitting)d × %(profile)s fit in %(pool)s for all of this window; this needs %(ranks)d.")
    if why.code == Why.FRAGMENTED:
        return _(
            "%(free_slices)d slices of %(pool)s are free for all of this window, on %(gpus_with_free_slices)d GPUs, "
            "but nowhere the %(size)d side by side that %(profile)s needs."
        )
    return _(
        "%(free_slices)d of %(slices)d slices of %(pool)s are free for all of this window; %(profile)s needs %(size)d."
    )


def slice_hours(seconds: int, up: bool = False) -> str:
    """Slice-hours with one decimal where needed."""
    tenths = -(-seconds // 360) if up else seconds // 360
    return f"{tenths // 10:,}" if tenths % 10 == 0 else f"{tenths / 10:,.1f}"
