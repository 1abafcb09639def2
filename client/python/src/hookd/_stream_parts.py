"""What both clients share of calls in which this side runs commands."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import TYPE_CHECKING

from google.protobuf.message import DecodeError

from hookd import v1
from hookd._call_error import CallError, not_understood
from hookd._process import Cancel
from hookd.v1 import hook_service_pb2 as pb

if TYPE_CHECKING:
    from hookd.commands import AgentSide

# What hookd takes of one file and of all together, in bytes. Of larger ones it needs no content to refuse them.
_MAX_FILE_BYTES = 256 << 10
_MAX_FILES_BYTES = 1 << 20

NO_ANSWER = "the stream ended without one"
NO_END = "the stream goes on after it"


def start_of(request: v1.TriggerRequest, side: AgentSide) -> v1.TriggerStreamRequest:
    """How a stream begins."""
    offered = [
        pb.OfferedFile(sha256=file.sha256, tier=file.tier.value, path=file.path, format=file.format)
        for file in side.offers
    ]
    return v1.TriggerStreamRequest(start=v1.StreamStart(trigger=request, offered=offered))


class Attempt:
    """One attempt: what is said in it, and what runs in it."""

    def __init__(
        self,
        request: v1.TriggerRequest,
        side: AgentSide,
        timeout: float,
        say: Callable[[bytes], object],
        has_run: Callable[[], object],
    ) -> None:
        """`say` sends a message, from any thread; `has_run` is told when something runs: another attempt would run it
        again."""
        self._request = request
        self._side = side
        self._over = time.monotonic() + timeout
        self._say = say
        self._has_run = has_run
        self._running: dict[int, Cancel] = {}

    def hear(self, message: bytes) -> v1.TriggerResponse | CallError | None:
        """Does what hookd says. `None`: it says more."""
        try:
            came = v1.TriggerStreamResponse.FromString(message)
        except DecodeError as error:
            return not_understood(str(error))
        match came.WhichOneof("message"):
            case "response":
                return came.response
            case "need_files":
                self._send(v1.TriggerStreamRequest(files=self._files(came.need_files)))
            case "cancel_command":
                self._cancel(came.cancel_command.command_id)
            case "run_command":
                self._has_run()
                self._run(came.run_command)
            case _:
                return not_understood("a message that this client does not know")
        return None

    def end(self) -> None:
        """Nobody waits for what still runs."""
        for command_id in list(self._running):
            self._cancel(command_id)

    def _run(self, command: v1.RunCommand) -> None:
        try:
            if command.detached:
                self._side.start_detached(command, self._request)
                return
            cancel = self._running[command.command_id] = Cancel()
            self._side.start(command, self._request, self._over, cancel, self._ended)
        except (OSError, RuntimeError) as error:
            # No descriptors, no threads: the rule has failed, and its own policy says what that means.
            self._running.pop(command.command_id, None)
            why = f"there is nothing to run it with: {error}".encode()
            result = v1.CommandResult(command_id=command.command_id, failure=pb.FAILURE_INTERNAL, stderr=why)
            self._send(v1.TriggerStreamRequest(command_result=result))

    def _cancel(self, command_id: int) -> None:
        cancel = self._running.pop(command_id, None)
        if cancel is not None:
            cancel.set()

    def _ended(self, result: v1.CommandResult) -> None:
        # Of one that was cancelled nobody wants to hear.
        if self._running.pop(result.command_id, None) is not None:
            self._send(v1.TriggerStreamRequest(command_result=result))

    def _send(self, message: v1.TriggerStreamRequest) -> None:
        self._say(message.SerializeToString())

    def _files(self, need: pb.NeedFiles) -> pb.RuleFiles:
        """Those of the files that hookd does not know which were offered, as far as it takes them."""
        files = pb.RuleFiles()
        room, sent = _MAX_FILES_BYTES, set[str]()
        for file in self._side.offers:
            size = len(file.content)
            if file.sha256 in need.sha256 and file.sha256 not in sent and size <= min(_MAX_FILE_BYTES, room):
                room -= size
                sent.add(file.sha256)
                files.files.add(sha256=file.sha256, content=file.content)
        return files
