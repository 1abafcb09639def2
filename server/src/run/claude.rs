//! Claude Code's protocol: what handlers of its hook files read, and mean by their exit code and output (what they find
//! in their environment stands in `hookd_rules`, since callers run commands too). Rules speak it that stand in such a
//! file or say `protocol: claude-code`.
//!
//! That agent's contract says what an answer *means*; the laws combine answers and judge failures. Where the two meet:
//!
//! - Exit 2 blocks, or is feedback or recorded where the event cannot block. What the program printed can add to it
//!   (context, a message, a halt) and never lessen it. It blocks a `PermissionRequest` too: the contract's texts
//!   disagree there, and a denial is not lost.
//! - Another code is a failure (law 7) unless an object was printed: then that decides, as the contract has it. A rule
//!   whose failures block takes only what restricts from such a run.
//! - What starts with `{` and is broken, has a key of a wrong type or an unknown word is a failure, never plain text.
//! - A key that would decide and stands in the wrong place is a failure, not silence.

mod exit;
mod input;
mod output;

pub(super) use exit::exited;
pub(super) use input::write;
pub(super) use output::parse;

/// Events on which plain output is context for the model.
const CONTEXT_EVENTS: [&str; 4] = ["SessionStart", "UserPromptSubmit", "UserPromptExpansion", "PostModelSwitch"];

/// Here any exit code but 0 keeps the thing from being done, and the last line of a plain output is its path.
const WORKTREE_CREATE: &str = "WorktreeCreate";
