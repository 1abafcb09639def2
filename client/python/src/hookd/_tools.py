"""Tools that ask before and after they run."""

from __future__ import annotations

import functools
import inspect
import time
from collections.abc import Awaitable, Callable, Container, Mapping
from datetime import timedelta
from types import TracebackType
from typing import TYPE_CHECKING, Any, NoReturn, ParamSpec, TypeVar, cast

from hookd._call_error import not_understood
from hookd._gate import Ask, Continue, Decision, Gate, Halt, Refuse, Run, Suspend
from hookd._json import Json, to_text
from hookd._request import Params

if TYPE_CHECKING:
    from hookd._async_session import AsyncSession
    from hookd._session import Session

P = ParamSpec("P")
T = TypeVar("T")


class ToolStopped(Exception):
    """hookd has said something about a tool call that the agent's loop has to act on. Its text is for the model."""

    def __init__(self, gate: Gate, reason: str) -> None:
        """Because of `gate`."""
        super().__init__(reason)
        self.gate = gate
        """What hookd said."""
        self.reason = reason
        """Why."""


class ToolRefused(ToolStopped):
    """The tool did not run: it may not, or a person would have had to agree and did not. Tell the model why."""


class ToolSuspended(ToolStopped):
    """The tool did not run, and may later: put the call aside until someone decides outside."""


class ToolFeedback(ToolStopped):
    """The tool ran. Tell the model the reason beside the result."""

    def __init__(self, gate: Gate, reason: str, result: Any) -> None:
        """Because of `gate`, with what the model may see of the result."""
        super().__init__(gate, reason)
        self.result = result
        """The result to show to the model; `None` where the tool failed."""


class AgentHalted(ToolStopped):
    """The agent has to stop now. Before a tool: it did not run."""


class Scope:
    """What the two kinds of a tool call share: what each gate makes of it."""

    def __init__(self, tool: str, params: Params, tool_use_id: str, notify: Callable[[Decision], object] | None) -> None:
        """A call that nobody was asked about yet."""
        self.tool = tool
        """The tool's name."""
        self.tool_use_id = tool_use_id
        """The agent's id of the call."""
        self.result: Any = None
        """What the tool gave, to be set in the body; after it, what to show to the model."""
        self._sent = params
        self._modified: Json | None = None
        self._gate: Gate | None = None
        self._notify = notify
        self._begun = 0.0

    @property
    def params(self) -> Any:
        """The parameters to run the tool with, as a value."""
        return self.params_json.value

    @property
    def params_json(self) -> Json:
        """The same, as JSON."""
        if self._modified is not None:
            return self._modified
        return Json(self._sent) if isinstance(self._sent, str) else Json.of(self._sent)

    @property
    def modified(self) -> Json | None:
        """The parameters that hookd put in the place of those that were sent. `None`: it left them."""
        return self._modified

    def _told(self, gate: Gate) -> None:
        if self._notify is not None:
            self._notify(gate.decision)

    def _before(self, gate: Gate, agreed: bool) -> None:
        match gate:
            case Run():
                self._modified = gate.params
            case Ask() if agreed:
                self._modified = gate.params
            case Ask():
                raise ToolRefused(gate, gate.reason or f"nobody agreed to the call of {self.tool}")
            case Suspend():
                raise ToolSuspended(gate, gate.reason or f"the call of {self.tool} waits for a decision")
            case Refuse() | Continue():
                raise ToolRefused(gate, gate.reason or f"the call of {self.tool} was refused")
            case Halt():
                raise AgentHalted(gate, gate.reason or "the agent has to stop")
            case _:
                _never(gate)
        self._gate = gate
        self._begun = time.monotonic()

    def _after(self, gate: Gate, error: Exception | None) -> None:
        if isinstance(gate, Halt):
            raise AgentHalted(gate, gate.reason or "the agent has to stop") from error
        if not isinstance(gate, Continue) and gate.result is not None and error is None:
            self.result = gate.result.value
        if not isinstance(gate, Run):
            reason = gate.reason or f"the call of {self.tool} was refused after it ran"
            raise ToolFeedback(gate, reason, self.result if error is None else None) from error

    def _ran_with(self) -> Params:
        return self._sent if self._modified is None else self._modified

    def _elapsed(self) -> timedelta:
        return timedelta(seconds=time.monotonic() - self._begun)

    def misfit(self, why: str) -> ToolRefused:
        """Parameters that hookd gave and that the tool does not take."""
        error = not_understood(f"the modified parameters do not fit {self.tool}: {why}")
        answer = self._gate.decision.answer if self._gate is not None else None
        return ToolRefused(Refuse(error.message, decision=Decision(answer, error)), error.message)


class ToolCall(Scope):
    """One call of a tool, as a context manager: `Session.tool_call` makes one."""

    def __init__(
        self,
        session: Session,
        tool: str,
        params: Params,
        tool_use_id: str,
        on_ask: Callable[[Ask], bool] | None,
        on_decision: Callable[[Decision], object] | None,
    ) -> None:
        """A call that nobody was asked about yet."""
        super().__init__(tool, params, tool_use_id, on_decision)
        self._session = session
        self._on_ask = on_ask

    def __enter__(self) -> ToolCall:
        gate = self._session.pre_tool_use(self.tool, self._sent, tool_use_id=self.tool_use_id)
        self._told(gate)
        agreed = isinstance(gate, Ask) and self._on_ask is not None and self._on_ask(gate) is True
        self._before(gate, agreed)
        return self

    def __exit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            gate = self._session.post_tool_use(
                self.tool, self._ran_with(), self.result, tool_use_id=self.tool_use_id, elapsed=self._elapsed()
            )
        elif isinstance(error, Exception) and not isinstance(error, ToolStopped):
            gate = self._session.post_tool_use_failure(
                self.tool, self._ran_with(), error_text(error), tool_use_id=self.tool_use_id, elapsed=self._elapsed()
            )
        else:
            # Someone wants to be gone, or it did not run after all.
            return
        self._told(gate)
        self._after(gate, error)


class AsyncToolCall(Scope):
    """One call of a tool, as an asynchronous context manager: `AsyncSession.tool_call` makes one."""

    def __init__(
        self,
        session: AsyncSession,
        tool: str,
        params: Params,
        tool_use_id: str,
        on_ask: Callable[[Ask], bool | Awaitable[bool]] | None,
        on_decision: Callable[[Decision], object] | None,
    ) -> None:
        """A call that nobody was asked about yet."""
        super().__init__(tool, params, tool_use_id, on_decision)
        self._session = session
        self._on_ask = on_ask

    async def __aenter__(self) -> AsyncToolCall:
        gate = await self._session.pre_tool_use(self.tool, self._sent, tool_use_id=self.tool_use_id)
        self._told(gate)
        agreed: object = False
        if isinstance(gate, Ask) and self._on_ask is not None:
            agreed = self._on_ask(gate)
            if inspect.isawaitable(agreed):
                agreed = await agreed
        self._before(gate, agreed is True)
        return self

    async def __aexit__(
        self, _: type[BaseException] | None, error: BaseException | None, __: TracebackType | None
    ) -> None:
        if error is None:
            gate = await self._session.post_tool_use(
                self.tool, self._ran_with(), self.result, tool_use_id=self.tool_use_id, elapsed=self._elapsed()
            )
        elif isinstance(error, Exception) and not isinstance(error, ToolStopped):
            gate = await self._session.post_tool_use_failure(
                self.tool, self._ran_with(), error_text(error), tool_use_id=self.tool_use_id, elapsed=self._elapsed()
            )
        else:
            # Someone wants to be gone, or it did not run after all.
            return
        self._told(gate)
        self._after(gate, error)


class Arguments:
    """The arguments of a function as parameters of a tool, and back."""

    def __init__(self, function: Callable[..., object], exclude: Container[str]) -> None:
        """Raises `TypeError` for a function whose arguments have no names."""
        self._signature = inspect.signature(function)
        parameters = self._signature.parameters.values()
        self._open = next((one.name for one in parameters if one.kind is inspect.Parameter.VAR_KEYWORD), None)
        if any(one.kind is inspect.Parameter.VAR_POSITIONAL for one in parameters):
            raise TypeError("a tool's arguments need names, this one takes `*args`")
        self._names = [one.name for one in parameters if one.name != self._open and one.name not in exclude]

    def bind(self, args: tuple[Any, ...], kwargs: dict[str, Any]) -> inspect.BoundArguments:
        """These arguments by name. Raises `TypeError` where they do not fit."""
        bound = self._signature.bind(*args, **kwargs)
        bound.apply_defaults()
        return bound

    def params(self, bound: inspect.BoundArguments) -> dict[str, object]:
        """The parameters of the tool."""
        named = {name: bound.arguments[name] for name in self._names}
        return {**named, **bound.arguments[self._open]} if self._open is not None else named

    def put(self, bound: inspect.BoundArguments, modified: Mapping[str, object]) -> None:
        """Puts parameters in the place of those that were bound; those that stay the same keep their own objects.
        Raises `TypeError` where they do not fit."""
        sent = self.params(bound)
        merged = {name: sent[name] if _same(sent, name, value) else value for name, value in modified.items()}
        for name in self._names:
            bound.arguments.pop(name, None)
            if name in merged:
                bound.arguments[name] = merged.pop(name)
            elif self._signature.parameters[name].default is inspect.Parameter.empty:
                raise TypeError(f"`{name}` is missing")
        if self._open is not None:
            bound.arguments[self._open] = merged
        elif merged:
            raise TypeError(f"`{next(iter(merged))}` is not known")
        order = list(self._signature.parameters)
        named = sorted(bound.arguments.items(), key=lambda item: order.index(item[0]))
        bound.arguments = dict(named)
        bound.apply_defaults()


def wrapped(
    session: Session,
    function: Callable[P, T],
    name: str | None,
    exclude: Container[str],
    on_ask: Callable[[Ask], bool] | None,
    on_decision: Callable[[Decision], object] | None,
) -> Callable[P, T]:
    """`function`, asking before and after."""
    if inspect.iscoroutinefunction(function):
        raise TypeError("an `async` function needs the session of an `AsyncClient`")
    arguments, tool = Arguments(function, exclude), name or function.__name__

    @functools.wraps(function)
    def ask_and_run(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = arguments.bind(args, kwargs)
        with session.tool_call(tool, arguments.params(bound), on_ask=on_ask, on_decision=on_decision) as call:
            _refit(call, arguments, bound)
            call.result = function(*bound.args, **bound.kwargs)
        return cast(T, call.result)

    return ask_and_run


def wrapped_async(
    session: AsyncSession,
    function: Callable[P, Awaitable[T]],
    name: str | None,
    exclude: Container[str],
    on_ask: Callable[[Ask], bool | Awaitable[bool]] | None,
    on_decision: Callable[[Decision], object] | None,
) -> Callable[P, Awaitable[T]]:
    """`function`, asking before and after."""
    arguments, tool = Arguments(function, exclude), name or function.__name__

    @functools.wraps(function)
    async def ask_and_run(*args: P.args, **kwargs: P.kwargs) -> T:
        bound = arguments.bind(args, kwargs)
        async with session.tool_call(tool, arguments.params(bound), on_ask=on_ask, on_decision=on_decision) as call:
            _refit(call, arguments, bound)
            call.result = await function(*bound.args, **bound.kwargs)
        return cast(T, call.result)

    return ask_and_run


def error_text(error: Exception) -> str:
    """What a tool's error says, in a form that can be sent."""
    text = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
    return text.encode("utf-8", "replace").decode()


def _refit(call: Scope, arguments: Arguments, bound: inspect.BoundArguments) -> None:
    if call.modified is None:
        return
    try:
        arguments.put(bound, call.modified.value)
    except TypeError as error:
        raise call.misfit(str(error)) from None


def _never(gate: NoReturn) -> NoReturn:
    raise AssertionError(f"no gate: {gate!r}")


def _same(sent: Mapping[str, object], name: str, value: object) -> bool:
    return name in sent and to_text(sent[name]) == to_text(value)
