"""What both clients share: their settings, and when a call is tried again.

Nothing here waits or sends: `Calls.ask` yields what has to be done next, and the two clients do it.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Generator, Iterable
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar, Union

import grpc
from google.protobuf.message import DecodeError, Message

from hookd import v1
from hookd._address import Address
from hookd._call_error import CallError, CallErrorKind, deadline_over, of_status, refused_here, unreachable
from hookd._fork import FORKED_IN_A_CALL, forks
from hookd._gate import Gate, OnUnavailable, gate_of_answer, of_error
from hookd._transport import Tls, Transport

DEFAULT_DEADLINE = 30.0
DEFAULT_ROUNDS = 5
DEFAULT_MESSAGE_BYTES = 4 * 1024 * 1024
# The wait before the second round, in seconds; it doubles from round to round up to the longest.
_FIRST_BACK_OFF = 0.05
_LONGEST_BACK_OFF = 1.0

# Nothing was judged.
UNANSWERED = frozenset((CallErrorKind.UNAVAILABLE, CallErrorKind.NOT_TRUSTED))
_CLOSED = "the client is closed"

C = TypeVar("C")
Outcome = Union[v1.TriggerResponse, CallError]


@dataclass
class Peer(Generic[C]):
    """One address, and the connection to it."""

    address: Address
    connection: C | None = None
    """Made when it is first needed, and again whenever it is lost."""


@dataclass(frozen=True)
class Attempt(Generic[C]):
    """Ask this peer now; to be answered with what came of it."""

    peer: Peer[C]
    timeout: float
    """How long it may take, in seconds."""


@dataclass(frozen=True)
class Wait:
    """Wait so long, in seconds."""

    seconds: float


class Status(Protocol):
    """How a call ended, as both of gRPC's libraries have it."""

    def code(self) -> grpc.StatusCode: ...
    def details(self) -> str | None: ...
    def initial_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...
    def trailing_metadata(self) -> Iterable[tuple[str, str | bytes]] | None: ...


class Calls(Generic[C]):
    """The settings of a client, and its peers."""

    def __init__(
        self,
        addresses: str | Iterable[str],
        on_unavailable: OnUnavailable,
        deadline: float,
        rounds: int,
        message_bytes: int,
        tls: Tls | None,
        token_file: str | None,
    ) -> None:
        """Raises `AddressError`, `ValueError` and `OSError` for settings that cannot be."""
        if not deadline > 0:
            raise ValueError(f"a deadline of {deadline} s is none, expected more than 0")
        if rounds < 1:
            raise ValueError(f"{rounds} rounds ask nobody, expected at least 1")
        self.peers = [Peer[C](address) for address in Address.parse_list(addresses)]
        self.transport = Transport([peer.address for peer in self.peers], message_bytes, tls, token_file)
        self.on_unavailable = on_unavailable
        self.deadline = deadline
        self._rounds = rounds
        self._message_bytes = message_bytes
        # The peer that is asked first: a random one, then the next whenever it does not answer. Counts on, modulo.
        self._current = random.randrange(len(self.peers))
        self.closed = False

    def drop_connections(self) -> None:
        """Lets go of all connections."""
        for peer in self.peers:
            peer.connection = None

    def encoded(self, message: Message) -> bytes | CallError:
        """The bytes of a request, if they are not too many."""
        encoded = message.SerializeToString()
        if len(encoded) > self._message_bytes:
            text = f"the call has {len(encoded)} bytes, the limit is {self._message_bytes}"
            return refused_here(text, grpc.StatusCode.RESOURCE_EXHAUSTED)
        return encoded

    def begin(self) -> CallError | None:
        """A call begins; `forks.end()` says that it is over, unless this gave why it cannot begin."""
        if self.closed:
            return refused_here(_CLOSED)
        return None if forks.begin() else unreachable(FORKED_IN_A_CALL)

    def ask(self, may_repeat: Callable[[], bool]) -> Generator[Attempt[C] | Wait, Outcome | None, Outcome]:
        """Makes one attempt after another within the deadline while nobody answers, and while one more does no harm."""
        deadline = time.monotonic() + self.deadline
        last: CallError | None = None
        # It counts more: what blocks must not turn into what `OnUnavailable` lets go by another server being away.
        untrusted: CallError | None = None
        for round_ in range(self._rounds):
            if round_ > 0:
                wait = _back_off(round_)
                if time.monotonic() + wait >= deadline:
                    break
                yield Wait(wait)
            may_be_back = False
            for _ in self.peers:
                if self.closed:
                    return refused_here(_CLOSED)
                asked = self._current
                peer = self.peers[asked % len(self.peers)]
                outcome = yield Attempt(peer, max(deadline - time.monotonic(), 0.0))
                if isinstance(outcome, v1.TriggerResponse):
                    return outcome
                if outcome is None:
                    continue
                if outcome.kind is CallErrorKind.DEADLINE_EXCEEDED and outcome.decision_id is None:
                    return deadline_over(peer.address.text, self.deadline, untrusted or last)
                if outcome.kind not in UNANSWERED or not may_repeat():
                    return outcome
                # Another call may have moved on already.
                if self._current == asked:
                    self._current = asked + 1
                if outcome.kind is CallErrorKind.NOT_TRUSTED:
                    untrusted = outcome
                else:
                    last, may_be_back = outcome, True
            if not may_be_back:
                break
        error = untrusted or last
        if error is None:
            return deadline_over("any address", self.deadline, None)
        if len(self.peers) > 1:
            tried = ", ".join(peer.address.text for peer in self.peers)
            message = f"{error.message}; tried {tried}"
            return CallError(error.kind, message, error.code, error.decision_id, error.retry_after)
        return error

    def failed(self, peer: Peer[C], connection: C, error: Status) -> CallError:
        """What a call met that ended with a status."""
        metadata = {key: value for key, value in (error.initial_metadata() or ())}
        metadata.update((key, value) for key, value in (error.trailing_metadata() or ()))
        failure = of_status(error.code(), error.details(), metadata, peer.address.text, tls=peer.address.tls)
        if failure.kind in UNANSWERED:
            # The next attempt is one of its own, not a look at how the last one ended.
            self.retire(peer, connection)
        return failure

    def retire(self, peer: Peer[C], connection: C) -> None:
        """Uses a connection no more; calls that are on it still end on it."""
        if peer.connection is connection:
            peer.connection = None

    def is_stale(self, peer: Peer[C], files: tuple[int, ...]) -> bool:
        """Whether a file that a connection was made with has changed since. One that is not there for the moment has
        not."""
        if not peer.address.tls:
            return False
        now = self.transport.state_of_files(peer.address)
        return now != files and len(now) >= len(files)

    def understood(self, peer: Peer[C], body: bytes | None) -> Outcome:
        """The answer in these bytes."""
        if body is None:
            return not_an_answer(peer, "it is empty")
        try:
            return v1.TriggerResponse.FromString(body)
        except DecodeError as error:
            return not_an_answer(peer, str(error))

    def gate(self, request: v1.TriggerRequest, outcome: Outcome) -> Gate:
        """What to do now."""
        if not isinstance(outcome, CallError):
            return gate_of_answer(request.event, outcome)
        tool = request.tool_call.tool if request.HasField("tool_call") else None
        return self.gate_of_error(request.event, tool, outcome)

    def gate_of_error(self, event: str, tool: str | None, error: CallError) -> Gate:
        """What to do now that there is no answer."""
        return of_error(event, tool, error, self.on_unavailable)


def always() -> bool:
    """One more attempt does no harm."""
    return True


def not_an_answer(peer: Peer[C], why: str) -> CallError:
    """Bytes that are not the message that they should be."""
    message = f"the answer of hookd at {peer.address.text} is not understood: {why}"
    return CallError(CallErrorKind.NOT_UNDERSTOOD, message)


def _back_off(round_: int) -> float:
    """The wait before a round (from 1): between half of its back-off and all of it."""
    longest = min(_FIRST_BACK_OFF * 2.0 ** min(round_ - 1, 20), _LONGEST_BACK_OFF)
    return longest * random.uniform(0.5, 1.0)
