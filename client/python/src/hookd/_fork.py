"""Keeps gRPC alive over `fork`, as far as it can be, and says so where it cannot.

gRPC has threads of its own, which a forked child does not have. A child can use it all the same if they were at rest
when it was forked, and if it makes connections of its own. So before a fork: calls of other threads get a moment to end,
new ones wait, and all connections are let go (both sides make new ones when they need them). With the last connection
gRPC ends its threads, which gets a moment too. Where a call was under way all the same, the child's calls fail, since
gRPC would crash or hang there.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import weakref
from typing import Protocol

# How long a fork waits for calls that are under way on other threads, in seconds.
_PATIENCE = 1.0
# How long a fork waits for the threads of gRPC to end, in seconds. They stay where something else uses gRPC.
_REST = 0.5
# What gRPC calls its threads, as far as the kernel keeps the names.
_GRPC_THREADS = ("event_engine", "grpc_", "lifeguard", "default-execut", "resolver-execut")

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
        self._used = False
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
            self._used = True
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
            if self._used:
                _let_rest()
                self._used = False

    def _in_parent(self) -> None:
        self._forking = False
        self._changed.notify_all()
        self._changed.release()

    def _in_child(self) -> None:
        self._changed = threading.Condition()
        self._broken = self._broken or self._under_way > 0
        self._under_way = 0
        self._forking = False


def _let_rest() -> None:
    """Waits until gRPC has no threads."""
    over = time.monotonic() + _REST
    while _has_threads() and time.monotonic() < over:
        time.sleep(0.001)


def _has_threads() -> bool:
    try:
        tasks = os.listdir("/proc/self/task")
    except OSError:
        # Without a list of threads there is only the wait.
        return True
    return any(_name(task).startswith(_GRPC_THREADS) for task in tasks)


def _name(task: str) -> str:
    try:
        with open(f"/proc/self/task/{task}/comm", encoding="ascii", errors="replace") as file:
            return file.read()
    except OSError:
        return ""


forks = _Forks()
"""The one watch of this process."""
