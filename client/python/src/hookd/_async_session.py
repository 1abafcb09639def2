"""The everyday calls of one agent session, on asyncio."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Container
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from hookd import v1
from hookd._call_error import CallError
from hookd._gate import Ask, Decision, Gate
from hookd._request import ABSENT, Params, new_request
from hookd._tools import AsyncToolCall, wrapped_async

if TYPE_CHECKING:
    from hookd._async_client import AsyncClient
    from hookd.commands import AgentSide

P = ParamSpec("P")
T = TypeVar("T")


class AsyncSession:
    """One session of an agent on asyncio: all that is said of `Session` holds."""

    def __init__(self, client: AsyncClient, template: v1.TriggerRequest, commands: AgentSide | None) -> None:
        """`AsyncClient.session` makes one."""
        self._client = client
        self._commands = commands
        self.template = template
        """Everything that is sent with each event, to set the rest of it."""

    async def pre_tool_use(self, tool: str, params: Params, *, tool_use_id: str = "") -> Gate:
        """Before a tool runs."""
        return await self.trigger("PreToolUse", tool=tool, params=params, tool_use_id=tool_use_id)

    async def post_tool_use(
        self, tool: str, params: Params, result: object, *, tool_use_id: str = "", elapsed: timedelta | None = None
    ) -> Gate:
        """After a tool ran."""
        return await self.trigger(
            "PostToolUse", tool=tool, params=params, result=result, tool_use_id=tool_use_id, elapsed=elapsed
        )

    async def post_tool_use_failure(
        self, tool: str, params: Params, error: str, *, tool_use_id: str = "", elapsed: timedelta | None = None
    ) -> Gate:
        """After a tool failed, with the text of its error."""
        return await self.trigger(
            "PostToolUseFailure", tool=tool, params=params, error=error, tool_use_id=tool_use_id, elapsed=elapsed
        )

    async def user_prompt_submit(self, prompt: str) -> Gate:
        """Before the model sees a prompt."""
        return await self.trigger("UserPromptSubmit", {"prompt": prompt})

    async def session_start(self, source: str = "startup") -> Gate:
        """When the session starts; `source` says how (`startup`, `resume`, `clear`, `compact`)."""
        return await self.trigger("SessionStart", {"source": source})

    async def session_end(self, reason: str = "other") -> Gate:
        """When the session ends; `reason` says why."""
        return await self.trigger("SessionEnd", {"reason": reason})

    async def stop(self, continued: bool = False) -> Gate:
        """When the agent wants to stop. `continued`: it goes on already because of a `Continue`, which lets rules keep
        from holding it for ever."""
        return await self.trigger("Stop", {"stop_hook_active": continued})

    async def trigger(
        self,
        event: str,
        payload: Params | None = None,
        *,
        tool: str | None = None,
        params: Params | None = None,
        result: object = ABSENT,
        error: str | None = None,
        tool_use_id: str = "",
        elapsed: timedelta | None = None,
    ) -> Gate:
        """Any event. With `tool` it is about a call of that tool, to which the arguments after it belong."""
        request = new_request(self.template, event, payload, tool, params, result, error, tool_use_id, elapsed)
        if isinstance(request, CallError):
            return self._client.gate_of_error(event, tool, request)
        return await self._client.trigger(request, commands=self._commands)

    def tool_call(
        self,
        tool: str,
        params: Params,
        *,
        tool_use_id: str = "",
        on_ask: Callable[[Ask], bool | Awaitable[bool]] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> AsyncToolCall:
        """Asks before and after the body of an `async with` statement that runs a tool, as `Session.tool_call` does.
        `on_ask` may be asynchronous."""
        return AsyncToolCall(self, tool, params, tool_use_id, on_ask, on_decision)

    @overload
    def tool(self, function: Callable[P, Awaitable[T]], /) -> Callable[P, Awaitable[T]]: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        exclude: Container[str] = (),
        on_ask: Callable[[Ask], bool | Awaitable[bool]] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]: ...
    def tool(
        self,
        function: Callable[P, Awaitable[T]] | None = None,
        /,
        *,
        name: str | None = None,
        exclude: Container[str] = (),
        on_ask: Callable[[Ask], bool | Awaitable[bool]] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> Callable[P, Awaitable[T]] | Callable[[Callable[P, Awaitable[T]]], Callable[P, Awaitable[T]]]:
        """Wraps an asynchronous function that is a tool: hookd is asked before and after each call, as `Session.tool`
        says. Raises `TypeError` for a function whose arguments have no names."""

        def wrap(function: Callable[P, Awaitable[T]]) -> Callable[P, Awaitable[T]]:
            return wrapped_async(self, function, name, exclude, on_ask, on_decision)

        return wrap if function is None else wrap(function)
