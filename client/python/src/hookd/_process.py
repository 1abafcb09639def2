"""Runs one program under limits, and leaves nothing of it behind that should not be there.

What holds for every program:

- It leads a process group (and a session) of its own, gets exactly the environment it was given, and stdin from a pipe
  that is closed right after the payload.
- One timer counts from its start, and ends writing and reading too. It has ended when its *leader* (the process that was
  started) has ended; pipes that others still hold are then read for a short grace.
- Time-out, cancelling, and the death of the leader by a signal end the whole group: SIGTERM, grace, SIGKILL until no
  member is left. The result never waits for that; the place under the cap does.
- A leader that exits by itself leaves the processes that it started alone.
- Output beyond the cap is read and thrown away.

INVARIANT: signals go to the group only while its leader is *unreaped*: only a living or unreaped process keeps the
kernel from giving its number to strangers. So exits are observed without being collected.
"""

from __future__ import annotations

import contextlib
import enum
import errno
import os
import selectors
import signal
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

# How long pipes that others still hold are read after the leader has exited, and the time between SIGTERM and SIGKILL
# for a group that has to end; in seconds.
PIPE_GRACE = 0.1
KILL_GRACE = 0.5
# A file that another thread's fresh child still holds open for writing cannot be executed; the moment passes.
_BUSY_LIMIT = 2.0
_BUSY_PAUSE = 0.005
_CHUNK = 64 * 1024
_FIRST_PAUSE = 0.001
_LONGEST_PAUSE = 0.1


@dataclass(frozen=True)
class Program:
    """One program to run."""

    argv: Sequence[str]
    """The program and its arguments. A program without a slash is looked up in the `PATH` of `env`."""
    env: Mapping[str, str]
    """The whole environment: nothing of this process is inherited."""
    cwd: str | None
    """The working directory; this process's own where there is none."""
    stdin: bytes
    """What it reads, before end of file."""


class End(enum.Enum):
    """How a program ended."""

    EXITED = enum.auto()
    """By itself, with a code."""
    SIGNALLED = enum.auto()
    """By a signal that was not this side's."""
    TIMED_OUT = enum.auto()
    """Its time was over."""
    CANCELLED = enum.auto()
    """Nobody waits for it any more."""
    DID_NOT_START = enum.auto()
    """It could not be started."""
    LOST = enum.auto()
    """It ended, but how is not known: something else in this process took its exit status."""


@dataclass(frozen=True)
class Finished:
    """How one run ended, and what the program wrote until then."""

    end: End
    number: int = 0
    """The exit code or the signal."""
    why: str = ""
    """Why it did not start, or was lost; one line."""
    stdout: bytes = b""
    stderr: bytes = b""
    truncated: bool = False
    """One of the outputs was longer than what is here."""
    elapsed: float | None = None
    """From its start to its end, in seconds. `None`: it did not start."""


class Cancel:
    """Ends a run from another thread."""

    def __init__(self) -> None:
        """Not cancelled yet."""
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self.is_set = False

    def fileno(self) -> int:
        """Readable once it is cancelled."""
        return self._reader

    def set(self) -> None:
        """Cancels."""
        self.is_set = True
        with contextlib.suppress(OSError):
            os.write(self._writer, b"x")

    def __del__(self) -> None:
        for descriptor in (self._reader, self._writer):
            with contextlib.suppress(OSError):
                os.close(descriptor)


@dataclass
class _Captured:
    cap: int
    content: bytearray = field(default_factory=bytearray)
    truncated: bool = False

    def keep(self, chunk: bytes) -> None:
        room = self.cap - len(self.content)
        self.content += chunk[: max(room, 0)]
        self.truncated |= len(chunk) > room


def run(
    program: Program, timeout: float, output_bytes: int, cancel: Cancel, finished: Callable[[Finished], object]
) -> None:
    """Runs a program to its end, tells `finished` at once, and returns when nothing is left of what has to go."""
    started = time.monotonic()
    over = started + timeout
    if cancel.is_set:
        finished(Finished(End.CANCELLED))
        return
    if timeout <= 0:
        finished(Finished(End.TIMED_OUT))
        return
    child = _spawn(program, started)
    if isinstance(child, str):
        finished(Finished(End.DID_NOT_START, why=child))
        return
    with _Leader(child) as leader, _Pump(child, program.stdin, output_bytes) as pump:
        end, number, why = _wait(leader, pump, over, cancel)
        pump.unwatch()
        if end is End.EXITED:
            leader.reap()
        elif end is not End.LOST:
            leader.signal(signal.SIGTERM)
        if end in (End.EXITED, End.SIGNALLED):
            pump.until(min(time.monotonic() + PIPE_GRACE, over))
        finished(pump.finished(end, number, why, time.monotonic() - started))
        if end in (End.SIGNALLED, End.TIMED_OUT, End.CANCELLED):
            leader.end_group()


def _wait(leader: _Leader, pump: _Pump, over: float, cancel: Cancel) -> tuple[End, int, str]:
    """Pumps until the leader has exited, time is over, or it is cancelled."""
    pump.watch(leader.event, cancel)
    pause = _FIRST_PAUSE
    while True:
        try:
            exit_ = leader.exit()
        except OSError as error:
            leader.forget()
            return End.LOST, 0, f"cannot learn how it ended: {error.strerror}"
        if exit_ is not None:
            return (*exit_, "")
        if cancel.is_set:
            return End.CANCELLED, 0, ""
        left = over - time.monotonic()
        if left <= 0:
            return End.TIMED_OUT, 0, ""
        if leader.event is None:
            # Without an event for its end, it is looked at again and again.
            left, pause = min(left, pause), min(pause * 2, _LONGEST_PAUSE)
        pump.step(left)


def _spawn(program: Program, started: float) -> subprocess.Popen[bytes] | str:
    """Starts a program, or says why it cannot be."""
    if not program.argv:
        return "no program is named"
    argv = list(program.argv)
    path = _found(program)
    while True:
        try:
            return subprocess.Popen(
                argv,
                executable=path,
                env=dict(program.env),
                cwd=program.cwd,
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                bufsize=0,
                start_new_session=True,
            )
        except OSError as error:
            if error.errno == errno.ETXTBSY and time.monotonic() - started < _BUSY_LIMIT:
                time.sleep(_BUSY_PAUSE)
                continue
            if error.errno == errno.ENOEXEC and path is not None and path != "/bin/sh":
                # A script without a first line: shells run it themselves, and so does the C library.
                argv, path = ["/bin/sh", path, *program.argv[1:]], "/bin/sh"
                continue
            if program.cwd is not None and not os.path.isdir(program.cwd):
                return f"cannot use the working directory `{program.cwd}`: {_no_directory(program.cwd)}"
            return f"cannot start `{program.argv[0]}`: {error.strerror or error}"
        except ValueError as error:
            return f"cannot start `{program.argv[0]}`: {error}"


def _found(program: Program) -> str | None:
    """Where a program is, as far as that is plain; otherwise the system looks."""
    name = program.argv[0]
    if "/" in name:
        return name
    for place in os.get_exec_path(dict(program.env)):
        # A relative one starts in the child's directory.
        if not os.path.isabs(place):
            return None
        path = os.path.join(place, name)
        if "\0" not in path and os.path.isfile(path) and os.access(path, os.X_OK):
            return path
    return None


def _no_directory(path: str) -> str:
    try:
        os.stat(path)
    except OSError as error:
        return error.strerror or str(error)
    return "it is not a directory"


class _Leader:
    """A process that leads a group."""

    def __init__(self, child: subprocess.Popen[bytes]) -> None:
        self._child = child
        self._is_reaped = False
        self.event: int | None = None
        """Readable once it has exited. `None`: old kernels and some sandboxes have none."""
        if hasattr(os, "pidfd_open"):
            with contextlib.suppress(OSError):
                self.event = os.pidfd_open(child.pid)

    def exit(self) -> tuple[End, int] | None:
        """How it ended, if it has; it is left unreaped. Raises `OSError` where that cannot be known."""
        status = os.waitid(os.P_PID, self._child.pid, os.WEXITED | os.WNOHANG | os.WNOWAIT)
        if status is None:
            return None
        end = End.EXITED if status.si_code == os.CLD_EXITED else End.SIGNALLED
        return end, status.si_status

    def signal(self, number: signal.Signals) -> None:
        """Sends a signal to the group."""
        if not self._is_reaped:
            # Fails only for members that run as someone else.
            with contextlib.suppress(OSError):
                os.killpg(self._child.pid, number)

    def reap(self) -> None:
        """Collects a leader that has exited, or waits until it has."""
        self._is_reaped = True
        self._child.wait()

    def forget(self) -> None:
        """Something else has collected it, and its number may be a stranger's: it gets no signal any more."""
        self._is_reaped = True

    def end_group(self) -> None:
        """Ends the group, which has got its SIGTERM: grace, then SIGKILL until no member is left."""
        grace_over = time.monotonic() + KILL_GRACE
        pause = _FIRST_PAUSE
        while self._is_populated():
            if time.monotonic() >= grace_over:
                self.signal(signal.SIGKILL)
            time.sleep(pause)
            pause = min(pause * 2, _LONGEST_PAUSE)
        # One that was being forked when the last signal came is met by this one.
        self.signal(signal.SIGKILL)
        if not self._is_reaped:
            self.reap()

    def _is_populated(self) -> bool:
        try:
            if self.exit() is None:
                return True
        except OSError:
            self.forget()
            return False
        return _has_living(self._child.pid)

    def __enter__(self) -> _Leader:
        return self

    def __exit__(self, *_: object) -> None:
        if self.event is not None:
            os.close(self.event)
        if not self._is_reaped:
            self.signal(signal.SIGKILL)
            self.reap()


class _Pump:
    """Writes the payload and reads both outputs, all at once: a child that writes before it has read everything blocks
    neither side. Its pipes stay open until the group is gone: a program that says something while it cleans up after
    SIGTERM would else die of SIGPIPE."""

    def __init__(self, child: subprocess.Popen[bytes], payload: bytes, cap: int) -> None:
        self._child = child
        self._left = memoryview(payload)
        self._outputs = (_Captured(cap), _Captured(cap))
        self._selector = selectors.DefaultSelector()
        self._watched: list[int] = []
        self._open = 0
        for pipe, output in zip((child.stdout, child.stderr), self._outputs, strict=True):
            if pipe is not None:
                os.set_blocking(pipe.fileno(), False)
                self._selector.register(pipe, selectors.EVENT_READ, output)
                self._open += 1
        if child.stdin is not None:
            if payload:
                os.set_blocking(child.stdin.fileno(), False)
                self._selector.register(child.stdin, selectors.EVENT_WRITE)
                self._open += 1
            else:
                child.stdin.close()

    def watch(self, event: int | None, cancel: Cancel) -> None:
        """Wakes `step` for these too."""
        self._watched = [cancel.fileno()] if event is None else [event, cancel.fileno()]
        for descriptor in self._watched:
            self._selector.register(descriptor, selectors.EVENT_READ)

    def unwatch(self) -> None:
        """Wakes `step` for the pipes alone."""
        for descriptor in self._watched:
            self._selector.unregister(descriptor)
        self._watched = []

    def step(self, timeout: float) -> bool:
        """Moves what can be moved now, or waits for it. Whether a pipe moved."""
        moved = False
        for key, _ in self._selector.select(timeout):
            if isinstance(key.data, _Captured):
                self._read(key.fd, key.data)
                moved = True
            elif self._child.stdin is not None and key.fileobj is self._child.stdin:
                self._write(key.fd)
                moved = True
        return moved

    def until(self, end: float) -> None:
        """Moves the rest, until everything is at its end or time is over. What is in the pipes already is read in any
        case: it was written before the leader exited."""
        while self._open:
            left = end - time.monotonic()
            if not self.step(max(left, 0)) and left <= 0:
                break

    def finished(self, end: End, number: int, why: str, elapsed: float) -> Finished:
        """The result, with what came until now."""
        stdout, stderr = self._outputs
        truncated = stdout.truncated or stderr.truncated
        return Finished(end, number, why, bytes(stdout.content), bytes(stderr.content), truncated, elapsed)

    def _read(self, descriptor: int, output: _Captured) -> None:
        try:
            chunk = os.read(descriptor, _CHUNK)
        except BlockingIOError:
            return
        except OSError:
            chunk = b""
        if chunk:
            output.keep(chunk)
        else:
            self._selector.unregister(descriptor)
            self._open -= 1

    def _write(self, descriptor: int) -> None:
        try:
            self._left = self._left[os.write(descriptor, self._left[:_CHUNK]) :]
        except BlockingIOError:
            return
        except OSError:
            # A child need not read its stdin: one that closes it, or ends first, does so without fault.
            self._left = self._left[:0]
        if not self._left and self._child.stdin is not None:
            self._selector.unregister(descriptor)
            self._open -= 1
            self._child.stdin.close()

    def __enter__(self) -> _Pump:
        return self

    def __exit__(self, *_: object) -> None:
        self._selector.close()
        for pipe in (self._child.stdin, self._child.stdout, self._child.stderr):
            if pipe is not None:
                pipe.close()


def _has_living(group: int) -> bool:
    """Whether a group has a living member. Its leader must be unreaped, and counts only while it is alive."""
    if not os.path.isdir("/proc/self"):
        try:
            os.killpg(group, 0)
        except OSError:
            return False
        return True
    living = False
    for entry in os.listdir("/proc"):
        member = _member(entry) if entry.isdigit() else None
        if member is None or member[2] != group:
            continue
        state, parent, _ = member
        if state not in "ZX":
            living = True
        elif parent == os.getpid() and int(entry) != group:
            # This process is the first of its machine, and got someone else's child.
            with contextlib.suppress(OSError):
                os.waitpid(int(entry), os.WNOHANG)
    return living


def _member(pid: str) -> tuple[str, int, int] | None:
    """State, parent and group of a process."""
    try:
        with open(f"/proc/{pid}/stat", "rb") as file:
            # After the name, which may hold anything.
            fields = file.read().rpartition(b")")[2].split()
        return fields[0].decode(), int(fields[1]), int(fields[2])
    except (OSError, IndexError, ValueError):
        return None
