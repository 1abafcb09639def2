"""Events as requests."""

from __future__ import annotations

import enum
import time
from collections.abc import Iterable, Mapping
from datetime import timedelta

from hookd import v1
from hookd._call_error import CallError, refused_here
from hookd._json import Json, object_text, to_text
from hookd.v1 import hook_service_pb2 as pb


class Capability(enum.IntEnum):
    """One decision that an agent may or may not be able to carry out."""

    ASK = pb.CAPABILITY_ASK
    """Can ask a person."""
    DEFER = pb.CAPABILITY_DEFER
    """Can suspend the call until someone decides outside."""
    BLOCK = pb.CAPABILITY_BLOCK
    """Can keep the call (or prompt, or stop) from happening."""
    MODIFY_PARAMS = pb.CAPABILITY_MODIFY_PARAMS
    """Can run the tool with other parameters."""
    MODIFY_RESULT = pb.CAPABILITY_MODIFY_RESULT
    """Can show the model another result."""
    ADDITIONAL_CONTEXT = pb.CAPABILITY_ADDITIONAL_CONTEXT
    """Can give the model additional context."""
    HALT = pb.CAPABILITY_HALT
    """Can stop the agent."""
    FORCE_CONTINUE = pb.CAPABILITY_FORCE_CONTINUE
    """Can make an agent that wants to stop go on."""


class Absent(enum.Enum):
    """What is not there; `None` is a value in JSON."""

    ABSENT = enum.auto()


ABSENT = Absent.ABSENT

Params = str | Json | Mapping[str, object]
"""Parameters as callers give them: a value, or the text of a JSON object."""


def new_template(
    id: str,
    cwd: str,
    model: str,
    permission_mode: str,
    transcript_path: str,
    workspace_roots: Iterable[str],
    caller: v1.Caller | None,
    capabilities: Iterable[int] | None,
) -> v1.TriggerRequest:
    """What goes with each event of a session."""
    template = v1.TriggerRequest(
        session_id=id,
        cwd=cwd,
        model=model,
        permission_mode=permission_mode,
        transcript_path=transcript_path,
        workspace_roots=workspace_roots,
        caller=caller,
    )
    if capabilities is not None:
        template.capabilities.SetInParent()
        template.capabilities.supported.extend(pb.Capability.ValueType(number) for number in capabilities)
    return template


def new_request(
    template: v1.TriggerRequest,
    event: str,
    payload: Params | None = None,
    tool: str | None = None,
    params: Params | None = None,
    result: object = ABSENT,
    error: str | None = None,
    tool_use_id: str = "",
    elapsed: timedelta | None = None,
) -> v1.TriggerRequest | CallError:
    """An event with what goes with it and the time of the call, or why it cannot be said."""
    request = v1.TriggerRequest()
    request.CopyFrom(template)
    what = "the event"
    try:
        request.event = event
        if not request.HasField("timestamp"):
            request.timestamp.seconds, request.timestamp.nanos = divmod(time.time_ns(), 1_000_000_000)
        if payload is not None:
            what = "the payload"
            request.payload_json = object_text(payload)
        if tool is not None:
            call = request.tool_call
            what = "the tool"
            call.tool, call.tool_use_id = tool, tool_use_id
            if params is not None:
                what = "the parameters"
                call.params_json = object_text(params)
            if result is not ABSENT:
                what = "the result"
                call.result_json = to_text(result)
            if error is not None:
                what = "the error"
                call.error = error
            if elapsed is not None:
                what = "the time that the tool took"
                call.elapsed.FromTimedelta(elapsed)
    except ValueError as problem:
        return refused_here(f"{what} cannot be sent to hookd: {problem}")
    return request
