"""The clients against the real server."""

from __future__ import annotations

import asyncio
import concurrent.futures
import gc
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest
from hookd import (
    Ask,
    AsyncClient,
    CallErrorKind,
    Caller,
    Capability,
    Client,
    Continue,
    Halt,
    Json,
    Refuse,
    Run,
    Suspend,
    v1,
)
from hookd.v1 import hook_service_pb2 as pb
from support import ALLOW, BLOCK, LIMIT, Asker, Hookd, Scripted, dead, pre_tool_use, response

Start = Callable[..., Hookd]


def decide(event: str, matcher: str | None = None, **handler: Any) -> dict[str, Any]:
    """A rule that decides at once."""
    rule: dict[str, Any] = {"event": event, "handler": {"type": "decide", **handler}}
    return {**rule, "matcher": matcher} if matcher is not None else rule


def slow(seconds: float, **rule: Any) -> dict[str, Any]:
    """A rule that takes its time, and blocks."""
    command = f"sleep {seconds}; echo '{{\"blocked\":true}}'"
    return {"event": "PreToolUse", "handler": {"type": "command", "command": command, "timeout": 30000}, **rule}


def test_each_verdict_reaches_the_agent(ask: Asker, start: Start) -> None:
    server = start(
        decide("PreToolUse", "^allow$", verdict="allow"),
        decide("PreToolUse", "^ask$", verdict="ask", reason="sure?"),
        decide("PreToolUse", "^defer$", verdict="defer", reason="later"),
        decide("PreToolUse", "^block$", verdict="block", reason="no"),
        decide("PreToolUse", "^halt$", halt=True, reason="enough"),
        decide("Stop", verdict="block", reason="go on"),
        decide("UserPromptSubmit", additionalContext="mind the gap", systemMessage="hello"),
    )
    for tool, kind, reason in (
        ("none", Run, None),
        ("allow", Run, None),
        ("ask", Ask, "sure?"),
        ("defer", Suspend, "later"),
        ("block", Refuse, "no"),
        ("halt", Halt, "enough"),
    ):

        def do(client: Any, tool: str = tool) -> Any:
            return client.session("s").pre_tool_use(tool, {})

        gate = ask(server.address, do)
        assert (type(gate), getattr(gate, "reason", None)) == (kind, reason)
        assert gate.decision.error is None
        if isinstance(gate, Run):
            assert gate.approved == (tool == "allow")
    gate = ask(server.address, lambda client: client.session("s").stop())
    assert gate == Continue("go on", decision=gate.decision)
    gate = ask(server.address, lambda client: client.session("s").user_prompt_submit("hi"))
    assert [note.text for note in gate.decision.additional_context] == ["mind the gap"]
    assert [note.text for note in gate.decision.system_messages] == ["hello"]
    assert len(gate.decision.id) == 36


def test_numbers_keep_their_digits_there_and_back(ask: Asker, start: Start, tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    script = f'cat > {seen}; echo \'{{"modifiedParams":{{"n":12345678901234567890.10,"m":9007199254740993,"e":1e400}}}}\''
    server = start({"event": "PreToolUse", "handler": {"type": "command", "command": script}})
    params = {"n": Decimal("98765432109876543210.50"), "m": 18446744073709551617, "x": Json("1.50e3")}
    gate = ask(server.address, lambda client: client.session("s").pre_tool_use("bash", params))
    assert isinstance(gate, Run) and gate.params is not None
    assert gate.params.text == '{"n":12345678901234567890.10,"m":9007199254740993,"e":1e400}'
    assert gate.params.value == {"n": Decimal("12345678901234567890.10"), "m": 9007199254740993, "e": Decimal("1e400")}
    sent = Json(seen.read_text().strip()).value["toolCall"]["params"]
    assert sent == {"n": Decimal("98765432109876543210.50"), "m": 18446744073709551617, "x": Decimal("1.50e3")}


def test_unicode_reaches_the_server_and_comes_back(ask: Asker, start: Start) -> None:
    text = 'say "hi"\n\t\u2028 \U0001f600 ü \x00 \x1f'
    server = start(
        {
            "event": "PreToolUse",
            "when": f"params.text == {Json.of(text).text.replace(chr(0x2028), chr(92) + 'u2028')}",
            "handler": {"type": "decide", "verdict": "block", "reason": text},
        }
    )
    gate = ask(server.address, lambda client: client.session("ü\U0001f600").pre_tool_use("bash", {"text": text}))
    assert gate == Refuse(text, decision=gate.decision)


def test_a_call_of_five_mebibytes_blocks_wherever_it_is_refused(ask: Asker, start: Start) -> None:
    server = start(decide("PreToolUse", verdict="allow"))
    params = {"text": "x" * (5 << 20)}
    for limit, reason in ((4 << 20, "bytes, the limit is 4194304"), (8 << 20, "(RESOURCE_EXHAUSTED)")):
        gate = ask(
            server.address,
            lambda client: client.session("s").pre_tool_use("bash", params),
            on_unavailable=ALLOW,
            message_bytes=limit,
        )
        assert isinstance(gate, Refuse) and gate.reason.endswith(reason)
        assert gate.decision.error is not None and gate.decision.error.kind is CallErrorKind.REFUSED


def test_an_event_that_hookd_refuses_blocks(ask: Asker, start: Start) -> None:
    server = start()
    gate = ask(server.address, lambda client: client.session("s").trigger("pretooluse"), on_unavailable=ALLOW)
    assert isinstance(gate, Refuse) and gate.reason.endswith("(INVALID_ARGUMENT)")
    assert len(gate.decision.id or "") == 36


def test_a_thousand_calls_at_a_time_over_threads(start: Start) -> None:
    server = start(decide("PreToolUse", "^bash$", verdict="block", reason="no"))
    with Client(server.address, on_unavailable=BLOCK) as client:
        session = client.session("s")
        together = threading.Barrier(1000)

        def call(number: int) -> str | None:
            together.wait(LIMIT)
            gate = session.pre_tool_use("bash", {"n": number})
            assert gate == Refuse("no", decision=gate.decision)
            return gate.decision.id

        with concurrent.futures.ThreadPoolExecutor(1000) as pool:
            assert len(set(pool.map(call, range(1000)))) == 1000


def test_a_thousand_calls_at_a_time_on_asyncio(start: Start) -> None:
    server = start(decide("PreToolUse", "^bash$", verdict="block", reason="no"))

    async def calls() -> set[str | None]:
        async with AsyncClient(server.address, on_unavailable=BLOCK) as client:
            session = client.session("s")
            gates = await asyncio.gather(*(session.pre_tool_use("bash", {"n": number}) for number in range(1000)))
            assert all(gate == Refuse("no", decision=gate.decision) for gate in gates)
            return {gate.decision.id for gate in gates}

    assert len(asyncio.run(calls())) == 1000


def test_an_async_client_can_be_used_from_one_loop_after_the_other(start: Start) -> None:
    server = start(decide("PreToolUse", "^bash$", verdict="block", reason="no"))
    client = AsyncClient(server.address, on_unavailable=ALLOW)

    async def call() -> None:
        gate = await client.session("s").pre_tool_use("bash", {})
        assert gate == Refuse("no", decision=gate.decision)

    for _ in range(3):
        asyncio.run(call())
    asyncio.run(client.close())


def test_an_async_call_that_is_cancelled_is_over(start: Start) -> None:
    server = start(slow(20))

    async def call() -> None:
        async with AsyncClient(server.address, on_unavailable=ALLOW) as client:
            begun = time.monotonic()
            with pytest.raises(asyncio.TimeoutError):
                await asyncio.wait_for(client.session("s").pre_tool_use("bash", {}), 0.2)
            assert time.monotonic() - begun < 10

    asyncio.run(call())


def test_a_server_that_is_killed_under_a_call_is_unavailable(ask: Asker, start: Start, tmp_path: Path) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    server = start({"event": "PreToolUse", "handler": {"type": "command", "command": f"echo x > {begun}; sleep 20"}})

    def kill() -> None:
        begun.read_text()
        server.kill()

    killer = threading.Thread(target=kill)
    killer.start()
    error = ask.error(server.address, pre_tool_use(), rounds=1)
    killer.join(LIMIT)
    assert error.kind is CallErrorKind.UNAVAILABLE, error
    assert error.decision_id is None


@pytest.mark.parametrize("end", ["terminate", "kill"])
def test_case_106_nothing_slips_through_while_hookd_is_restarted(ask: Asker, start: Start, end: str) -> None:
    server = start(
        decide("PreToolUse", verdict="block", reason="no"), drain={"min_delay": "10ms", "limit": "31s"}
    )
    stop = threading.Event()
    answered = [0, 0]

    def check(gate: Any) -> None:
        assert isinstance(gate, Refuse), f"let through: {gate}"
        error = gate.decision.error
        assert error is None or error.kind is CallErrorKind.UNAVAILABLE, error
        answered[error is not None] += 1

    def call_on(client: Any) -> None:
        session = client.session("s")
        while not stop.is_set():
            check(session.pre_tool_use("bash", {"command": "rm -rf /"}))

    async def await_on(client: Any) -> None:
        session = client.session("s")

        async def one() -> None:
            while not stop.is_set():
                check(await session.pre_tool_use("bash", {"command": "rm -rf /"}))

        await asyncio.gather(*(one() for _ in range(4)))

    def restart() -> None:
        try:
            for _ in range(4):
                enough = answered[0] + 20
                while answered[0] < enough and thread.is_alive():
                    time.sleep(0.002)
                getattr(server, end)()
                server.start()
            enough = answered[0] + 20
            while answered[0] < enough and thread.is_alive():
                time.sleep(0.002)
        finally:
            stop.set()

    def run() -> None:
        try:
            if ask.kind == "asyncio":
                ask(server.address, await_on)
            else:
                with Client(server.address, on_unavailable=BLOCK) as client:
                    with concurrent.futures.ThreadPoolExecutor(4) as pool:
                        for future in [pool.submit(call_on, client) for _ in range(4)]:
                            future.result()
        except BaseException as error:
            failed.append(error)

    failed: list[BaseException] = []
    thread = threading.Thread(target=run)
    thread.start()
    restart()
    thread.join(LIMIT)
    assert not failed and not thread.is_alive()
    assert answered[0] >= 100, answered


def test_a_connection_is_reused(ask: Asker) -> None:
    peers: list[str] = []

    def answer(_: v1.TriggerRequest, context: grpc.ServicerContext) -> v1.TriggerResponse:
        peers.append(context.peer())
        return response(1)

    def calls(client: Any) -> Any:
        session = client.session("s")
        if ask.kind == "threads":
            return [session.pre_tool_use("bash", {}) for _ in range(20)]
        return asyncio.gather(*(session.pre_tool_use("bash", {}) for _ in range(20)))

    with Scripted(answer) as server:
        gates = ask(server.address, calls)
    assert (len(gates), len(peers), len(set(peers))) == (20, 20, 1)


def test_a_session_sends_what_was_set_and_the_call(ask: Asker) -> None:
    seen: list[v1.TriggerRequest] = []

    def answer(request: v1.TriggerRequest, _: object) -> v1.TriggerResponse:
        seen.append(request)
        return response(1)

    def expect(tool_call: v1.ToolCall | None = None, **more: Any) -> None:
        request = seen.pop()
        assert abs(request.timestamp.ToNanoseconds() / 1e9 - time.time()) < 60
        request.ClearField("timestamp")
        capabilities = pb.Capabilities(supported=[pb.CAPABILITY_ASK, pb.CAPABILITY_BLOCK])
        template = v1.TriggerRequest(
            session_id="s1", cwd="/p", model="m1", turn_id="t1", caller=caller, capabilities=capabilities
        )
        expected = v1.TriggerRequest(tool_call=tool_call, **more)
        expected.MergeFrom(template)
        assert request == expected

    caller = Caller(agent="mine", labels={"team": "a"})

    def does(method: str, *arguments: Any, **more: Any) -> None:
        def do(client: Any) -> Any:
            session = client.session(
                "s1", cwd="/p", model="m1", caller=caller, capabilities=[Capability.ASK, Capability.BLOCK]
            )
            session.template.turn_id = "t1"
            return getattr(session, method)(*arguments, **more)

        gate = ask(server.address, do)
        assert gate == Run(decision=gate.decision)

    with Scripted(answer) as server:
        does("pre_tool_use", "bash", '{"n":1.0}', tool_use_id="u1")
        expect(v1.ToolCall(tool="bash", params_json='{"n":1.0}', tool_use_id="u1"), event="PreToolUse")
        does("post_tool_use", "bash", {"n": 1}, None)
        expect(v1.ToolCall(tool="bash", params_json='{"n":1}', result_json="null"), event="PostToolUse")
        does("post_tool_use", "bash", {}, Json("[1.50]"))
        expect(v1.ToolCall(tool="bash", params_json="{}", result_json="[1.50]"), event="PostToolUse")
        does("post_tool_use_failure", "bash", {}, "boom")
        expect(v1.ToolCall(tool="bash", params_json="{}", error="boom"), event="PostToolUseFailure")
        does("user_prompt_submit", 'say "hi"\n')
        expect(event="UserPromptSubmit", payload_json='{"prompt":"say \\"hi\\"\\n"}')
        does("session_start")
        expect(event="SessionStart", payload_json='{"source":"startup"}')
        does("session_end", "logout")
        expect(event="SessionEnd", payload_json='{"reason":"logout"}')
        does("stop", True)
        expect(event="Stop", payload_json='{"stop_hook_active":true}')
        does("trigger", "PreDeploy", {"to": "prod"}, tool="ship", params={"a": 1}, result=2)
        tool_call = v1.ToolCall(tool="ship", params_json='{"a":1}', result_json="2")
        expect(tool_call, event="PreDeploy", payload_json='{"to":"prod"}')
        does("trigger", "Notification")
        expect(event="Notification")


def test_no_capabilities_are_not_all_of_them() -> None:
    client = Client("127.0.0.1:1", on_unavailable=BLOCK)
    assert client.session("s", capabilities=()).template.HasField("capabilities")
    assert not client.session("s").template.HasField("capabilities")
    assert {one.name: one.value for one in Capability} == {
        name.removeprefix("CAPABILITY_"): number for name, number in pb.Capability.items() if number
    }


def test_a_unix_socket_is_an_address(ask: Asker, start: Start, tmp_path: Path) -> None:
    path = tmp_path / "hookd.sock"
    start(decide("PreToolUse", verdict="block", reason="no"), listen=f"unix:{path}")
    for address in (f"unix:{path}", f"unix://{path}"):
        gate = ask.gate(address, pre_tool_use(), on_unavailable=ALLOW)
        assert gate == Refuse("no", decision=gate.decision)


def test_nothing_is_left_of_connections_that_were_lost(ask: Asker, start: Start) -> None:
    server = start()

    def descriptors() -> int:
        gc.collect()
        return len(os.listdir("/proc/self/fd"))

    def sync(client: Client) -> tuple[int, int]:
        client.trigger(pre_tool_use())
        server.kill()
        client.trigger(pre_tool_use())
        before = descriptors()
        for _ in range(50):
            client.trigger(pre_tool_use())
        return before, descriptors()

    async def asynchronous(client: AsyncClient) -> tuple[int, int]:
        await client.trigger(pre_tool_use())
        server.kill()
        await client.trigger(pre_tool_use())
        before = descriptors()
        for _ in range(50):
            await client.trigger(pre_tool_use())
        return before, descriptors()

    before, after = ask(server.address, sync if ask.kind == "threads" else asynchronous, rounds=1)
    assert after <= before + 4


def test_a_proxy_that_is_meant_for_the_web_is_not_asked(
    ask: Asker, start: Start, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = start(decide("PreToolUse", verdict="block", reason="no"))
    for name in ("http_proxy", "https_proxy", "grpc_proxy"):
        monkeypatch.setenv(name, f"http://{dead()}")
    for name in ("no_proxy", "no_grpc_proxy", "NO_PROXY"):
        monkeypatch.delenv(name, raising=False)
    gate = ask.gate(server.address, pre_tool_use(), on_unavailable=ALLOW, rounds=1)
    assert gate == Refuse("no", decision=gate.decision)


def fork(address: str, kind: str, begun: Path) -> list[str]:
    """What the program of forks says."""
    program = Path(__file__).parent / "programs" / "fork.py"
    said = subprocess.run(
        [sys.executable, program, address, kind, begun], capture_output=True, text=True, timeout=LIMIT, check=False
    )
    assert said.returncode == 0, said
    return said.stdout.splitlines()


@pytest.mark.parametrize("kind", ["threads", "asyncio", "asyncio to threads", "threads to asyncio", "pool"])
def test_a_forked_child_makes_connections_of_its_own(start: Start, tmp_path: Path, kind: str) -> None:
    server = start(decide("PreToolUse", verdict="block", reason="no"))
    assert fork(server.address, kind, tmp_path / "begun") == ["Refuse None"] * 3


@pytest.mark.parametrize("kind", ["threads, in a call", "asyncio, in a call"])
def test_a_child_that_was_forked_in_a_call_fails_safe(start: Start, tmp_path: Path, kind: str) -> None:
    begun = tmp_path / "begun"
    os.mkfifo(begun)
    command = f"echo > {begun}; sleep 3"
    slow = {"event": "PreToolUse", "matcher": "^slow$", "handler": {"type": "command", "command": command}}
    server = start(slow, decide("PreToolUse", "^bash$", verdict="block", reason="no"))
    before, in_child, after = fork(server.address, kind, begun)
    # gRPC's own handling of forks ends such a child now and then, whatever it does.
    assert in_child in ("Refuse UNAVAILABLE", "ended by a signal")
    assert (before, after) == ("Refuse None", "Refuse None")
