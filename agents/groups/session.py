"""One group on one node, from its checks to its end, as the rest of the agent sees it."""

import asyncio
import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass
from enum import StrEnum

from agents.group_format import Group
from agents.groups.trouble import Trouble
from agents.groups.words import Word, farewell

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class Limits:
    """``silence_seconds``: so long a node may not be heard before the group is at its end; four signs of life fall into
    that. ``check_seconds``: so long the nodes have to find each other before the start."""

    silence_seconds: float = 20.0
    check_seconds: float = 60.0

    @property
    def beat_seconds(self) -> float:
        return self.silence_seconds / 4

    @property
    def grace_seconds(self) -> float:
        """The most that a workload is given to save when its group is lost: what it saved before counts more."""
        return 0.75 * self.silence_seconds

    @property
    def unwatched_seconds(self) -> float:
        """So long a rank runs on whose agent is gone; longer than one call of a driver that hangs holds an agent up."""
        return 2 * self.silence_seconds


class Stage(StrEnum):
    CHECKING = "checking"
    RUNNING = "running"
    TROUBLED = "troubled"


class Session:
    """Changed in one event loop only, that of :class:`agents.groups.watch.Groups`; other threads read it."""

    def __init__(self, group: Group, limits: Limits, running: bool, told: Callable[[], None]) -> None:
        """``running``: the workload runs already, and a new agent takes the watch over."""
        self.group = group
        self.limits = limits
        self.stage = Stage.RUNNING if running else Stage.CHECKING
        self.ran = running
        self.trouble: Trouble | None = None
        self.closing = asyncio.Event()
        self.last_word: Word | None = None
        self._told = told

    @property
    def checking(self) -> bool:
        return self.stage is Stage.CHECKING

    @property
    def open(self) -> bool:
        return not self.closing.is_set()

    def go(self) -> None:
        if self.checking:
            self.stage, self.ran = Stage.RUNNING, True
            self._told()

    def fail(self, trouble: Trouble) -> None:
        """The group is over here, and the others are told so."""
        if self.open:
            log.warning("group with lease %s: %s %s", self.group.first_lease_id, trouble.reason, trouble.about)
            self.trouble, self.stage = trouble, Stage.TROUBLED
            self.leave(trouble)
            self._told()

    def leave(self, trouble: Trouble | None) -> None:
        """The workload has ended here, well or with ``trouble``: the others are told, and the watch ends."""
        if self.open:
            self.last_word = farewell(trouble)
            self.closing.set()

    async def pause(self, seconds: float) -> None:
        """That long, or until this session closes."""
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds):
                await self.closing.wait()
