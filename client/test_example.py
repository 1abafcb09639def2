"""What an example agent has to do, with the real server and with one that says what it should not.

Run by `test-example`. The agent gets an address, `block` or `allow` for when hookd cannot be asked, and milliseconds.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import grpc

RULES = [
    {
        "event": "PreToolUse",
        "when": "params.command.startsWith('rm ')",
        "handler": {"type": "decide", "verdict": "block", "reason": "nothing is removed here"},
    },
    {
        "event": "PreToolUse",
        "when": "params.command == 'echo old'",
        "handler": {"type": "decide", "modifiedParams": {"command": "echo new"}},
    },
    {
        "event": "PreToolUse",
        "when": "params.command == 'reboot'",
        "handler": {"type": "decide", "verdict": "ask", "reason": "a person has to agree"},
    },
    {
        "event": "PreToolUse",
        "when": "params.command == 'leave'",
        "handler": {"type": "decide", "halt": True, "haltReason": "enough"},
    },
    {"event": "Stop", "handler": {"type": "decide", "verdict": "block", "reason": "write the tests"}},
]
DECISION_ID = (("hookd-decision-id", "019385a0-0000-7000-8000-000000000000"),)
# google.rpc.Status { code: 8, details: [Any of a RetryInfo, empty] }
RETRY_INFO = b"type.googleapis.com/google.rpc.RetryInfo"
SHED = b"\x08\x08\x1a" + bytes([len(RETRY_INFO) + 2]) + b"\x0a" + bytes([len(RETRY_INFO)]) + RETRY_INFO

Answer = Callable[[grpc.ServicerContext], bytes]


def main() -> None:
    """Everything, and a line that says so."""
    with real_server() as address:
        calls = ["echo hello", "rm -rf /nowhere", "echo old", "reboot"]
        said = agent(address, "block", 30_000, calls)
        expect(
            "the real server",
            (said.returncode, said.stdout.splitlines()[:3], said.stdout.splitlines()[4:]),
            (0, ["hello", "not run: nothing is removed here", "new"], ["goes on: write the tests"]),
        )
        expect("an ask that nobody can be asked", said.stdout.splitlines()[3].startswith("not run: "), True)
        said = agent(address, "allow", 30_000, ["leave", "echo never"])
        expect("a halt", (said.returncode, said.stdout, said.stderr.strip()), (1, "", "enough"))

    status = grpc.StatusCode
    # What a server says; whether the call runs with `block`, and with `allow`.
    table: list[tuple[str, Answer, bool, bool]] = [
        ("no opinion", says(b"\x08\x01"), True, True),
        ("an empty answer", says(b""), False, False),
        ("an unknown verdict", says(b"\x08\x09"), False, False),
        ("a deferral that it did not offer", says(b"\x08\x04"), False, False),
        ("parameters that are no JSON", says(b"\x08\x01\x1a\x01{"), False, False),
        ("parameters that are no object", says(b"\x08\x01\x1a\x04null"), False, False),
        ("garbage", says(b"\xff\xff\xff"), False, False),
        ("invalid", fails(status.INVALID_ARGUMENT), False, False),
        ("too large", fails(status.RESOURCE_EXHAUSTED), False, False),
        ("denied", fails(status.PERMISSION_DENIED), False, False),
        ("not authenticated", fails(status.UNAUTHENTICATED), False, False),
        ("not implemented", fails(status.UNIMPLEMENTED), False, False),
        ("unknown, by hookd", fails(status.UNKNOWN), False, False),
        ("unknown, by the transport", fails(status.UNKNOWN, ()), False, True),
        ("cancelled, by the transport", fails(status.CANCELLED, ()), False, True),
        ("leaving", fails(status.UNAVAILABLE), False, True),
        ("a fault of hookd's", fails(status.INTERNAL), False, True),
        ("shed", fails(status.RESOURCE_EXHAUSTED, (*DECISION_ID, ("grpc-status-details-bin", SHED))), False, True),
        ("no answer in time", never, False, True),
    ]
    for name, answer, *runs in table:
        for policy, expected in zip(("block", "allow"), runs, strict=True):
            with fake_server(answer) as (address, asked):
                said = agent(address, policy, 300 if answer is never else 30_000, ["echo ran"])
            # Whatever is said, and be it nonsense, the agent may stop.
            expect(f"{name}, {policy}", said.returncode, 0)
            expect(
                f"{name}, {policy}",
                (said.stdout == "ran\n", said.stdout.startswith("not run: ")),
                (expected, not expected),
            )
            # (In a short time the question may not even arrive.)
            if answer is not never:
                expect(f"{name}, {policy}: asked once for each event", len(asked), 2)
    with fake_server(says(b"")) as (address, _):
        pass
    for policy, expected in (("block", False), ("allow", True)):
        said = agent(address, policy, 30_000, ["echo ran"])
        expect(f"nobody there, {policy}", (said.returncode, said.stdout == "ran\n"), (0, expected))
    print(f"{Path(sys.argv[1]).name}: the example agent keeps the contract")


def says(message: bytes) -> Answer:
    """These bytes, as the message of an answer."""
    return lambda _: message


def fails(code: grpc.StatusCode, metadata: tuple[tuple[str, str | bytes], ...] = DECISION_ID) -> Answer:
    """A status; by hookd itself unless the metadata says otherwise."""

    def answer(context: grpc.ServicerContext) -> bytes:
        context.set_trailing_metadata(metadata)
        context.abort(code, "as the test wants it")
        return b""

    return answer


def never(context: grpc.ServicerContext) -> bytes:
    """Waits until the caller has gone."""
    from threading import Event

    gone = Event()
    if context.add_callback(gone.set):
        gone.wait(60)
    return b""


@contextmanager
def fake_server(answer: Answer) -> Iterator[tuple[str, list[bytes]]]:
    """A server that says this to everything, and what it was asked."""
    asked: list[bytes] = []

    def trigger(request: bytes, context: grpc.ServicerContext) -> bytes:
        asked.append(request)
        return answer(context)

    server = grpc.server(ThreadPoolExecutor(4))
    method = grpc.unary_unary_rpc_method_handler(trigger)
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("hookd.v1.HookService", {"Trigger": method}),)
    )
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    try:
        yield f"127.0.0.1:{port}", asked
    finally:
        server.stop(None).wait()


@contextmanager
def real_server() -> Iterator[str]:
    """hookd with the rules above."""
    with tempfile.TemporaryDirectory() as folder:
        rules = Path(folder, "managed.json")
        rules.write_text(json.dumps({"hooks": RULES}))
        settings = Path(folder, "hookd.json")
        tiers = {"managed": {"sources": [{"path": str(rules)}]}}
        settings.write_text(json.dumps({"listen": "127.0.0.1:0", "admin_listen": "127.0.0.1:0", "tiers": tiers}))
        server = subprocess.Popen(
            [os.environ["HOOKD_BINARY"], "--config", settings],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
        )
        try:
            assert server.stdout is not None
            line = server.stdout.readline()
            assert line.startswith("hookd is ready: grpc="), line
            yield line.split("grpc=")[1].split()[0]
        finally:
            server.kill()
            server.communicate()


def agent(address: str, policy: str, deadline: int, commands: list[str]) -> subprocess.CompletedProcess[str]:
    """Runs it on these commands."""
    calls = "".join(json.dumps({"command": command}) + "\n" for command in commands)
    return subprocess.run(
        [*sys.argv[1:], address, policy, str(deadline)], input=calls, capture_output=True, text=True, timeout=120
    )


def expect(what: str, seen: object, wanted: object) -> None:
    """Ends the test where they differ."""
    if seen != wanted:
        sys.exit(f"{what}: {seen!r}, expected {wanted!r}")


if __name__ == "__main__":
    main()
