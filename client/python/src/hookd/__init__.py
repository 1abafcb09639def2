"""The Python client of hookd.

An agent asks at every point of its life whether anyone wants to step in, and does what the `Gate` says. Read in this
order: `Gate` and its cases, which is what an agent acts on; `OnUnavailable`, which says what happens where hookd cannot be
asked; `Client` and `Session`, or `AsyncClient` and `AsyncSession`; `CallError`. `hookd.commands` runs commands of rule
files that the agent brings along; `hookd.v1` has the messages of the wire.
"""

from hookd._address import AddressError
from hookd._async_client import AsyncClient
from hookd._async_session import AsyncSession
from hookd._call_error import CallError, CallErrorKind
from hookd._client import Client
from hookd._gate import (
    Ask,
    Continue,
    Decision,
    Gate,
    Halt,
    HookResult,
    OnUnavailable,
    Refuse,
    Run,
    Suspend,
    gate_of_answer,
)
from hookd._json import Json
from hookd._request import Capability
from hookd._session import Session
from hookd._tools import AgentHalted, AsyncToolCall, ToolCall, ToolFeedback, ToolRefused, ToolStopped, ToolSuspended
from hookd._transport import Tls
from hookd._version import __version__
from hookd.v1 import Caller

__all__ = [
    "AddressError",
    "AgentHalted",
    "Ask",
    "AsyncClient",
    "AsyncSession",
    "AsyncToolCall",
    "CallError",
    "CallErrorKind",
    "Caller",
    "Capability",
    "Client",
    "Continue",
    "Decision",
    "Gate",
    "Halt",
    "HookResult",
    "Json",
    "OnUnavailable",
    "Refuse",
    "Run",
    "Session",
    "Suspend",
    "Tls",
    "ToolCall",
    "ToolFeedback",
    "ToolRefused",
    "ToolStopped",
    "ToolSuspended",
    "__version__",
    "gate_of_answer",
]
