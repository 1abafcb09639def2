"""The Claude Agent SDK with the Claude Code that it brings, and a scripted model behind it, with hookd in it."""

from __future__ import annotations

import asyncio
import json
import os
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("claude_agent_sdk", reason="claude-agent-sdk is not installed")

from claude_agent_sdk import (
    ClaudeAgentOptions,
    ClaudeSDKClient,
    PermissionResultAllow,
    PermissionResultDeny,
    create_sdk_mcp_server,
    query,
    tool,
)
from hookd.adapters.claude_agent_sdk import hookd_hooks
from rules import (
    PROMPT_BLOCK,
    PROMPT_NOTE,
    STOP_ONCE,
    Adder,
    Start,
    async_client,
    example,
    rule,
    session,
    signed,
)
from support import ALLOW, BLOCK, dead

from hookd import Client, Decision, OnUnavailable

ADD = "mcp__sums__add"
CALL = {"type": "tool_use", "id": "toolu_1", "name": ADD, "input": {"a": 1, "b": 2}}


class Model:
    """Says what a test wrote, one turn after the other, over the API that Claude Code speaks, and keeps what it was
    sent."""

    def __init__(self) -> None:
        self.turns: list[dict[str, Any]] = [CALL, _text("done"), _text("done again")]
        self.seen: list[list[dict[str, Any]]] = []
        outer = self

        class Handler(BaseHTTPRequestHandler):
            protocol_version = "HTTP/1.1"

            def log_message(self, *_: Any) -> None:
                pass

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["content-length"])))
                if not self.path.startswith("/v1/messages?") or not body.get("tools"):
                    # What Claude Code asks beside its loop.
                    return self.send(404, "application/json", b"{}")
                turn = outer.turns[len(outer.seen)]
                outer.seen.append(body["messages"])
                self.send(200, "text/event-stream", _events(turn))

            def do_GET(self) -> None:
                self.send(404, "application/json", b"{}")

            do_HEAD = do_GET

            def send(self, status: int, kind: str, body: bytes) -> None:
                self.send_response(status)
                self.send_header("content-type", kind)
                self.send_header("content-length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

        self.server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self.url = f"http://127.0.0.1:{self.server.server_port}"
        self.thread = threading.Thread(target=self.server.serve_forever)
        self.thread.start()

    def close(self) -> None:
        self.server.shutdown()
        self.thread.join()
        self.server.server_close()

    def blocks(self, kind: str) -> list[Any]:
        """What the model was sent in the end, of one kind."""
        content = [message["content"] for message in self.seen[-1]]
        blocks = [[{"type": "text", "text": one}] if isinstance(one, str) else one for one in content]
        return [block for one in blocks for block in one if block["type"] == kind]

    def result(self) -> tuple[bool, str]:
        """Whether the tool failed, and its text without what Claude Code adds for the model."""
        text, _, _ = self.said().partition("<system-reminder>")
        return bool(self.blocks("tool_result")[0].get("is_error")), text.rstrip()

    def said(self) -> str:
        """All that the model was told from the tool's result on."""
        (block,) = self.blocks("tool_result")
        content = block["content"]
        text = content if isinstance(content, str) else "\n".join(part["text"] for part in content)
        return "\n".join([text, *(block["text"] for block in self.blocks("text"))])


def _text(text: str) -> dict[str, Any]:
    return {"type": "text", "text": text}


def _events(block: dict[str, Any]) -> bytes:
    usage = {"input_tokens": 1, "output_tokens": 1}
    message: dict[str, Any] = {"id": "m", "type": "message", "role": "assistant", "model": "script", "content": []}
    message |= {"usage": usage}
    message |= {"stop_reason": None, "stop_sequence": None}
    if block["type"] == "tool_use":
        start, stop = {**block, "input": {}}, "tool_use"
        delta = {"type": "input_json_delta", "partial_json": json.dumps(block["input"])}
    else:
        start, stop = {"type": "text", "text": ""}, "end_turn"
        delta = {"type": "text_delta", "text": block["text"]}
    events = (
        {"type": "message_start", "message": message},
        {"type": "content_block_start", "index": 0, "content_block": start},
        {"type": "content_block_delta", "index": 0, "delta": delta},
        {"type": "content_block_stop", "index": 0},
        {"type": "message_delta", "delta": {"stop_reason": stop, "stop_sequence": None}, "usage": usage},
        {"type": "message_stop"},
    )
    return "".join(f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in events).encode()


class Agent:
    """Claude Code with one tool, of this process."""

    def __init__(self, kind: str, folder: Path, model: Model) -> None:
        self.kind, self.folder, self.model = kind, folder, model
        self.adder = Adder()
        self.told: list[Decision] = []
        self.asked: list[dict[str, Any]] = []
        self.agrees = True

    def options(self, **more: Any) -> ClaudeAgentOptions:
        adder = self.adder

        @tool("add", "Adds.", {"a": int, "b": int})
        async def add(args: dict[str, Any]) -> dict[str, Any]:
            if args["a"] < 0:
                return {"content": [_text("too small")], "is_error": True}
            return {"content": [_text(adder(args["a"], args["b"]))]}

        return ClaudeAgentOptions(
            mcp_servers={"sums": create_sdk_mcp_server("sums", tools=[add])},
            model="claude-sonnet-4-5",
            cwd=self.folder,
            setting_sources=[],
            env={
                "HOME": str(self.folder),
                "CLAUDE_CONFIG_DIR": str(self.folder / "claude"),
                "ANTHROPIC_BASE_URL": self.model.url,
                "ANTHROPIC_API_KEY": "none",
                "CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC": "1",
                "CLAUDE_CODE_MAX_RETRIES": "0",
            },
            **more,
        )

    def run(self, address: str, on_unavailable: OnUnavailable = BLOCK, **more: Any) -> Any:
        """The result message of one turn."""

        async def can_use_tool(name: str, input: dict[str, Any], _: Any) -> Any:
            self.asked.append(input)
            return PermissionResultAllow() if self.agrees else PermissionResultDeny(message="rather not")

        async def loop(asks: Any) -> Any:
            hooks = hookd_hooks(asks, on_decision=self.told.append)
            options = self.options(hooks=hooks, **{"can_use_tool": can_use_tool, **more})
            async with ClaudeSDKClient(options=options) as client:
                await client.query("what is 1 + 2?")
                return [message async for message in client.receive_response()][-1]

        async def run() -> Any:
            if self.kind == "asyncio":
                async with async_client(address, on_unavailable) as client:
                    return await loop(client.session(""))
            with session(address, on_unavailable) as asks:
                return await loop(asks)

        return asyncio.run(run())


@pytest.fixture
def model(monkeypatch: pytest.MonkeyPatch) -> Iterator[Model]:
    # None of what the tests run under has a say in the Claude Code that they start.
    for name in [name for name in os.environ if name.startswith(("CLAUDE", "ANTHROPIC")) or "proxy" in name.lower()]:
        monkeypatch.delenv(name)
    model = Model()
    yield model
    model.close()


@pytest.fixture(params=["threads", "asyncio"])
def agent(request: pytest.FixtureRequest, tmp_path: Path, model: Model) -> Callable[[], Agent]:
    def new() -> Agent:
        model.seen.clear()
        folder = tmp_path / "agent"
        folder.mkdir(exist_ok=True)
        return Agent(request.param, folder, model)

    return new


NewAgent = Callable[[], Agent]


def add_rule(id: str, event: str = "PreToolUse", **handler: Any) -> dict[str, Any]:
    return rule(id, event, f"^{ADD}$", **handler)


def test_a_tool_runs_as_it_was_called(agent: NewAgent, start: Start) -> None:
    one = agent()
    assert one.run(start().address).result == "done"
    assert (one.adder.ran, one.model.result()) == ([(1, 2)], (False, "sum 3"))
    assert len(one.told) >= 4


def test_a_block_comes_back_as_a_tool_error(agent: NewAgent, start: Start) -> None:
    one = agent()
    assert one.run(start(add_rule("no-add", verdict="block", reason="no adding today")).address).result == "done"
    failed, text = one.model.result()
    assert one.adder.ran == [] and failed and signed(text, "no adding today", "no-add")


def test_a_rewrite_reaches_the_tool(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(add_rule("bigger", modifiedParams={"a": 40, "b": 2}, additionalContext="mind the sum")).address)
    assert (one.adder.ran, one.model.result()[1]) == ([(40, 2)], "sum 42")
    assert "mind the sum" in one.model.said()


def test_an_allow_asks_nobody_and_a_question_goes_to_can_use_tool(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(add_rule("fine", verdict="allow")).address)
    assert (one.adder.ran, one.asked) == ([(1, 2)], [])
    asks = start(add_rule("ask", verdict="ask", reason="sure?", modifiedParams={"a": 40, "b": 2})).address
    for agrees, ran in ((True, [(40, 2)]), (False, [])):
        one = agent()
        one.agrees = agrees
        one.run(asks)
        assert (one.asked, one.adder.ran) == ([{"a": 40, "b": 2}], ran)


def test_the_result_is_replaced(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(add_rule("hide", "PostToolUse", modifiedResult="***")).address)
    assert (one.adder.ran, one.model.result()) == ([(1, 2)], (False, "***"))


def test_a_block_after_the_fact_stands_beside_the_result(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(add_rule("look", "PostToolUse", verdict="block", reason="look again")).address)
    assert one.model.result() == (False, "sum 3") and signed(one.model.said(), "look again", "look")


def test_a_failure_is_told(agent: NewAgent, start: Start) -> None:
    one = agent()
    rules = (
        add_rule("small", modifiedParams={"a": -1, "b": 2}),
        add_rule("try", "PostToolUseFailure", verdict="block", reason="try again"),
    )
    one.run(start(*rules).address)
    assert one.model.result()[0] and signed(one.model.said(), "try again", "try")


def test_a_rewrite_that_cannot_be_said_to_it_blocks(agent: NewAgent, start: Start, tmp_path: Path) -> None:
    (tmp_path / "modified").write_text('{"modifiedParams":{"a":1,"b":0.12345678901234567890123}}')
    handler = {"type": "command", "command": f"cat {tmp_path / 'modified'}"}
    one = agent()
    one.run(start({"event": "PreToolUse", "matcher": f"^{ADD}$", "handler": handler}).address)
    assert one.adder.ran == [] and one.model.result()[0]


def test_stop_makes_it_go_on(agent: NewAgent, start: Start) -> None:
    one = agent()
    assert one.run(start(STOP_ONCE).address).result == "done again"
    assert signed(one.model.said(), "check it again", "again")


def test_a_halt_ends_the_turn(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(add_rule("halt-add", halt=True, haltReason="enough")).address)
    assert (one.adder.ran, len(one.model.seen)) == ([], 1)
    one = agent()
    one.run(start(add_rule("halt-add", "PostToolUse", halt=True, haltReason="enough")).address)
    assert (one.adder.ran, len(one.model.seen)) == ([(1, 2)], 1)


def test_a_prompt_is_refused_or_gets_context(agent: NewAgent, start: Start) -> None:
    one = agent()
    one.run(start(PROMPT_BLOCK).address)
    assert one.model.seen == []
    one = agent()
    one.run(start(PROMPT_NOTE).address)
    assert "mind the gap" in json.dumps(one.model.seen[0])


def test_without_hookd_the_policy_decides(agent: NewAgent) -> None:
    one = agent()
    one.run(dead(), ALLOW)
    assert one.adder.ran == [(1, 2)]
    one = agent()
    one.run(dead())
    assert one.model.seen == []


def test_the_example(tmp_path: Path, model: Model, start: Start) -> None:
    one = Agent("threads", tmp_path, model)
    rules = (add_rule("fine", verdict="allow", modifiedParams={"a": 40, "b": 2}),)

    def options(**more: Any) -> ClaudeAgentOptions:
        return one.options(**more)

    with Client(start(*rules).address, on_unavailable=BLOCK) as client:
        text = example("claude_agent_sdk").replace("from claude_agent_sdk import ClaudeAgentOptions, query\n", "")
        exec(text, {"client": client, "ClaudeAgentOptions": options, "query": query})
    assert one.adder.ran == [(40, 2)]
