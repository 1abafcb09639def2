//! What commands count on that only the run of a hook can tell: the project's directory, the plugin's.

use std::path::Path;

use crate::{CommandHandler, Handler, Program, Rule, Tier};

/// The directory of the plugin that the hooks in `file` belong to: the one above its `hooks/hooks.json`, or above the
/// manifest in `.claude-plugin/`; in tier plugin the one of the file, whatever its name. `None`: it is no plugin's file, as
/// far as its path tells. Looks at nothing on the disk.
///
/// It is what `CLAUDE_PLUGIN_ROOT` stands for.
#[must_use]
pub fn plugin_root(tier: Tier, file: &Path) -> Option<&Path> {
    let folder = file.parent()?;
    let is = |folder_name, file_name| folder.ends_with(folder_name) && file.ends_with(file_name);
    let is_plugins = tier == Tier::Plugin || is("hooks", "hooks.json") || is(".claude-plugin", "plugin.json");
    let is_inside = folder.ends_with("hooks") || folder.ends_with(".claude-plugin");
    let root = if is_inside { folder.parent()? } else { folder };
    is_plugins.then_some(root)
}

/// The names in `${…}` in a word of a command without a shell that nothing is put in for, and which therefore stay as
/// they are.
pub(super) fn left(word: &str) -> Vec<&str> {
    let mut names =
        word.split("${").skip(1).filter_map(|rest| rest.split_once('}')).map(|(name, _)| name).collect::<Vec<_>>();
    names.retain(|name| !matches!(*name, "CLAUDE_PROJECT_DIR" | "CLAUDE_PLUGIN_ROOT" | "CLAUDE_PLUGIN_DATA"));
    names
}

/// Whether the command of the rule counts on the directory of a plugin.
pub(super) fn needs_root(rule: &Rule) -> bool {
    let Handler::Command(CommandHandler { program, .. }) = &rule.handler else { return false };
    let needs = |text: &String| text.contains("CLAUDE_PLUGIN_ROOT");
    match program {
        Program::Shell(_, line) => needs(line),
        Program::Argv(words) => words.iter().any(needs),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_plugin_is_told_by_the_path() {
        for (tier, file, root) in [
            (Tier::Managed, "/p/hooks/hooks.json", Some("/p")),
            (Tier::Shared, "/p/.claude-plugin/plugin.json", Some("/p")),
            (Tier::Shared, "/p/hooks/other.json", None),
            (Tier::Shared, "/p/.claude/settings.json", None),
            (Tier::Shared, "hooks.json", None),
            (Tier::Plugin, "/p/my.json", Some("/p")),
            (Tier::Plugin, "/p/hooks/my.json", Some("/p")),
        ] {
            assert_eq!(plugin_root(tier, Path::new(file)), root.map(Path::new), "{file}");
        }
    }

    #[test]
    fn placeholders_that_stand_for_nothing_are_found() {
        for (word, names) in [
            ("${CLAUDE_PLUGIN_ROOT}/${CLAUDE_PROJECT_DIR}/${CLAUDE_PLUGIN_DATA}", &[][..]),
            ("${A:-b}/${user_config.k}", &["A:-b", "user_config.k"]),
            ("$HOME {} ${open", &[]),
        ] {
            assert_eq!(left(word), names, "{word}");
        }
    }
}
