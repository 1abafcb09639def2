"""What the tests of all adapters share: rules, servers and sessions."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

from hookd import AsyncClient, Client, OnUnavailable, Session
from support import BLOCK, CLIENT, Hookd

ID = r"[0-9a-f]{8}-[0-9a-f-]{27}"


def rule(id: str, event: str, matcher: str | None = None, when: str | None = None, **handler: Any) -> dict[str, Any]:
    """A rule that decides at once."""
    one: dict[str, Any] = {"id": id, "event": event, "handler": {"type": "decide", **handler}}
    if matcher is not None:
        one["matcher"] = matcher
    if when is not None:
        one["when"] = when
    return one


ADD_REWRITE = rule("bigger", "PreToolUse", "^add$", modifiedParams={"a": 40, "b": 2})
ADD_BLOCK = rule("no-add", "PreToolUse", "^add$", verdict="block", reason="no adding today")
ADD_ASK = rule("ask-add", "PreToolUse", "^add$", verdict="ask", reason="sure?", modifiedParams={"a": 40, "b": 2})
ADD_DEFER = rule("later-add", "PreToolUse", "^add$", verdict="defer", reason="later")
ADD_HALT = rule("halt-add", "PreToolUse", "^add$", halt=True, haltReason="enough")
RESULT_HIDE = rule("hide", "PostToolUse", "^add$", modifiedResult="***")
RESULT_BLOCK = rule("look", "PostToolUse", "^add$", verdict="block", reason="look again")
PROMPT_BLOCK = rule("no-prompt", "UserPromptSubmit", verdict="block", reason="not this")
PROMPT_NOTE = rule("note", "UserPromptSubmit", additionalContext="mind the gap")
STOP_ONCE = rule("again", "Stop", when="!payload.stop_hook_active", verdict="block", reason="check it again")


class Adder:
    """The tool of all tests: adds, and remembers with what it ran."""

    def __init__(self) -> None:
        self.ran: list[tuple[Any, Any]] = []

    def __call__(self, a: int, b: int) -> str:
        self.ran.append((a, b))
        return f"sum {a + b}"


@contextmanager
def session(address: str, on_unavailable: OnUnavailable = BLOCK) -> Iterator[Session]:
    """A session on threads."""
    with Client(address, on_unavailable=on_unavailable, deadline=20, rounds=1) as client:
        yield client.session("s")


def async_client(address: str, on_unavailable: OnUnavailable = BLOCK) -> AsyncClient:
    """A client on asyncio."""
    return AsyncClient(address, on_unavailable=on_unavailable, deadline=20, rounds=1)


def signed(text: object, reason: str, rule_id: str) -> bool:
    """Whether a text has a reason that ends with its rule and the decision's id."""
    return re.search(rf"{re.escape(reason)} \({re.escape(rule_id)}, {ID}\)", str(text)) is not None


def example(module: str) -> str:
    """The code that `ADAPTERS.md` shows for an adapter."""
    page = (CLIENT / "ADAPTERS.md").read_text()
    blocks: list[str] = re.findall(r"```python\n(.*?)```", page, re.S)
    ours = [block for block in blocks if f"hookd.adapters.{module} " in block]
    assert len(ours) == 1, f"{module} has {len(ours)} examples"
    return ours[0]


Start = Callable[..., Hookd]
