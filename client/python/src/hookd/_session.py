"""The everyday calls of one agent session."""

from __future__ import annotations

from collections.abc import Callable, Container
from datetime import timedelta
from typing import TYPE_CHECKING, ParamSpec, TypeVar, overload

from hookd import v1
from hookd._call_error import CallError
from hookd._gate import Ask, Decision, Gate
from hookd._request import ABSENT, Params, new_request
from hookd._tools import ToolCall, wrapped

if TYPE_CHECKING:
    from hookd._client import Client
    from hookd.commands import AgentSide

P = ParamSpec("P")
T = TypeVar("T")


class Session:
    """One session of an agent: asks about its events, each with what was set for it and the time of the call.

    Parameters and payloads are given as Python values, or as the text of a JSON object (`str` or `Json`). Results are
    given as Python values: a `str` is a text there, and a JSON text is `Json(text)`. What cannot be sent (a value that
    has no JSON form) is answered by the event's safe side, as every other call at fault.
    """

    def __init__(self, client: Client, template: v1.TriggerRequest, commands: AgentSide | None) -> None:
        """`Client.session` makes one."""
        self._client = client
        self._commands = commands
        self.template = template
        """Everything that is sent with each event, to set the rest of it."""

    def pre_tool_use(self, tool: str, params: Params, *, tool_use_id: str = "") -> Gate:
        """Before a tool runs."""
        return self.trigger("PreToolUse", tool=tool, params=params, tool_use_id=tool_use_id)

    def post_tool_use(
        self, tool: str, params: Params, result: object, *, tool_use_id: str = "", elapsed: timedelta | None = None
    ) -> Gate:
        """After a tool ran."""
        return self.trigger(
            "PostToolUse", tool=tool, params=params, result=result, tool_use_id=tool_use_id, elapsed=elapsed
        )

    def post_tool_use_failure(
        self, tool: str, params: Params, error: str, *, tool_use_id: str = "", elapsed: timedelta | None = None
    ) -> Gate:
        """After a tool failed, with the text of its error."""
        return self.trigger(
            "PostToolUseFailure", tool=tool, params=params, error=error, tool_use_id=tool_use_id, elapsed=elapsed
        )

    def user_prompt_submit(self, prompt: str) -> Gate:
        """Before the model sees a prompt."""
        return self.trigger("UserPromptSubmit", {"prompt": prompt})

    def session_start(self, source: str = "startup") -> Gate:
        """When the session starts; `source` says how (`startup`, `resume`, `clear`, `compact`)."""
        return self.trigger("SessionStart", {"source": source})

    def session_end(self, reason: str = "other") -> Gate:
        """When the session ends; `reason` says why."""
        return self.trigger("SessionEnd", {"reason": reason})

    def stop(self, continued: bool = False) -> Gate:
        """When the agent wants to stop. `continued`: it goes on already because of a `Continue`, which lets rules keep
        from holding it for ever."""
        return self.trigger("Stop", {"stop_hook_active": continued})

    def trigger(
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
        return self._client.trigger(request, commands=self._commands)

    def tool_call(
        self,
        tool: str,
        params: Params,
        *,
        tool_use_id: str = "",
        on_ask: Callable[[Ask], bool] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> ToolCall:
        """Asks before and after the body of a `with` statement that runs a tool.

        The body finds the parameters to run with in `ToolCall.params`, and sets `ToolCall.result`. Where the call may
        not run, the body does not, and `with` raises what `ToolStopped` says; so it does where hookd has something to
        say of the result. `on_ask` asks a person, and gives whether they agree; without one, a question is a no.
        `on_decision` is given each decision, for its texts for model and person.
        """
        return ToolCall(self, tool, params, tool_use_id, on_ask, on_decision)

    @overload
    def tool(self, function: Callable[P, T], /) -> Callable[P, T]: ...
    @overload
    def tool(
        self,
        function: None = None,
        /,
        *,
        name: str | None = None,
        exclude: Container[str] = (),
        on_ask: Callable[[Ask], bool] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> Callable[[Callable[P, T]], Callable[P, T]]: ...
    def tool(
        self,
        function: Callable[P, T] | None = None,
        /,
        *,
        name: str | None = None,
        exclude: Container[str] = (),
        on_ask: Callable[[Ask], bool] | None = None,
        on_decision: Callable[[Decision], object] | None = None,
    ) -> Callable[P, T] | Callable[[Callable[P, T]], Callable[P, T]]:
        """Wraps a function that is a tool: hookd is asked before and after each call, as by `tool_call`.

        The parameters are the arguments by name, defaults included, without those named in `exclude`. An argument that
        hookd changes reaches the function as JSON has it (a number with a fraction as a `Decimal`), all others as they
        were given. `name` is the tool's name; without it, the function's. Raises `TypeError` for a function whose
        arguments have no names, or which is `async`.
        """

        def wrap(function: Callable[P, T]) -> Callable[P, T]:
            return wrapped(self, function, name, exclude, on_ask, on_decision)

        return wrap if function is None else wrap(function)
