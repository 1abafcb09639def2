//! Names of tools: former ones that still count, and those that a matcher can mean.

/// Tools that were renamed, each with all of its names, the one of today first. The caller's name stays in the payload;
/// a matcher on any of them matches the others.
const RENAMED: [&[&str]; 8] = [
    &["Agent", "Task"],
    &["TaskStop", "KillShell", "KillBash"],
    &["ListAgents", "ListPeers"],
    &["SendUserMessage", "Brief"],
    &["ListMcpResourcesTool", "ListMcpResources"],
    &["ReadMcpResourceTool", "ReadMcpResource"],
    &["ReadMcpResourceDirTool", "ReadMcpResourceDir"],
    &["SetGoal", "ProposeGoal"],
];

/// Tools that Claude Code has or had, less those of [`RENAMED`]. The list is not complete and never will be: it only
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

/// Every name of the tool `name`: more than one where it was renamed.
pub(crate) fn names_of(name: &str) -> Option<&'static [&'static str]> {
    RENAMED.iter().copied().find(|names| names.contains(&name))
}

/// The tools that this list knows, by all of their names.
pub(super) fn known() -> impl Iterator<Item = &'static str> {
    TOOLS.into_iter().chain(RENAMED.iter().flat_map(|names| names.iter().copied()))
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
    fn renamed_tools_answer_to_all_of_their_names() {
        assert_eq!(names_of("KillShell"), Some(&["TaskStop", "KillShell", "KillBash"][..]));
        assert_eq!(names_of("Agent"), names_of("Task"));
        assert_eq!(names_of("Bash"), None);
    }
}
