//! Names of tools: others that a tool answers to, and those that a matcher can mean.

use hookd_condition::RENAMED_TOOLS;

/// Tools of Codex, whose files are read like Claude Code's, with the names that its matchers have for them too.
const CODEX: [&[&str]; 2] = [&["apply_patch", "Edit", "Write"], &["spawn_agent", "Agent", "Task"]];

/// Tools that Claude Code has or had, less those of [`RENAMED_TOOLS`]. The list is not complete and never will be: it only
/// tells what a pattern may have been meant for, never what it matches.
const TOOLS: [&str; 38] = [
    "AskUserQuestion",
    "Bash",
    "BashOutput",
    "CronCreate",
    "CronDelete",
    "CronList",
    "Edit",
    "EndConversation",
    "EnterPlanMode",
    "EnterWorktree",
    "ExitPlanMode",
    "ExitWorktree",
    "Glob",
    "Grep",
    "LS",
    "LSP",
    "Monitor",
    "MultiEdit",
    "NotebookEdit",
    "NotebookRead",
    "PowerShell",
    "Read",
    "Skill",
    "SlashCommand",
    "TaskCreate",
    "TaskGet",
    "TaskList",
    "TaskOutput",
    "TaskUpdate",
    "TodoRead",
    "TodoWrite",
    "ToolSearch",
    "WebFetch",
    "WebSearch",
    "Workflow",
    "Write",
    "SendMessage",
    "TeamCreate",
];

/// Every name that the tool `name` answers to, its own included. `None`: it has no other.
pub(crate) fn names_of(name: &str) -> Option<&'static [&'static str]> {
    let codex = CODEX.iter().copied().find(|names| names.first() == Some(&name));
    codex.or_else(|| RENAMED_TOOLS.iter().copied().find(|names| names.contains(&name)))
}

/// The other tools that answer to `name`.
pub(super) fn answering(name: &str) -> Vec<&'static str> {
    let renamed = RENAMED_TOOLS.iter().copied().find(|names| names.contains(&name)).unwrap_or_default();
    let codex = CODEX.iter().filter(|names| names.contains(&name)).filter_map(|names| names.first());
    renamed.iter().chain(codex).copied().collect()
}

/// Every tool that answers to more names than its own.
pub(crate) fn renamed() -> impl Iterator<Item = &'static str> {
    let codex = CODEX.iter().filter_map(|names| names.first());
    RENAMED_TOOLS.iter().flat_map(|names| names.iter()).chain(codex).copied()
}

/// The tools that this list knows, by all of their names.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter().chain(RENAMED_TOOLS.iter().flat_map(|names| names.iter().copied()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_name_stands_in_the_lists_once() {
        let mut names = known().collect::<Vec<_>>();
        names.sort_unstable();
        let all = names.len();
        names.dedup();
        assert_eq!(names.len(), all);
    }

    #[test]
    fn tools_that_answer_to_a_name_have_it() {
        for name in known().chain(["apply_patch", "spawn_agent", "other"]) {
            for tool in answering(name) {
                assert!(names_of(tool).unwrap().contains(&name), "{tool} answers to {name}");
            }
        }
        assert_eq!(answering("Task"), ["Agent", "Task", "spawn_agent"]);
        assert_eq!(answering("Edit"), ["apply_patch"]);
    }

    #[test]
    fn renamed_tools_answer_to_all_of_their_names() {
        assert_eq!(names_of("KillShell"), Some(&["TaskStop", "KillShell", "KillBash"][..]));
        assert_eq!(names_of("Agent"), names_of("Task"));
        assert_eq!(names_of("Bash"), None);
    }
}
