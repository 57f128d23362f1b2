"""Whose turn it is: fair shares between tenants, by what each used lately against what it is guaranteed.

Pure. Amounts are weighted slice-seconds. Use decays with a half-life of a week, so that nobody pays for last year, and
whoever waits comes ever further to the front. At every level of the tree the sibling that used least of its share comes
first; then the same is asked below it. What is handed out within one pass counts at once.
"""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field

HALF_LIFE_SECONDS = 7 * 86400


def decayed(slice_seconds: int, age_seconds: float) -> float:
    """What use counts that lies so long ago: half after a week, a quarter after two."""
    return slice_seconds * 0.5 ** (max(age_seconds, 0.0) / HALF_LIFE_SECONDS)


@dataclass(frozen=True)
class Standing:
    """A tenant in a pool. ``used`` is that of its own people, without the tenants below it, decayed; ``guaranteed`` is
    the weight that its whole subtree may count on, None where no quota says so."""

    path: str
    used: int
    guaranteed: int | None = None


@dataclass(frozen=True)
class Claim:
    """A request that waits. ``cost`` is what it will use, ``since`` in seconds since 1970, ``lapsed`` how many offers
    it let pass: such come after all others."""

    key: int
    path: str
    cost: int
    since: int
    displaced: bool = False
    lapsed: int = 0

    @property
    def turn(self) -> tuple[bool, int, int]:
        """Between equals: what was displaced first, then who waits longest."""
        return not self.displaced, self.since, self.key


@dataclass
class Share:
    """A tenant's part in the tree, or the part of its own people beside the tenants below it."""

    path: str
    used: int = 0
    guaranteed: int | None = None
    below: dict[str, "Share"] = field(default_factory=dict)
    claims: list[Claim] = field(default_factory=list)

    @property
    def ratio(self) -> float:
        return self.used / max(self.guaranteed or 0, 1)

    @property
    def first(self) -> Claim | None:
        own = [self.claims[-1]] if self.claims else []
        heads = [*own, *filter(None, (one.first for one in self.below.values()))]
        return min(heads, key=lambda claim: claim.turn, default=None)


def in_fair_order(claims: Iterable[Claim], standings: Iterable[Standing]) -> tuple[int, ...]:
    """The keys of the claims, whose turn it is first; the same input gives the same answer in whatever order it comes.

    Each claim costs its tenant, and all above it, what it will use before the next is chosen.
    """
    claims = list(claims)
    root = _tree(standings, claims)
    order: list[int] = []
    for lapsed in sorted({claim.lapsed for claim in claims}):
        these = [claim for claim in claims if claim.lapsed == lapsed]
        for claim in sorted(these, key=lambda claim: claim.turn, reverse=True):
            _path_to(root, claim.path)[-1].claims.append(claim)
        order += [_take(root) for _ in these]
    return tuple(order)


def _tree(standings: Iterable[Standing], claims: Sequence[Claim]) -> Share:
    """Every tenant is a node; its own people are a leaf beside the tenants below it, guaranteed what these are not."""
    root = Share("/")
    known = {one.path: one for one in standings}
    for path in sorted({*known, *(claim.path for claim in claims)}):
        standing = known.get(path) or Standing(path, 0)
        way = _path_to(root, path)
        for share in way:
            share.used += standing.used
        way[-2].guaranteed = standing.guaranteed
    _settle(root)
    return root


def _path_to(root: Share, path: str) -> list[Share]:
    """From the root down to the leaf of the tenant's own people; what is missing is made."""
    way, at = [root], "/"
    for part in path.strip("/").split("/"):
        at += f"{part}/"
        way.append(way[-1].below.setdefault(at, Share(at)))
    own = f"{at}*"
    way.append(way[-1].below.setdefault(own, Share(own, guaranteed=0)))
    return way


def _settle(share: Share) -> None:
    """Every node's guarantee: of a tenant without a quota what those below it have, of own people what these leave."""
    for one in share.below.values():
        _settle(one)
    own = share.below.get(f"{share.path}*")
    others = sum(one.guaranteed or 0 for one in share.below.values() if one is not own)
    if own is not None:
        own.guaranteed = max(0, (share.guaranteed or 0) - others)
    if share.guaranteed is None:
        share.guaranteed = others


def _take(root: Share) -> int:
    """The claim whose turn it is, taken out and counted as used all the way down."""
    share, way = root, [root]
    while not share.claims:
        waiting = [(one, one.first) for one in share.below.values()]
        share = min(
            ((one, first) for one, first in waiting if first is not None),
            key=lambda pair: (pair[0].ratio, pair[1].turn, pair[0].path),
        )[0]
        way.append(share)
    claim = share.claims.pop()
    for one in way:
        one.used += claim.cost
    return claim.key
