"""Every case of a gate has its place."""

from typing_extensions import assert_never

import hookd


def act(gate: hookd.Gate) -> str:
    match gate:
        case hookd.Run(params=params, approved=approved):
            return f"{params} {approved}"
        case hookd.Ask(reason=reason) | hookd.Suspend(reason=reason):
            return reason
        case hookd.Refuse(reason=reason):
            return reason
        case hookd.Continue(reason=reason):
            return reason
        case hookd.Halt(reason=reason):
            return reason
        case _:
            assert_never(gate)
