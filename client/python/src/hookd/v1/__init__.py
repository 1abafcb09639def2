"""The messages of the wire contract, `hookd.v1`, as `protoc` generates them."""

from hookd.v1.hook_service_pb2 import (
    Caller,
    CommandResult,
    DecidedBy,
    Downgrade,
    HookResult,
    Note,
    Rewrite,
    RunCommand,
    StreamStart,
    ToolCall,
    TriggerRequest,
    TriggerResponse,
    TriggerStreamRequest,
    TriggerStreamResponse,
)

__all__ = [
    "Caller",
    "CommandResult",
    "DecidedBy",
    "Downgrade",
    "HookResult",
    "Note",
    "Rewrite",
    "RunCommand",
    "StreamStart",
    "ToolCall",
    "TriggerRequest",
    "TriggerResponse",
    "TriggerStreamRequest",
    "TriggerStreamResponse",
]
