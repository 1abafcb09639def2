"""What is special to these clients before the real server. The rest is in `tests/conformance`."""

from __future__ import annotations

import asyncio
import gc
import os
import time
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import grpc
import pytest
from hookd import AsyncClient, Caller, Capability, Client, Json, Refuse, Run, v1
from hookd.v1 import hook_service_pb2 as pb
from support import ALLOW, BLOCK, Asker, Hookd, Scripted, dead, fork, pre_tool_use, response

Start = Callable[..., Hookd]


def decide(event: str, matcher: str | None = None, **handler: Any) -> dict[str, Any]:
    """A rule that decides at once."""
    rule: dict[str, Any] = {"event": event, "handler": {"type": "decide", **handler}}
    return {**rule, "matcher": matcher} if matcher is not None else rule


def slow(seconds: float, **rule: Any) -> dict[str, Any]:
    """A rule that takes its time, and blocks."""
    command = f"sleep {seconds}; echo '{{\"blocked\":true}}'"
    return {"event": "PreToolUse", "handler": {"type": "command", "command": command, "timeout": 30000}, **rule}


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
    # One for each call would be 50. gRPC closes in its own time.
    assert after <= before + 20


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


@pytest.mark.parametrize("kind", ["asyncio to threads", "threads to asyncio", "pool"])
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
