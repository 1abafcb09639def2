"""Calls in which the client runs commands."""

from __future__ import annotations

import asyncio
import json
import os
import queue
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import grpc
import pytest
from hookd import Ask, AsyncClient, CallErrorKind, Refuse, Run, v1
from hookd.commands import AgentProgram, AgentSide, Detached, NotPermitted, OfferedCommand, OfferedRules, OfferTier
from hookd.v1 import hook_service_pb2 as pb
from support import ALLOW, LIMIT, Asker, Hookd, Scripted, end_with, pre_tool_use, response
from test_server import decide

Sent = v1.TriggerStreamRequest
Came = v1.TriggerStreamResponse
FILE = OfferedRules(OfferTier.SHARED, "/repo/hooks.json", b"cat\nsleep 1000\nexit 7\necho $0 >&2; kill -9 $$", "hookd")


def lines(command: OfferedCommand) -> AgentProgram:
    """Runs every command of the file as `sh -c INDEX-TH LINE OF IT`."""
    texts = command.file.content.decode().splitlines()
    if command.index >= len(texts):
        raise NotPermitted("there is no such line")
    return AgentProgram(("/bin/sh", "-c", texts[command.index]), {"PATH": os.environ["PATH"]})


def side(**options: Any) -> AgentSide:
    return AgentSide(lines, offers=[FILE], **options)


def command(command_id: int, sha256: str, index: int, *, timeout: float = 20, limit: int = 8, **more: Any) -> Came:
    run = v1.RunCommand(
        command_id=command_id,
        tier=pb.TIER_SHARED,
        offered_rule=pb.OfferedRule(sha256=sha256, index=index),
        stdin=f"input of {command_id}".encode(),
        output_limit_bytes=limit,
        **more,
    )
    run.timeout.FromNanoseconds(int(timeout * 1e9))
    return Came(run_command=run)


def cancel(command_id: int) -> Came:
    return Came(cancel_command=pb.CancelCommand(command_id=command_id))


ANSWER = Came(response=response(3))


def gate(ask: Asker, server: Scripted, commands: AgentSide, **options: Any) -> Any:
    options = {"rounds": 2, "on_unavailable": ALLOW, **options}
    return ask(server.address, lambda client: client.trigger(pre_tool_use(), commands=commands), **options)


def saying(*replies: Came | Callable[[grpc.ServicerContext], None]) -> Scripted:
    """A server that says this, whatever the client does."""

    def stream(requests: Iterator[Sent], context: grpc.ServicerContext) -> Iterator[Came]:
        next(requests)
        for reply in replies:
            if isinstance(reply, Came):
                yield reply
            else:
                reply(context)

    return Scripted(stream=stream)


def fails(code: grpc.StatusCode, *, of_hookd: bool = True) -> Callable[[grpc.ServicerContext], None]:
    def fail(context: grpc.ServicerContext) -> None:
        end_with(context, of_hookd=of_hookd)
        context.abort(code, "why")

    return fail


def test_files_are_sent_on_demand_and_results_carry_ids_and_are_cut(ask: Asker) -> None:
    seen: list[Sent] = []

    def stream(requests: Iterator[Sent], _: grpc.ServicerContext) -> Iterator[Came]:
        seen.append(next(requests))
        yield Came(need_files=pb.NeedFiles(sha256=[FILE.sha256, "never offered"]))
        seen.append(next(requests))
        # One that is cancelled gives no result.
        yield command(1, FILE.sha256, 1)
        yield cancel(1)
        yield cancel(9)
        for reply in (
            command(2, FILE.sha256, 0),
            command(3, FILE.sha256, 2),
            command(4, FILE.sha256, 5),
            command(5, "other", 0),
            command(6, FILE.sha256, 3, limit=100),
            command(7, FILE.sha256, 1, timeout=0.1),
            Came(run_command=v1.RunCommand(command_id=8)),
            Came(run_command=v1.RunCommand(command_id=9, server_program=pb.ServerProgram(argv=["true"]))),
        ):
            yield reply
            seen.append(next(requests))
        yield ANSWER

    with Scripted(stream=stream) as server:
        asked = gate(ask, server, side())
        assert (asked, server.asked) == (Ask("because", decision=asked.decision), 1)
    start, files, *results = seen
    offered = pb.OfferedFile(sha256=FILE.sha256, tier=pb.TIER_SHARED, path="/repo/hooks.json", format="hookd")
    assert start == Sent(start=v1.StreamStart(trigger=pre_tool_use(), offered=[offered]))
    assert files == Sent(files=pb.RuleFiles(files=[pb.RuleFile(sha256=FILE.sha256, content=FILE.content)]))
    for result in results:
        result.command_result.ClearField("elapsed")
    refused = pb.FAILURE_NOT_PERMITTED
    assert [result.command_result for result in results] == [
        v1.CommandResult(command_id=2, exit_code=0, stdout=b"input of", truncated=True),
        v1.CommandResult(command_id=3, exit_code=7),
        v1.CommandResult(command_id=4, failure=refused, stderr=b"there is no such line"),
        v1.CommandResult(command_id=5, failure=refused, stderr=b"the rule stands in no file that was offered"),
        v1.CommandResult(command_id=6, signal=9, stderr=b"/bin/sh\n"),
        v1.CommandResult(command_id=7, failure=pb.FAILURE_TIMED_OUT),
        v1.CommandResult(
            command_id=8, failure=pb.FAILURE_UNSUPPORTED, stderr=b"this caller does not know what is to be run"
        ),
        v1.CommandResult(command_id=9, failure=refused, stderr=b"this caller runs no programs of the server's"),
    ]


def test_programs_of_the_server_run_where_that_is_allowed(ask: Asker, tmp_path: Path) -> None:
    seen: list[v1.CommandResult] = []

    def stream(requests: Iterator[Sent], _: grpc.ServicerContext) -> Iterator[Came]:
        next(requests)
        program = pb.ServerProgram(argv=["sh", "-c", "echo $A $(pwd) $SECRET"], env={"A": "b"})
        run = v1.RunCommand(command_id=1, server_program=program, cwd=str(tmp_path), output_limit_bytes=1000)
        run.timeout.FromSeconds(20)
        yield Came(run_command=run)
        seen.append(next(requests).command_result)
        yield ANSWER

    os.environ["SECRET"] = "secret"
    with Scripted(stream=stream) as server:
        gate(ask, server, AgentSide(server_programs=True))
    assert (seen[0].exit_code, seen[0].stdout.decode()) == (0, f"b {tmp_path}\n")


@pytest.mark.parametrize(
    ("replies", "message"),
    [
        ((), "the stream ended without one"),
        ((Came(),), "a message that this client does not know"),
        ((ANSWER, ANSWER), "the stream goes on after it"),
        ((ANSWER, Came()), "the stream goes on after it"),
    ],
)
def test_what_is_not_understood_is_no_answer_and_blocks(ask: Asker, replies: tuple[Came, ...], message: str) -> None:
    with saying(*replies) as server:
        refused = gate(ask, server, side())
        assert isinstance(refused, Refuse) and refused.decision.error is not None
        assert refused.decision.error.kind is CallErrorKind.NOT_UNDERSTOOD
        assert refused.reason == f"the answer of hookd cannot be carried out: {message}"
        assert server.asked == 1


def test_it_is_tried_again_only_where_nothing_was_run(ask: Asker) -> None:
    unavailable = fails(grpc.StatusCode.UNAVAILABLE)
    for replies, asked in (
        ((unavailable,), 2),
        ((command(1, FILE.sha256, 2), unavailable), 1),
        # The answer counts only with the status that follows it.
        ((ANSWER, fails(grpc.StatusCode.INTERNAL, of_hookd=False)), 2),
    ):
        with saying(*replies) as server:
            run = gate(ask, server, side())
            assert run == Run(decision=run.decision)
            assert run.decision.error is not None and run.decision.error.kind is CallErrorKind.UNAVAILABLE
            assert server.asked == asked


@pytest.mark.parametrize(
    ("code", "of_hookd", "kind"),
    [
        (grpc.StatusCode.INVALID_ARGUMENT, True, CallErrorKind.REFUSED),
        (grpc.StatusCode.UNIMPLEMENTED, False, CallErrorKind.REFUSED),
        (grpc.StatusCode.INTERNAL, True, CallErrorKind.INTERNAL),
        (grpc.StatusCode.DEADLINE_EXCEEDED, True, CallErrorKind.DEADLINE_EXCEEDED),
    ],
)
def test_statuses_mean_what_they_mean_on_plain_calls(
    ask: Asker, code: grpc.StatusCode, of_hookd: bool, kind: CallErrorKind
) -> None:
    with saying(fails(code, of_hookd=of_hookd)) as server:
        error = gate(ask, server, side()).decision.error
        assert (error.kind, error.code, error.decision_id) == (kind, code, "d9" if of_hookd else None)
        assert server.asked == 1


def test_a_server_that_says_nothing_costs_the_deadline_and_no_more(ask: Asker) -> None:
    def stream(requests: Iterator[Sent], _: grpc.ServicerContext) -> Iterator[Came]:
        for _request in requests:
            pass
        yield ANSWER

    with Scripted(stream=stream) as server:
        error = gate(ask, server, side(), deadline=0.4).decision.error
        assert (error.kind, server.asked) == (CallErrorKind.DEADLINE_EXCEEDED, 1)


def test_a_start_over_the_limit_is_not_even_sent(ask: Asker) -> None:
    with saying(ANSWER) as server:
        refused = gate(ask, server, side(), message_bytes=64)
        assert isinstance(refused, Refuse) and server.asked == 0


def test_the_answer_ends_what_still_runs(ask: Asker, tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    pids: queue.SimpleQueue[str] = queue.SimpleQueue()

    def stream(requests: Iterator[Sent], _: grpc.ServicerContext) -> Iterator[Came]:
        next(requests)
        yield command(1, file.sha256, 0)
        pids.put(pid.read_text())
        yield ANSWER

    file = OfferedRules(OfferTier.SHARED, "/x", f"echo $$ > {pid}; exec sleep 1000".encode())
    commands = AgentSide(lines, offers=[file])
    with Scripted(stream=stream) as server:
        asked = gate(ask, server, commands)
        assert isinstance(asked, Ask), asked
    assert commands.shutdown() == 0
    with pytest.raises(ProcessLookupError):
        os.kill(int(pids.get()), 0)


def test_a_call_that_is_cancelled_ends_what_runs(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    file = OfferedRules(OfferTier.SHARED, "/x", f"echo $$ > {pid}; exec sleep 1000".encode())
    commands = AgentSide(lines, offers=[file])

    def stream(requests: Iterator[Sent], _: grpc.ServicerContext) -> Iterator[Came]:
        next(requests)
        yield command(1, file.sha256, 0)
        for _request in requests:
            pass

    async def cancelled(address: str) -> int:
        async with AsyncClient(address, on_unavailable=ALLOW) as client:
            call = asyncio.create_task(client.trigger(pre_tool_use(), commands=commands))
            started = int(await asyncio.to_thread(pid.read_text))
            call.cancel()
            with pytest.raises(asyncio.CancelledError):
                await call
            return started

    with Scripted(stream=stream) as server:
        started = asyncio.run(cancelled(server.address))
    assert commands._places.wait_until_empty(time.monotonic() + LIMIT) == 0  # pyright: ignore[reportPrivateUsage]
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)


def test_what_nobody_waits_for_runs_on_or_is_handed_over(ask: Asker, tmp_path: Path) -> None:
    marker = tmp_path / "marker"
    os.mkfifo(marker)
    file = OfferedRules(OfferTier.SHARED, "/x", f"cat > {marker}".encode())
    taken: list[Detached] = []

    given = threading.Event()

    def take(detached: Detached) -> bool:
        taken.append(detached)
        given.set()
        return True

    with saying(command(1, file.sha256, 0, detached=True), ANSWER) as server:
        assert isinstance(gate(ask, server, AgentSide(lines, offers=[file])), Ask)
        assert marker.read_text() == "input of 1"
        handing = AgentSide(lines, offers=[file], detach=take)
        assert isinstance(gate(ask, server, handing), Ask)
        assert given.wait(LIMIT)
    assert [(one.program.argv[2], one.stdin, one.timeout) for one in taken] == [(f"cat > {marker}", b"input of 1", 20)]


def test_no_more_run_at_a_time_than_may() -> None:
    done: queue.SimpleQueue[v1.CommandResult] = queue.SimpleQueue()
    commands = side(children=1, queue=1)
    from hookd._process import Cancel

    cancels = [Cancel() for _ in range(3)]
    over = time.monotonic() + 30
    for number, one in enumerate(cancels):
        message = command(number, FILE.sha256, 1).run_command
        commands.start(message, pre_tool_use(), over, one, done.put)
        if number == 1:
            # The third one finds the place taken and the queue full.
            while commands._places._waiting == 0 or not commands._places._live:  # pyright: ignore[reportPrivateUsage]
                time.sleep(0.001)
        elif number == 0:
            while not commands._places._live:  # pyright: ignore[reportPrivateUsage]
                time.sleep(0.001)
    result = done.get(timeout=LIMIT)
    assert (result.command_id, result.failure) == (2, pb.FAILURE_OVERLOADED)
    assert result.stderr == b"too many commands at once: 1 children are alive and the queue of 1 is full"
    cancels[1].set()
    assert done.get(timeout=LIMIT).failure == pb.FAILURE_CANCELLED
    assert commands.shutdown() == 0
    last = done.get(timeout=LIMIT)
    assert (last.command_id, last.failure) == (0, pb.FAILURE_CANCELLED)


def test_a_file_is_hashed_and_its_content_kept_out_of_sight(tmp_path: Path) -> None:
    path = tmp_path / "hooks.json"
    path.write_bytes(b"secret")
    rules = OfferedRules.read(OfferTier.LOCAL, str(path))
    assert rules.sha256 == "2bb80d537b1da3e38bd30361aa855686bde0eacd7162fef6a25fe97bf527a25b"
    assert "secret" not in repr(rules)
    assert AgentSide().is_empty and not AgentSide(offers=[rules]).is_empty


def hooks(tmp_path: Path, *rules: dict[str, Any]) -> AgentSide:
    path = tmp_path / "hooks.json"
    path.write_text(json.dumps({"hooks": rules}))
    return AgentSide(offers=[OfferedRules.read(OfferTier.SHARED, str(path))])


def test_the_real_server_asks_for_commands_of_offered_files(
    ask: Asker, start: Callable[..., Hookd], tmp_path: Path
) -> None:
    server = start(decide("PreToolUse", "^central$", verdict="block", reason="central"))
    (tmp_path / "sub").mkdir()
    blocked = r'echo "{\"blocked\":true,\"blockReason\":\"$HOOKD_TOOL in $(pwd)\"}"'
    guard = f"read line; case $line in *rm*) {blocked};; esac"
    words = ["sh", "-c", r'echo "{\"modifiedParams\":{\"a\":\"$X\"}}"']
    commands = hooks(
        tmp_path,
        {"event": "PreToolUse", "matcher": "^never$", "handler": {"type": "decide", "verdict": "block"}},
        {"event": "PreToolUse", "disabled": True, "handler": {"type": "command", "command": "exit 1"}},
        {"event": "PreToolUse", "handler": {"type": "command", "command": guard, "cwd": "sub"}, "onError": "block"},
        {
            "event": "PreToolUse",
            "matcher": "^words$",
            "handler": {"type": "command", "argv": words, "env": {"X": "1.10"}},
        },
    )
    for tool, params, expected in (
        ("bash", {"command": "ls"}, (Run, None)),
        ("bash", {"command": "rm x"}, (Refuse, f"bash in {tmp_path / 'sub'}")),
        ("words", {}, (Run, None)),
        ("central", {}, (Refuse, "central")),
    ):

        def do(client: Any, tool: str = tool, params: dict[str, str] = params) -> Any:
            return client.session("s", cwd=str(tmp_path), commands=commands).pre_tool_use(tool, params)

        answered = ask(server.address, do)
        assert (type(answered), getattr(answered, "reason", None)) == expected, answered
        assert answered.decision.error is None and answered.decision.answer.offered_revision
        if tool == "words":
            assert answered.params.value == {"a": "1.10"}
    assert commands.shutdown() == 0


def test_nothing_outlives_this_process(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    os.mkfifo(pid)
    program = Path(__file__).parent / "programs" / "exits.py"
    child = subprocess.Popen([sys.executable, program, str(pid)], stdin=subprocess.PIPE)
    started = int(pid.read_text())
    child.communicate(timeout=LIMIT)
    assert child.returncode == 0
    with pytest.raises(ProcessLookupError):
        os.kill(started, 0)
