"""Keeps gRPC alive over `fork`, as far as it can be, and says so where it cannot.

gRPC has threads of its own, which a forked child does not have. A child can use it all the same if no call was under
way when it was forked, and if it makes connections of its own. So before a fork: calls of other threads get a moment to
end, new ones wait, and all connections are let go (both sides make new ones when they need them). Where a call was under
way all the same, the child's calls fail, since gRPC would crash or hang there.
"""

from __future__ import annotations

import asyncio
import os
import threading
import weakref
from typing import Protocol

# How long a fork waits for calls that are under way on other threads, in seconds.
_PATIENCE = 1.0

FORKED_IN_A_CALL = (
    "this process was forked while a call to hookd was under way, gRPC cannot be used in it; fork between calls or "
    "start processes by `spawn`"
)


class HasConnections(Protocol):
    """Something to tell of a fork."""

    def drop_connections(self) -> None:
        """Lets go of all connections; none of them is in use."""


class _Forks:
    def __init__(self) -> None:
        # Reentrant: a signal handler may fork while its own thread is in here.
        self._changed = threading.Condition()
        self._under_way = 0
        self._forking = False
        self._broken = False
        self._known: weakref.WeakSet[HasConnections] = weakref.WeakSet()
        if hasattr(os, "register_at_fork"):
            os.register_at_fork(before=self._before, after_in_parent=self._in_parent, after_in_child=self._in_child)

    def watch(self, owner: HasConnections) -> None:
        """Tells `owner` of forks for as long as it lives."""
        self._known.add(owner)

    def begin(self) -> bool:
        """A call begins. `False`: it must not, gRPC is broken in this process."""
        with self._changed:
            while self._forking:
                self._changed.wait()
            if self._broken:
                return False
            self._under_way += 1
            return True

    def end(self) -> None:
        """A call that has begun is over."""
        with self._changed:
            self._under_way -= 1
            if self._forking:
                self._changed.notify_all()

    def _before(self) -> None:
        self._changed.acquire()
        self._forking = True
        # On an event loop nothing goes on while it waits.
        if asyncio._get_running_loop() is None:
            self._changed.wait_for(lambda: self._under_way == 0, _PATIENCE)
        if self._under_way == 0 and not self._broken:
            for owner in list(self._known):
                owner.drop_connections()

    def _in_parent(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def _in_child(self) -> None:
        self._changed = threading.Condition()
        self._broken = self._broken or self._under_way > 0
        self._under_way = 0
        self._forking = False


forks = _Forks()
"""The one watch of this process."""
