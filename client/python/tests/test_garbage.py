"""Peers that are not hookd, or send what nobody should."""

from __future__ import annotations

import socket
import threading

import pytest
from hookd import CallErrorKind, Refuse, Run
from raw import Raw, RawServer, frame
from support import ALLOW, Asker, pre_tool_use, response

ANSWER = response(2).SerializeToString()


def asked(ask: Asker, raw: Raw, deadline: float = 10) -> tuple[type, CallErrorKind | None]:
    """The gate on a tool call under the most lenient setting, and what the call met."""
    with RawServer(raw) as server:
        gate = ask.gate(server.address, pre_tool_use(), on_unavailable=ALLOW, rounds=1, deadline=deadline)
        return type(gate), gate.decision.error and gate.decision.error.kind


@pytest.mark.parametrize(
    "body",
    [frame(b"\xff" * 40), frame(ANSWER[:-1]), b"", frame(b"")],
    ids=["junk", "cut", "empty", "empty message"],
)
def test_law_11_an_answer_that_is_no_answer_blocks(ask: Asker, body: bytes) -> None:
    assert asked(ask, Raw(body)) == (Refuse, CallErrorKind.NOT_UNDERSTOOD)


def test_the_same_server_can_allow(ask: Asker) -> None:
    with RawServer(Raw(frame(ANSWER))) as server:
        gate = ask.gate(server.address, pre_tool_use(), on_unavailable=ALLOW)
        assert gate == Run(approved=True, decision=gate.decision)


def test_an_answer_counts_only_with_the_status_after_it(ask: Asker) -> None:
    denied = Raw(frame(ANSWER), trailers=(("grpc-status", "7"), ("grpc-message", "no")))
    assert asked(ask, denied) == (Refuse, CallErrorKind.REFUSED)
    # Unapproved: as `OnUnavailable` says.
    assert asked(ask, Raw(frame(ANSWER), trailers=())) == (Run, CallErrorKind.UNAVAILABLE)


def test_two_answers_are_none(ask: Asker) -> None:
    # gRPC waits for someone to read the second one, until the deadline.
    assert asked(ask, Raw(frame(ANSWER) + frame(ANSWER)), 0.3) == (Run, CallErrorKind.DEADLINE_EXCEEDED)


def test_broken_status_details_do_not_bring_the_agent_down(ask: Asker) -> None:
    # To gRPC it is a broken connection.
    broken = (("grpc-status", "8"), ("grpc-message", "full"), ("grpc-status-details-bin", "!!!not base64!!!"))
    assert asked(ask, Raw(trailers=broken)) == (Run, CallErrorKind.UNAVAILABLE)


@pytest.mark.parametrize("status", [200, 502, 503, 504])
def test_a_peer_that_is_not_hookd_cannot_be_asked(ask: Asker, status: int) -> None:
    html = Raw(b"<html>", status, (("content-type", "text/html"),), ())
    assert asked(ask, html) == (Run, CallErrorKind.UNAVAILABLE)


@pytest.mark.parametrize("status", [401, 403, 404])
def test_a_peer_that_refuses_is_no_allow(ask: Asker, status: int) -> None:
    html = Raw(b"<html>", status, (("content-type", "text/html"),), ())
    assert asked(ask, html) == (Refuse, CallErrorKind.REFUSED)


def test_a_call_that_meets_a_goaway_is_asked_again(ask: Asker) -> None:
    with RawServer(Raw(frame(ANSWER), goaway=True)) as server:
        gate = ask.gate(server.address, pre_tool_use())
        assert gate == Run(approved=True, decision=gate.decision)
        assert server.connections == 2


def test_a_peer_that_speaks_something_else_cannot_be_asked(ask: Asker) -> None:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        listener.listen()

        def junk() -> None:
            connection, _ = listener.accept()
            with connection:
                connection.sendall(b"SSH-2.0-nothing\r\n\r\n")
                while connection.recv(1024):
                    pass

        thread = threading.Thread(target=junk, daemon=True)
        thread.start()
        address = f"127.0.0.1:{listener.getsockname()[1]}"
        gate = ask.gate(address, pre_tool_use(), on_unavailable=ALLOW, rounds=1, deadline=10)
        assert gate == Run(decision=gate.decision)
        assert gate.decision.error.kind is CallErrorKind.UNAVAILABLE
        thread.join()
