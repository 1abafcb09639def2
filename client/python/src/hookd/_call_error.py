"""Why hookd gave no answer that can be carried out."""

from __future__ import annotations

import enum
import re
from datetime import timedelta

import grpc
from google.protobuf.message import DecodeError

from hookd._details_pb2 import RetryInfo, StatusDetails

# Metadata that every status of hookd itself carries; a status without it comes from the transport.
_DECISION_ID = "hookd-decision-id"
_DETAILS = "grpc-status-details-bin"
# What gRPC puts before the words of the system: where it tried, and under which code it files the failure.
_BEFORE_CAUSE = re.compile(r"(?s:.*last error: )?(?:[A-Z_]+: ?)?(?:(?:ipv4|ipv6|unix|dns):\S+: )?")
# How gRPC says that the two ends did not trust each other, in the words of its versions up to 1.85.
_UNTRUSTED = re.compile(
    r"(ssl|tls) handshake failed|verification check failed|not in peer certificate|empty address list|security handshaker",
    re.IGNORECASE,
)
# What it says where the files cannot be used.
_UNUSABLE = re.compile(r"empty address list|security handshaker", re.IGNORECASE)
# What it says where what answers is no TLS.
_NO_TLS = re.compile(r"WRONG_VERSION_NUMBER|PACKET_LENGTH_TOO_LONG")
_CONTROL = re.compile(r"[\x00-\x1f\x7f-\x9f]+")


class CallErrorKind(enum.Enum):
    """What went wrong with a call."""

    UNAVAILABLE = "unavailable"
    """Nobody answered: no connection, a connection that broke, or a hookd that shuts down (`UNAVAILABLE`)."""
    DEADLINE_EXCEEDED = "deadline_exceeded"
    """No answer came in time."""
    INTERNAL = "internal"
    """hookd had a fault of its own (`INTERNAL`)."""
    SHED = "shed"
    """hookd has too many calls in flight and did not take this one; `CallError.retry_after` says when to try again."""
    REFUSED = "refused"
    """The call itself is at fault: too large, invalid, unauthenticated, denied, not implemented, another revision."""
    NOT_TRUSTED = "not_trusted"
    """The two ends do not trust each other, so hookd was not asked: its certificate has expired, is by an unknown CA, or is
    for another name; or a file with the token, the CAs, the certificate or the key cannot be used."""
    NOT_UNDERSTOOD = "not_understood"
    """There is an answer, but it is not understood or cannot be carried out."""

    @property
    def is_unavailable(self) -> bool:
        """Whether `OnUnavailable` says what happens. Otherwise it is a block where the event can block, so that a
        padded or broken call, or broken trust, does not buy an allow."""
        return self not in (CallErrorKind.REFUSED, CallErrorKind.NOT_TRUSTED, CallErrorKind.NOT_UNDERSTOOD)


class CallError(Exception):
    """Why a call gave no usable answer. Its text is one line for a person: lowercase, no full stop, with the
    address."""

    def __init__(
        self,
        kind: CallErrorKind,
        message: str,
        code: grpc.StatusCode | None = None,
        decision_id: str | None = None,
        retry_after: timedelta | None = None,
    ) -> None:
        """An error of these parts."""
        super().__init__(message)
        self.kind = kind
        """What went wrong."""
        self.message = message
        """What happened, in one line."""
        self.code = code
        """The gRPC status code. `None`: the call ended before there was one."""
        self.decision_id = decision_id
        """hookd's id of this decision, to be found in its logs. `None`: hookd itself did not answer."""
        self.retry_after = retry_after
        """When a call that was shed may be worth another try. `None`: it was not shed."""

    def _parts(self) -> tuple[object, ...]:
        return (self.kind, self.message, self.code, self.decision_id, self.retry_after)

    def __eq__(self, other: object) -> bool:
        return self._parts() == other._parts() if isinstance(other, CallError) else NotImplemented

    def __hash__(self) -> int:
        return hash(self._parts())

    def __reduce__(self) -> tuple[object, ...]:
        return (CallError, self._parts())


def not_understood(message: str) -> CallError:
    """An answer that cannot be carried out."""
    return CallError(CallErrorKind.NOT_UNDERSTOOD, f"the answer of hookd cannot be carried out: {message}")


def refused_here(message: str, code: grpc.StatusCode | None = None) -> CallError:
    """A request that is not even sent, through its own fault."""
    return CallError(CallErrorKind.REFUSED, message, code)


def unreachable(message: str) -> CallError:
    """A request that cannot be sent, through nobody's fault."""
    return CallError(CallErrorKind.UNAVAILABLE, message)


def not_trusted(why: str, at: str) -> CallError:
    """Nothing is said to `at`."""
    return CallError(CallErrorKind.NOT_TRUSTED, f"hookd at {at} is not asked: {one_line(why)}")


class Failures:
    """What the attempts of one call met, for the error where none of them was answered."""

    def __init__(self) -> None:
        self._last: CallError | None = None
        # It counts more: what blocks must not turn into what `OnUnavailable` lets go by another replica being away.
        self._untrusted: CallError | None = None

    def add(self, error: CallError) -> None:
        """One attempt met this."""
        if error.kind is CallErrorKind.NOT_TRUSTED:
            self._untrusted = error
        else:
            self._last = error

    @property
    def may_pass(self) -> bool:
        """One more round can have another end: somebody was away, who may be back."""
        return self._last is not None

    def late(self, at: str, granted: float) -> CallError:
        """There is no time left."""
        return deadline_over(at, granted, self._untrusted or self._last)

    def unanswered(self, granted: float, tried: list[str]) -> CallError:
        """All attempts are made, at all of `tried`."""
        error = self._untrusted or self._last or deadline_over("any address", granted, None)
        if len(tried) < 2:
            return error
        message = f"{error.message}; tried {', '.join(tried)}"
        return CallError(error.kind, message, error.code, error.decision_id, error.retry_after)


def deadline_over(at: str, granted: float, last: CallError | None) -> CallError:
    """No answer in time; `last` is what the last finished attempt met. Want of trust stays what it is."""
    message = f"hookd at {at} gave no answer within {_span(granted)}"
    if last is not None:
        message += f": {last.message}"
        if last.kind is CallErrorKind.NOT_TRUSTED:
            return CallError(last.kind, message)
    return CallError(CallErrorKind.DEADLINE_EXCEEDED, message, grpc.StatusCode.DEADLINE_EXCEEDED)


def of_status(
    code: grpc.StatusCode, details: str | None, metadata: dict[str, str | bytes], at: str, *, tls: bool = False
) -> CallError:
    """What a status means; `metadata` is what came with it and before it, and `at` is the address."""
    decision_id = _text(metadata.get(_DECISION_ID))
    of_hookd = decision_id is not None
    if tls and not of_hookd and code is grpc.StatusCode.UNAVAILABLE and _UNTRUSTED.search(details or ""):
        return not_trusted(_mistrust(details or ""), at)
    retry_after = None
    match code:
        case grpc.StatusCode.DEADLINE_EXCEEDED:
            kind = CallErrorKind.DEADLINE_EXCEEDED
        case grpc.StatusCode.UNAVAILABLE:
            kind = CallErrorKind.UNAVAILABLE
        # What the transport makes of a connection that closes under a call.
        case grpc.StatusCode.INTERNAL | grpc.StatusCode.CANCELLED | grpc.StatusCode.UNKNOWN if not of_hookd:
            kind = CallErrorKind.UNAVAILABLE
        case grpc.StatusCode.INTERNAL:
            kind = CallErrorKind.INTERNAL
        case grpc.StatusCode.RESOURCE_EXHAUSTED:
            retry_after = _retry_delay(metadata.get(_DETAILS))
            kind = CallErrorKind.REFUSED if retry_after is None else CallErrorKind.SHED
        case _:
            kind = CallErrorKind.REFUSED
    said = one_line(details or "")
    match kind:
        case CallErrorKind.UNAVAILABLE if of_hookd:
            message = f"hookd at {at} is not available: {said}"
        case CallErrorKind.UNAVAILABLE:
            message = f"hookd cannot be reached at {at}: {_root_cause(details or '')}"
        case CallErrorKind.DEADLINE_EXCEEDED:
            message = f"hookd at {at} gave no answer in time: {said}"
        case CallErrorKind.INTERNAL:
            message = f"hookd at {at} failed: {said}"
        case CallErrorKind.SHED:
            message = f"hookd at {at} has too many calls: {said}"
        case _:
            message = f"hookd at {at} refused the call: {said} ({code.name})"
    return CallError(kind, message, code, decision_id, retry_after)


def _mistrust(details: str) -> str:
    if _UNUSABLE.search(details):
        return "the CA file, or the certificate and its key, cannot be used"
    return "it does not speak TLS" if _NO_TLS.search(details) else _root_cause(details)


def one_line(text: str) -> str:
    """`text` without control characters, starting in lowercase: it ends up on terminals and in front of models."""
    line = " ".join(part.strip() for part in _CONTROL.split(text) if part.strip())
    if not line:
        return "no reason was given"
    # Not where the first word is a name in capitals.
    return line if line[1:2].isupper() else line[0].lower() + line[1:]


def _root_cause(details: str) -> str:
    """The innermost error, which says the most (`connection refused` rather than `all addresses failed`)."""
    match = _BEFORE_CAUSE.match(details)
    return one_line(details[match.end() :] if match else details)


def _retry_delay(details: str | bytes | None) -> timedelta | None:
    if not isinstance(details, bytes):
        return None
    try:
        for detail in StatusDetails.FromString(details).details:
            if detail.type_url.endswith("/google.rpc.RetryInfo"):
                return RetryInfo.FromString(detail.value).retry_delay.ToTimedelta()
    except (DecodeError, ValueError, OverflowError):
        # Details that cannot be read are none.
        return None
    return None


def _text(value: str | bytes | None) -> str | None:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else value


def _span(seconds: float) -> str:
    return f"{seconds:g}s" if seconds >= 1 else f"{seconds * 1000:g}ms"
