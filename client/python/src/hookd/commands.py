"""Runs the commands of rule files that an agent brings along, where the agent is.

A call with an `AgentSide` offers the files to hookd; when hookd reaches one of their commands it names it, by file and
place, and this side runs its *own copy*, never the server's text. Opt-in: nothing here is used unless a session or a call
is given an `AgentSide`. For systems with `os.waitid` (Linux, macOS from Python 3.13).
"""

from __future__ import annotations

import atexit
import enum
import hashlib
import os
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from hookd import v1
from hookd._json import Json
from hookd._process import KILL_GRACE, Cancel, End, Finished, Program, run
from hookd.v1 import hook_service_pb2 as pb

# Most that is kept of one output, whatever hookd asks for.
_MAX_OUTPUT_BYTES = 1024 * 1024
# How long a program may run where hookd does not say, in seconds.
_DEFAULT_TIMEOUT = 10.0
# What programs of the server's find in their environment; nothing else of this process is passed on.
_PASSED_ON = ("PATH", "HOME", "LANG", "TMPDIR")


class OfferTier(enum.Enum):
    """A tier that a caller can bring rules of. The ones above are never a caller's."""

    PLUGIN = pb.TIER_PLUGIN
    """A plugin's rules."""
    SHARED = pb.TIER_SHARED
    """A project's rules."""
    LOCAL = pb.TIER_LOCAL
    """A person's rules."""


@dataclass(frozen=True)
class OfferedRules:
    """A rule file to offer."""

    tier: OfferTier
    """Its tier."""
    path: str
    """Its absolute path; hookd names it in results and never opens it."""
    content: bytes = field(repr=False)
    """Its bytes."""
    format: str = ""
    """How it is to be read: `hookd`, `claude-code`, or empty: by its shape."""

    @classmethod
    def read(cls, tier: OfferTier, path: str, format: str = "") -> OfferedRules:
        """The file as it lies on the disk. Raises `OSError`."""
        path = os.path.abspath(path)
        with open(path, "rb") as file:
            return cls(tier, path, file.read(), format)

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of its bytes, lowercase hex."""
        return hashlib.sha256(self.content).hexdigest()


@dataclass(frozen=True)
class OfferedCommand:
    """A command that hookd asks for."""

    file: OfferedRules
    """The file, as it was offered."""
    index: int
    """The rule's place among all entries of the file, in their order there, those that are not in force included; from
    0."""
    rule_id: str
    """The rule's id as hookd has it, for messages."""
    request: v1.TriggerRequest
    """The event."""


@dataclass(frozen=True)
class AgentProgram:
    """A program to run, without its input."""

    argv: Sequence[str]
    """The program and its arguments. A program without a slash is looked up in the `PATH` of `env`."""
    env: Mapping[str, str] = field(default_factory=dict[str, str], repr=False)
    """The whole environment: nothing of this process is inherited."""
    cwd: str | None = None
    """The directory to run in. `None`: the event's `cwd`, or this process's own where it has none."""


@dataclass(frozen=True)
class Detached:
    """A program that nobody waits for."""

    program: AgentProgram
    """The program, with its directory."""
    stdin: bytes = field(repr=False)
    """What it reads, to its end."""
    timeout: float
    """How long it may run, in seconds."""


class NotPermitted(Exception):
    """There is no program to run for a command; its text says why, in one line. The rule then fails with
    `FAILURE_NOT_PERMITTED`."""


def native_program(command: OfferedCommand) -> AgentProgram:
    """The program of a rule of a native rule file in JSON, for `AgentSide`: a shell line or words, in the directory that
    the rule names or the event's, with hookd's own variables and those of the rule.

    Raises `NotPermitted` for files of other kinds (YAML, agents' own) and rules that are no commands.
    """
    try:
        rule = Json(command.file.content.decode()).value["hooks"][command.index]
        handler = rule["handler"]
        if handler["type"] != "command":
            raise NotPermitted(f"rule `{command.rule_id}` of {command.file.path} is no command")
        argv = handler["argv"] if "argv" in handler else [handler.get("shell", "sh"), "-c", handler["command"]]
        added = {str(name): str(value) for name, value in handler.get("env", {}).items()}
        cwd = handler.get("cwd")
    except (ValueError, TypeError, KeyError, IndexError, AttributeError) as error:
        raise NotPermitted(f"{command.file.path} has no rule {command.index} that can be read: {error!r}") from None
    request = command.request
    said = {
        "HOOKD_EVENT": request.event,
        "HOOKD_TOOL": request.tool_call.tool,
        "HOOKD_SESSION_ID": request.session_id,
        "HOOKD_RULE_ID": command.rule_id,
        "HOOKD_CWD": request.cwd,
    }
    passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
    # What a program could not be started with is left out; it stands in the input anyway.
    known = {name: value for name, value in said.items() if value and len(value) <= 4096 and "\0" not in value}
    folder = None if cwd is None else os.path.join(os.path.dirname(command.file.path), cwd)
    places = (request.cwd, *request.workspace_roots)
    where = folder or next((place for place in places if os.path.isabs(place) and os.path.isdir(place)), None)
    return AgentProgram(tuple(argv), {**passed_on, **known, **added}, where)


class AgentSide:
    """What a caller brings to a call beside the event: rule files of its own, and what runs their commands on this
    machine. Make one and keep it: files are hashed once, and all calls share the cap on programs at a time.

    hookd is sent the hashes, and a file's content only where it does not know it yet.
    """

    def __init__(
        self,
        program: Callable[[OfferedCommand], AgentProgram] = native_program,
        *,
        offers: Iterable[OfferedRules] = (),
        server_programs: bool = False,
        detach: Callable[[Detached], bool] | None = None,
        children: int = 48,
        queue: int = 192,
        background: int = 48,
    ) -> None:
        """A side with these files; those of one tier are evaluated in this order, after the server's own of that tier.

        - `program`: gives the program of a rule, out of this side's own copy of its file; called on a thread of its own.
          Raises `NotPermitted` where there is none. Unless given: `native_program`.
        - `server_programs`: lets hookd run programs of its *own* rules with `runOn: agent` here: it sends the command
          line. Only where the server may run anything on this machine.
        - `detach`: starts a program that nobody waits for (an async rule), and says whether it took it. One that it did
          not take runs in the background of this process, under its time limit, and is killed if the process ends first.
        - `children`, `queue`, `background`: how many programs run at a time, wait for that, and run unwaited for.
        """
        if not hasattr(os, "waitid"):
            raise NotImplementedError("commands need `os.waitid`, which this system or this Python does not have")
        self.offers = tuple(offers)
        self._program = program
        self._server_programs = server_programs
        self._detach = detach
        self._places = _Places(children, queue)
        self._background = _Places(background, 0)
        _sides.add(self)

    @property
    def is_empty(self) -> bool:
        """There is nothing that hookd could want from this side: a plain call is enough, and cheaper."""
        return not self.offers and not self._server_programs

    def shutdown(self, grace: float = KILL_GRACE) -> int:
        """Ends every program that still runs here, for good, and those that are asked for later. Returns when all are
        gone, or `grace` and a second after the last signal, with how many are not."""
        self._places.close()
        self._background.close()
        over = time.monotonic() + KILL_GRACE + grace + 1
        return self._places.wait_until_empty(over) + self._background.wait_until_empty(over)

    def start(
        self,
        message: v1.RunCommand,
        request: v1.TriggerRequest,
        over: float,
        cancel: Cancel,
        done: Callable[[v1.CommandResult], object],
    ) -> None:
        """Runs what hookd asks for on a thread of its own, until `over` on the monotonic clock; `done` is called
        there."""
        _thread(lambda: self._run(message, request, over, cancel, done))

    def start_detached(self, message: v1.RunCommand, request: v1.TriggerRequest) -> None:
        """The same, where nobody waits for it."""
        _thread(lambda: self._run_detached(message, request, Cancel()))

    def _run(
        self,
        message: v1.RunCommand,
        request: v1.TriggerRequest,
        over: float,
        cancel: Cancel,
        done: Callable[[v1.CommandResult], object],
    ) -> None:
        def finished(result: Finished | v1.CommandResult) -> None:
            answer = _result(result) if isinstance(result, Finished) else result
            answer.command_id = message.command_id
            done(answer)

        program = self._program_of(message, request)
        if isinstance(program, v1.CommandResult):
            finished(program)
            return
        why = self._places.enter(over, cancel)
        if why is not None:
            finished(why)
            return
        try:
            left = over - time.monotonic()
            timeout = min(_timeout(message, left), left)
            output_bytes = min(message.output_limit_bytes, _MAX_OUTPUT_BYTES)
            run(_with_stdin(program, message.stdin), timeout, output_bytes, cancel, finished)
        except OSError as error:
            # If it was told already, this is not heard any more.
            finished(_failed(pb.FAILURE_INTERNAL, f"the program could not be looked after: {error}"))
        finally:
            self._places.leave(cancel)

    def _run_detached(self, message: v1.RunCommand, request: v1.TriggerRequest, cancel: Cancel) -> None:
        program = self._program_of(message, request)
        # One that cannot be started is nobody's to tell.
        if isinstance(program, v1.CommandResult):
            return
        timeout = _timeout(message, _DEFAULT_TIMEOUT)
        if self._detach is not None and self._detach(Detached(program, message.stdin, timeout)):
            return
        if self._background.enter(time.monotonic(), cancel) is not None:
            return
        try:
            run(_with_stdin(program, message.stdin), timeout, 0, cancel, lambda _: None)
        finally:
            self._background.leave(cancel)

    def _program_of(self, message: v1.RunCommand, request: v1.TriggerRequest) -> AgentProgram | v1.CommandResult:
        match message.WhichOneof("program"):
            case "offered_rule":
                rule = message.offered_rule
                offered = (one for one in self.offers if one.sha256 == rule.sha256 and one.tier.value == message.tier)
                file = next(offered, None)
                if file is None:
                    return _failed(pb.FAILURE_NOT_PERMITTED, "the rule stands in no file that was offered")
                try:
                    program = self._program(OfferedCommand(file, rule.index, message.rule_id, request))
                except NotPermitted as why:
                    return _failed(pb.FAILURE_NOT_PERMITTED, str(why))
                except Exception as error:
                    # Whatever it is, the rule has failed, and its own policy says what that means.
                    return _failed(pb.FAILURE_INTERNAL, f"the program of the rule could not be told: {error!r}")
            case "server_program" if not self._server_programs:
                return _failed(pb.FAILURE_NOT_PERMITTED, "this caller runs no programs of the server's")
            case "server_program":
                passed_on = {name: os.environ[name] for name in _PASSED_ON if name in os.environ}
                env = {**passed_on, **message.server_program.env}
                program = AgentProgram(tuple(message.server_program.argv), env, _absolute(message.cwd))
            case _:
                return _failed(pb.FAILURE_UNSUPPORTED, "this caller does not know what is to be run")
        if program.cwd is not None:
            return program
        return AgentProgram(program.argv, program.env, _absolute(request.cwd))


class _Places:
    """A cap on live programs, with a bounded queue before it."""

    def __init__(self, children: int, queue: int) -> None:
        self._children = children
        self._queue = queue
        self._waiting = 0
        self._live: set[Cancel] = set()
        self._closed = False
        self._changed = threading.Condition()

    def enter(self, over: float, cancel: Cancel) -> Finished | v1.CommandResult | None:
        """Takes a place, or says why there is none."""
        with self._changed:
            if len(self._live) >= self._children and self._waiting >= self._queue:
                return _failed(
                    pb.FAILURE_OVERLOADED,
                    f"too many commands at once: {self._children} children are alive and the queue of {self._queue} is "
                    "full",
                )
            self._waiting += 1
            try:
                # Looks at `cancel` now and then, which has no other way to wake it.
                while len(self._live) >= self._children and not self._closed and not cancel.is_set:
                    left = over - time.monotonic()
                    if left <= 0:
                        return Finished(End.TIMED_OUT)
                    self._changed.wait(min(left, 0.05))
            finally:
                self._waiting -= 1
            if self._closed or cancel.is_set:
                return Finished(End.CANCELLED)
            self._live.add(cancel)
            return None

    def leave(self, cancel: Cancel) -> None:
        """Gives a place back."""
        with self._changed:
            self._live.discard(cancel)
            self._changed.notify_all()

    def close(self) -> None:
        """Cancels what runs, and gives no place any more."""
        with self._changed:
            self._closed = True
            for cancel in self._live:
                cancel.set()
            self._changed.notify_all()

    def wait_until_empty(self, over: float) -> int:
        """How many are left then."""
        with self._changed:
            self._changed.wait_for(lambda: not self._live, max(over - time.monotonic(), 0))
            return len(self._live)


def _thread(body: Callable[[], None]) -> None:
    threading.Thread(target=body, name="hookd-command", daemon=True).start()


def _result(finished: Finished) -> v1.CommandResult:
    if finished.end in (End.DID_NOT_START, End.LOST):
        failure = pb.FAILURE_DID_NOT_START if finished.end is End.DID_NOT_START else pb.FAILURE_INTERNAL
        return _failed(failure, finished.why)
    result = v1.CommandResult(stdout=finished.stdout, stderr=finished.stderr, truncated=finished.truncated)
    if finished.elapsed is not None:
        result.elapsed.FromNanoseconds(int(finished.elapsed * 1e9))
    match finished.end:
        case End.EXITED:
            result.exit_code = finished.number
        case End.SIGNALLED:
            result.signal = finished.number
        case End.TIMED_OUT:
            result.failure = pb.FAILURE_TIMED_OUT
        case _:
            result.failure = pb.FAILURE_CANCELLED
    return result


def _failed(failure: pb.Failure.ValueType, why: str) -> v1.CommandResult:
    return v1.CommandResult(failure=failure, stderr=why.encode("utf-8", "replace"))


def _with_stdin(program: AgentProgram, stdin: bytes) -> Program:
    return Program(program.argv, program.env, program.cwd, stdin)


def _timeout(message: v1.RunCommand, unless_said: float) -> float:
    return message.timeout.ToNanoseconds() / 1e9 if message.HasField("timeout") else unless_said


def _absolute(path: str) -> str | None:
    return path if os.path.isabs(path) else None


_sides: weakref.WeakSet[AgentSide] = weakref.WeakSet()


@atexit.register
def _end_all() -> None:
    """Nothing that runs here outlives this process."""
    for side in list(_sides):
        side.shutdown()
