"""The groups on this node: a session each, all in the event loop of one thread of their own."""

import asyncio
import logging
import threading
from collections.abc import Callable
from concurrent.futures import Future

from agents.cluster import Cluster
from agents.group_format import Group
from agents.groups.checks import trouble_here
from agents.groups.following import Follower
from agents.groups.leading import Leader
from agents.groups.session import Limits, Session
from agents.groups.trouble import Trouble

log = logging.getLogger(__name__)


class Groups:
    """For the reconcile thread. ``told`` is called from the other one when a session has news."""

    def __init__(
        self, cluster: Callable[[], Cluster] = Cluster, limits: Limits | None = None,
        told: Callable[[], None] = lambda: None,
    ) -> None:
        self.limits = limits or Limits()
        self._cluster = cluster
        self._told = told
        self._sessions: dict[str, Session] = {}
        self._loop: asyncio.AbstractEventLoop | None = None

    def session(self, group: Group, *, running: bool) -> Session:
        """The session of this group, opened now where there is none. ``running``: its workload runs already."""
        if group.secret not in self._sessions:
            session = Session(group, self.limits, running, self._told)
            self._sessions[group.secret] = session
            self._in_loop(self._run(session))
        return self._sessions[group.secret]

    def leave(self, group: Group, trouble: Trouble | None) -> None:
        """The workload is at its end here: tell the others, once."""
        session = self._sessions.pop(group.secret, None)
        if session is not None and self._loop is not None:
            self._loop.call_soon_threadsafe(session.leave, trouble)

    def close(self) -> None:
        """Let go of every connection without a word: the workloads run on, and the next agent takes the watch over."""
        loop, self._loop = self._loop, None
        if loop is not None:
            loop.call_soon_threadsafe(_end, loop)

    async def _run(self, session: Session) -> None:
        group = session.group
        if session.checking:
            trouble = await trouble_here(group, self._cluster())
            if trouble is not None:
                session.fail(trouble)
        watch = Follower(session) if group.node_rank else Leader(session)
        await watch.watch()

    def _in_loop(self, work) -> None:
        if self._loop is None:
            self._loop = asyncio.new_event_loop()
            threading.Thread(target=self._loop.run_forever, name="groups", daemon=True).start()
        future: Future[None] = asyncio.run_coroutine_threadsafe(work, self._loop)
        future.add_done_callback(_complain)


def _end(loop: asyncio.AbstractEventLoop) -> None:
    tasks = asyncio.all_tasks(loop)
    for task in tasks:
        task.cancel()
    ended = asyncio.gather(*tasks, return_exceptions=True)
    ended.add_done_callback(lambda _: loop.stop())


def _complain(future: "Future[None]") -> None:
    error = None if future.cancelled() else future.exception()
    if error is not None:
        log.error("the watch of a group has failed", exc_info=error)
