"""What a client has to know of events: what a BLOCK does on each."""

from __future__ import annotations

import enum


class Block(enum.Enum):
    """What a BLOCK means on an event."""

    PREVENTS = enum.auto()
    """It keeps something from being done."""
    PREVENTS_STOP = enum.auto()
    """It keeps the agent from stopping."""
    FEEDBACK = enum.auto()
    """The reason goes to the model beside what has happened."""
    FEEDBACK_ON_RESULT = enum.auto()
    """The same, and the result that the model sees can be replaced."""
    RECORDED = enum.auto()
    """It is recorded only."""

    @staticmethod
    def on(event: str) -> Block:
        """What a BLOCK means on the event of this name. On one that is not known it prevents: the unknown never loses
        a denial."""
        return _BLOCKS.get(event, Block.PREVENTS)


_BLOCKS = {
    **dict.fromkeys(("Stop", "SubagentStop", "TaskCompleted", "TeammateIdle"), Block.PREVENTS_STOP),
    "PostToolUse": Block.FEEDBACK_ON_RESULT,
    "PostToolUseFailure": Block.FEEDBACK,
    **dict.fromkeys(
        (
            "PermissionDenied",
            "MessageDisplay",
            "SessionStart",
            "SessionEnd",
            "Setup",
            "InstructionsLoaded",
            "Notification",
            "StopFailure",
            "SubagentStart",
            "CwdChanged",
            "DirectoryAdded",
            "FileChanged",
            "WorktreeRemove",
            "PostCompact",
            "PostModelSwitch",
        ),
        Block.RECORDED,
    ),
}
