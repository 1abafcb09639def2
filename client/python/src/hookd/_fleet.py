"""All replicas: who they are, and whose turn it is. The same as in the Rust client, whose documentation says it in full.

Nothing here waits. Who wants to know of a change watches (`Fleet.watch`), and looks again.
"""

from __future__ import annotations

import itertools
import random
import threading
import time
from collections.abc import Callable, Generator, Iterable
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Generic, Protocol, TypeVar

from hookd import _resolve
from hookd._address import Address
from hookd._call_error import CallError, CallErrorKind, not_trusted, unreachable

# How old what is known of names may be, in seconds.
_RESOLVED_FOR = 30.0
# After the loss of a replica, names are looked up again where what is known is older than this.
_RESOLVED_FOR_AT_LEAST = 1.0
# How long a replica is left alone after it has failed once; it doubles with each further failure.
_FIRST_REST = 0.1
_LONGEST_REST = 10.0


class Link(Protocol):
    """A connection, as far as it matters whose turn it is."""

    settled: bool | None
    """Whether it could be made. `None`: it is being made."""

    def start(self, on_settled: Callable[[], None]) -> None:
        """Begins to connect; `on_settled` is called when that has come to an end, from any thread."""

    def is_usable(self) -> bool:
        """Whether it is of use to whoever asks now."""
        ...

    def is_lost(self) -> bool:
        """Whether it takes no more calls, as far as that is known without making one."""
        ...

    def drop(self) -> None:
        """Lets go of it. No call is on it."""


C = TypeVar("C", bound=Link)


@dataclass(eq=False)
class Replica(Generic[C]):
    """One hookd of several, and the connection to it."""

    address: Address
    target: str
    """What gRPC takes."""
    name: str
    """The address as it was written, and what it stands for where it is a name."""
    connection: C | None = None
    """Made when its turn comes, and again whenever it is lost."""
    rests_until: float = 0.0
    """It has failed: others have their turn until then."""
    failures: int = 0
    """Since it last gave an answer."""


@dataclass(frozen=True)
class Known(Generic[C]):
    """What is known of the replicas."""

    replicas: list[Replica[C]]
    unresolved: list[CallError] = field(default_factory=list[CallError])
    """What names, of which nothing is known, could not be looked up for."""
    resolved_at: float | None = None
    """When the look-up of this was begun."""

    def of(self, address: Address) -> list[Replica[C]]:
        """Those that `address` stands for."""
        return [replica for replica in self.replicas if replica.address is address]

    def names(self, addresses: Iterable[Address]) -> list[str]:
        """The names of all replicas, and of the addresses that none is known of."""
        return [replica.name for replica in self.replicas] + [one.text for one in addresses if not self.of(one)]


class Fleet(Generic[C]):
    """The replicas behind the addresses of a client."""

    def __init__(self, addresses: list[Address]) -> None:
        self.addresses = addresses
        self._has_names = any(address.is_name for address in addresses)
        self.known: Known[C] = Known([Replica(one, one.target, one.text) for one in addresses if not one.is_name])
        start = random.randrange(1 << 30)
        self._turn = itertools.count(start)
        # Whose turn it is among the others where one cannot take its own.
        self._stand_in = itertools.count(start)
        self._connecting = threading.Lock()
        self._resolving: threading.Event | None = None
        self._watching: set[Callable[[], None]] = set()

    @contextmanager
    def watch(self, tell: Callable[[], None]) -> Generator[None]:
        """Tells of each change, from any thread."""
        self._watching.add(tell)
        try:
            yield
        finally:
            self._watching.discard(tell)

    def changed(self) -> None:
        """Tells who watches."""
        for tell in tuple(self._watching):
            tell()

    def look_up(self, since: float | None) -> threading.Event | None:
        """The look-up that has to end before `known` is of use: one that was begun after `since`. `None`: it is of use."""
        at = self.known.resolved_at
        if not self._has_names:
            return None
        if at is None or (since is not None and at < since):
            return self._resolve()
        if time.monotonic() - at > _RESOLVED_FOR:
            self._resolve()
        return None

    def ready(
        self, known: Known[C], tried: set[Replica[C]], connect: Callable[[Replica[C]], C]
    ) -> tuple[Replica[C], C] | None:
        """The replica whose turn it is, if it is ready; else one of the others that are, in turn: the share of one goes to
        all. A replica that is not ready begins to connect, for its next turn."""
        if not known.replicas:
            return None
        now = time.monotonic()
        in_turn = known.replicas[next(self._turn) % len(known.replicas)]
        if in_turn not in tried and (connection := self._ready(in_turn, now)) is not None:
            return in_turn, connection
        ready = [
            (replica, connection)
            for replica in known.replicas
            if replica not in tried and (connection := self._ready(replica, now)) is not None
        ]
        if not ready:
            return None
        if in_turn not in tried and in_turn.connection is None and in_turn.rests_until <= now:
            self._has_lost(known)
            try:
                self.connect(in_turn, connect)
            except OSError:
                # Of its files; the call is made at another one.
                self._rest(in_turn)
        return ready[next(self._stand_in) % len(ready)]

    def candidates(self, known: Known[C], tried: set[Replica[C]]) -> list[Replica[C]]:
        """Those that are not among `tried`, each call from another one on; those that rest come last, the longest rest at
        the end."""
        now = time.monotonic()
        start = next(self._stand_in) % max(len(known.replicas), 1)
        in_order = known.replicas[start:] + known.replicas[:start]
        left = [replica for replica in in_order if replica not in tried]
        return sorted(left, key=lambda replica: replica.rests_until if replica.rests_until > now else 0.0)

    def connect(self, replica: Replica[C], connect: Callable[[Replica[C]], C]) -> C:
        """The connection that calls share; begins to make it if there is none. Raises `OSError` where a file cannot be
        read."""
        with self._connecting:
            connection = replica.connection
            if connection is not None and connection.is_usable() and not connection.is_lost():
                return connection
            made = replica.connection = connect(replica)
        made.start(lambda: self._settled(replica, made))
        return made

    def has_answered(self, replica: Replica[C]) -> None:
        """It gave an answer."""
        replica.failures = 0

    def has_failed(self, replica: Replica[C], connection: C) -> None:
        """It gave none to a call over `connection`: others have their turn, and the connection is made anew. Calls that are
        on it still end on it."""
        # Only the first of all the calls on it counts.
        if self._retire(replica, connection):
            self._rest(replica)
        self._has_lost(self.known)

    def was_silent(self, replica: Replica[C], connection: C) -> None:
        """It said nothing to a call while there was time. It may be stuck: it has to connect anew before it is asked
        again."""
        self._retire(replica, connection)

    def take_connections(self) -> list[C]:
        """All connections, which are no longer those of the replicas."""
        taken: list[C] = []
        for replica in self.known.replicas:
            connection, replica.connection = replica.connection, None
            if connection is not None:
                taken.append(connection)
        # Of a look-up that is under way nobody hears in a forked child.
        self._resolving = None
        return taken

    def _ready(self, replica: Replica[C], now: float) -> C | None:
        connection = replica.connection
        if connection is None or not connection.settled or not connection.is_usable() or replica.rests_until > now:
            return None
        if connection.is_lost():
            self._retire(replica, connection)
            return None
        return connection

    def _retire(self, replica: Replica[C], connection: C) -> bool:
        is_current = replica.connection is connection
        if is_current:
            replica.connection = None
        return is_current

    def _rest(self, replica: Replica[C]) -> None:
        longest = min(_FIRST_REST * 2.0 ** min(replica.failures, 20), _LONGEST_REST)
        replica.failures += 1
        replica.rests_until = time.monotonic() + longest * random.uniform(0.5, 1.0)

    def _settled(self, replica: Replica[C], connection: C) -> None:
        if connection.settled:
            replica.rests_until = 0.0
        else:
            self.has_failed(replica, connection)
        self.changed()

    def _has_lost(self, known: Known[C]) -> None:
        """Where it went may be known by now."""
        at = known.resolved_at
        if self._has_names and (at is None or time.monotonic() - at > _RESOLVED_FOR_AT_LEAST):
            self._resolve()

    def _resolve(self) -> threading.Event:
        """Looks all names up; whoever wants it meanwhile waits for the same."""
        with self._connecting:
            if self._resolving is not None:
                return self._resolving
            done = self._resolving = threading.Event()
        # The system's look-up cannot be interrupted, and may take longer than the call that needs it.
        threading.Thread(target=self._look_up, args=(done,), name="hookd-resolve", daemon=True).start()
        return done

    def _look_up(self, done: threading.Event) -> None:
        try:
            self.known = self._looked_up(self.known)
        finally:
            if self._resolving is done:
                self._resolving = None
            done.set()
            self.changed()

    def _looked_up(self, before: Known[C]) -> Known[C]:
        begun = time.monotonic()
        replicas: list[Replica[C]] = []
        unresolved: list[CallError] = []
        for address in self.addresses:
            if not address.is_name:
                replicas += before.of(address)
                continue
            try:
                replicas += self._places(address, before)
            except CallError as error:
                # Better those that were there a moment ago than none.
                there = [] if error.kind is CallErrorKind.NOT_TRUSTED else before.of(address)
                replicas += there
                if not there:
                    unresolved.append(error)
        return Known(replicas, unresolved, begun)

    def _places(self, address: Address, before: Known[C]) -> list[Replica[C]]:
        """The replicas behind a name. Those that were known stay what they are."""
        at = f"hookd cannot be reached at {address.text}"
        try:
            places = _resolve.resolve(address.host, address.port)
        except (OSError, UnicodeError) as error:
            said = getattr(error, "strerror", None) or str(error)
            raise unreachable(f"{at}: the name cannot be looked up: {said}") from None
        if not places:
            raise unreachable(f"{at}: the name has no address")
        if address.local and not address.tls and not all(_resolve.is_of_this_machine(ip) for ip, _ in places):
            # What is plain for being local must be so: a name says nothing.
            raise not_trusted("it is not on this machine, and there is no TLS", address.text)
        there = {replica.target: replica for replica in before.of(address)}
        found: list[Replica[C]] = []
        for ip, port in places:
            place = f"[{ip}]:{port}" if ":" in ip else f"{ip}:{port}"
            target = f"dns:///{place}"
            found.append(there.get(target) or Replica(address, target, f"{address.text} ({place})"))
        return found

