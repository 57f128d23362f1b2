"""What a usage page shows, row by row."""

import datetime as dt
from dataclasses import dataclass

from portal.accounts.models import User
from portal.ledger.folding import Day
from portal.reports.figures import MS, Figures


@dataclass(frozen=True)
class Claim:
    """A reservation as the usage page sees it."""

    reservation_id: int
    owner_id: int
    name: str
    end_reason: str


@dataclass(frozen=True)
class Piece:
    """A part of a row's bar, from ``x`` on; without ``css`` it is hatched: not measurable."""

    css: str
    x: float
    seconds: float


@dataclass(frozen=True)
class Row:
    """Figures of one person or one reservation, and what of them was given back or never began (slice-seconds)."""

    key: int
    label: str
    figures: Figures
    released: int
    never_started: int

    @property
    def bar(self) -> list[Piece]:
        """Used, idle, not measurable, not running, one behind the other."""
        found, x = [], 0.0
        parts = (("f-used", self.figures.used_ms / MS), ("f-idle", self.figures.idle_ms / MS),
                 ("", self.figures.unmeasured_ms / MS), ("f-rest", float(self.figures.not_running)))  # fmt: skip
        for css, seconds in parts:
            if seconds > 0:
                found.append(Piece(css, x, seconds))
                x += seconds
        return found


@dataclass(frozen=True)
class Usage:
    """Everything a usage page shows, from one set of cells (reservation, day)."""

    total: Figures
    by_day: list[tuple[Day, Figures]]
    by_member: list[Row]
    by_reservation: list[Row]
    by_member_and_day: list[tuple[User, dt.date, Figures]]
    people: dict[int, User]
    claims: dict[int, Claim]

    @property
    def scale(self) -> int:
        """What the bars of the funnel are drawn against."""
        return max(1, self.total.reserved, self.total.running)

    @property
    def running_percent(self) -> int | None:
        return round(100 * self.total.running / self.total.reserved) if self.total.reserved else None

    @property
    def used_percent(self) -> int | None:
        return round(100 * self.total.used_ms / MS / self.total.reserved) if self.total.reserved else None

    @property
    def days_held(self) -> int:
        return sum(1 for _, figures in self.by_day if figures.running)

    def owner_of(self, reservation: Row) -> User:
        return self.people[self.claims[reservation.key].owner_id]
