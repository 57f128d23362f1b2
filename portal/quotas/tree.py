"""How quotas of one pool fit into each other along the tree of tenants, at every moment."""

import datetime as dt
from collections.abc import Iterator, Sequence

from django.utils.translation import gettext as _
from psycopg2.extras import DateTimeTZRange

from portal.quotas.errors import Duplicate, QuotaRefused
from portal.quotas.models import Quota, always
from portal.quotas.words import moment, valid_words

BEGINNING = dt.datetime.min.replace(tzinfo=dt.UTC)


def check_tree(wanted: Quota) -> None:
    """Refuse a quota that would promise more than the one above it has, or less than those below it were promised.

    ``wanted`` has the values that it shall get. A tenant without any row is transparent: what is below it counts at the
    nearest row above. Where a tenant has rows, but none at that moment, nothing below it can be held and so nothing is
    promised then. The root's own promise is its whole limit, since nobody stands beside it. Call under the pool's lock.
    """
    rows = _rows(wanted)
    for row in rows:
        if row.tenant_id == wanted.tenant_id and _meet(row.valid, wanted.valid):
            numbers = {"tenant": wanted.tenant, "pool": wanted.pool, "valid": valid_words(row.valid)}
            raise Duplicate(_(
                "%(tenant)s has a quota in %(pool)s already: %(valid)s. Change that one, or choose dates that do not "
                "meet it.") % numbers, field="valid")
    for stretch in _stretches(wanted.valid, rows):
        _at(stretch, wanted, rows)


def check_without(gone: Quota) -> None:
    """Refuse to take a quota away when the one above could not promise what is below it. Call under the pool's lock."""
    rows = _rows(gone)
    if any(row.tenant_id == gone.tenant_id for row in rows):
        return
    for stretch in _stretches(always(), rows):
        here = _open(rows, stretch)
        above = [row for row in here if gone.tenant.path.startswith(row.tenant.path)]
        below = [row for row in here if row.tenant.path.startswith(gone.tenant.path)]
        if below and not above:
            raise QuotaRefused(
                _("%(child)s below %(tenant)s has a quota in %(pool)s. Take that away first.")
                % {"child": below[0].tenant, "tenant": gone.tenant, "pool": gone.pool})  # fmt: skip
        if below:
            _check_below(above[-1], next_below(above[-1], here), changed=above[-1], since=stretch.lower)


def _rows(but: Quota) -> list[Quota]:
    rows = Quota.objects.filter(pool=but.pool).exclude(pk=but.pk)
    return list(rows.select_related("tenant").order_by("tenant__path", "valid"))


def _at(stretch: DateTimeTZRange, wanted: Quota, rows: list[Quota]) -> None:
    """The rules at one stretch of time, within which no row begins or ends."""
    here = _open([*rows, wanted], stretch)
    if wanted not in here:
        return
    above = [row for row in here if row is not wanted and wanted.tenant.path.startswith(row.tenant.path)]
    if above:
        _check_below(above[-1], next_below(above[-1], here), changed=wanted, since=stretch.lower)
    elif wanted.tenant.parent_id is not None:
        raise QuotaRefused(
            _("%(parent)s has no quota in %(pool)s to give from. Set that first.")
            % {"parent": wanted.tenant.parent, "pool": wanted.pool}, field="limit")  # fmt: skip
    _check_below(wanted, next_below(wanted, here), changed=wanted, since=stretch.lower)


def _open(rows: Sequence[Quota], stretch: DateTimeTZRange) -> list[Quota]:
    """The rows that are valid then, and not below a tenant that has rows, but none then."""
    valid = [row for row in rows if _meet(row.valid, stretch)]
    now = {row.tenant_id for row in valid}
    closed = {row.tenant.path for row in rows if row.tenant_id not in now}
    return [row for row in valid if not any(row.tenant.path.startswith(path) for path in closed)]


def _stretches(valid: DateTimeTZRange, rows: Sequence[Quota]) -> Iterator[DateTimeTZRange]:
    """The validity, cut wherever any row begins or ends."""
    bounds = {bound for row in rows for bound in (row.valid.lower, row.valid.upper) if bound is not None}
    inside = [at for at in bounds if (valid.lower or BEGINNING) < at and (valid.upper is None or at < valid.upper)]
    edges = [valid.lower, *sorted(inside), valid.upper]
    for since, until in zip(edges, edges[1:], strict=False):
        yield DateTimeTZRange(since, until, "[)")


def _meet(one: DateTimeTZRange, other: DateTimeTZRange) -> bool:
    return (one.upper is None or other.lower is None or other.lower < one.upper) and (
        other.upper is None or one.lower is None or one.lower < other.upper
    )


def next_below(quota: Quota, rows: Sequence[Quota]) -> list[Quota]:
    """The rows directly below: in the tenant's subtree with no other row in between."""
    below = [row for row in rows if row.tenant_id != quota.tenant_id and row.tenant.path.startswith(quota.tenant.path)]
    return [row for row in below if not any(_is_above(other, row) for other in below)]


def _is_above(one: Quota, other: Quota) -> bool:
    return one.tenant_id != other.tenant_id and other.tenant.path.startswith(one.tenant.path)


def _check_below(upper: Quota, lower: list[Quota], changed: Quota, since: dt.datetime | None) -> None:
    for row in lower:
        if row.limit > upper.limit:
            raise QuotaRefused(
                _("%(child)s may hold %(child_limit)d, more than the limit of %(limit)d of %(tenant)s.")
                % {"child": row.tenant, "child_limit": row.limit, "limit": upper.limit, "tenant": upper.tenant}
                + _since(since), {"limit": upper.limit, "child_limit": row.limit}, "limit")  # fmt: skip
    promise = upper.limit if upper.tenant.parent_id is None else upper.guaranteed
    total = sum(row.guaranteed for row in lower)
    if total > promise:
        raise QuotaRefused(
            _guarantees_sentence(upper, lower, total, promise, changed) + _since(since),
            {"total": total, "promise": promise}, "guaranteed")  # fmt: skip


def _since(since: dt.datetime | None) -> str:
    """From when on it would be so, where that is not always."""
    return "" if since is None else " " + _("This is so from %(since)s on.") % {"since": moment(since)}


def _guarantees_sentence(upper: Quota, lower: list[Quota], total: int, promise: int, changed: Quota) -> str:
    """Names what would help: the changed row, or else the largest guarantee, lowered by what is too much."""
    numbers = {"tenant": upper.tenant, "total": total, "promise": promise}
    able = [row for row in lower if row.guaranteed >= total - promise]
    helps = next((row for row in able if row is changed), max(able, key=lambda row: row.guaranteed, default=None))
    if helps is None:
        return (
            _(
                "Guarantees below %(tenant)s would add up to %(total)d of its %(promise)d. "
                "Lower them, or raise %(tenant)s."
            )
            % numbers
        )
    return _(
        "Guarantees below %(tenant)s would add up to %(total)d of its %(promise)d. "
        "Lower %(child)s to %(to)d, or raise %(tenant)s."
    ) % {**numbers, "child": helps.tenant, "to": helps.guaranteed - (total - promise)}
