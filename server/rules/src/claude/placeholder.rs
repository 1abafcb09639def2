//! `${…}` where no shell puts anything in.

use std::path::Path;

/// The directory of the plugin that the hooks in `file` belong to: the one above its `hooks/hooks.json`, or above the
/// manifest in `.claude-plugin/`. `None`: it is no plugin's file, as far as its path tells. Looks at nothing on the disk.
///
/// It is what `CLAUDE_PLUGIN_ROOT` stands for.
#[must_use]
pub fn plugin_root(file: &Path) -> Option<&Path> {
    let directory = file.parent()?;
    let name = directory.file_name()?;
    let is_hooks = name == "hooks" && file.file_name()? == "hooks.json";
    let is_manifest = name == ".claude-plugin";
    directory.parent().filter(|_| is_hooks || is_manifest)
}

/// `${CLAUDE_PROJECT_DIR}`: known only when a call comes.
const PROJECT_DIR: &str = "CLAUDE_PROJECT_DIR";
const PLUGIN_ROOT: &str = "CLAUDE_PLUGIN_ROOT";

/// `word` of a command without a shell, the plugin's root put in where it is known; and the placeholders in it that
/// nothing is put in for. The project's directory is put in at run time.
pub(super) fn expand(word: &str, root: Option<&Path>) -> (String, Vec<String>) {
    let root = root.and_then(Path::to_str);
    let (mut expanded, mut left) = (String::new(), Vec::new());
    let mut rest = word;
    while let Some((before, after)) = rest.split_once("${") {
        expanded.push_str(before);
        let Some((name, after)) = after.split_once('}') else {
            expanded.push_str("${");
            rest = after;
            continue;
        };
        match root {
            Some(root) if name == PLUGIN_ROOT => expanded.push_str(root),
            _ => {
                if name != PROJECT_DIR {
                    left.push(format!("${{{name}}}"));
                }
                expanded.push_str(&format!("${{{name}}}"));
            }
        }
        rest = after;
    }
    expanded.push_str(rest);
    (expanded, left)
}

/// Whether the text of a command counts on the plugin's root.
pub(super) fn needs_root(text: &str) -> bool {
    text.contains(PLUGIN_ROOT)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_root_of_a_plugin_is_told_by_the_path() {
        for (file, root) in [
            ("/p/hooks/hooks.json", Some("/p")),
            ("/p/.claude-plugin/plugin.json", Some("/p")),
            ("/p/hooks/other.json", None),
            ("/p/.claude/settings.json", None),
            ("hooks.json", None),
        ] {
            assert_eq!(plugin_root(Path::new(file)), root.map(Path::new), "{file}");
        }
    }

    #[test]
    fn placeholders_are_put_in_where_they_are_known() {
        for (word, root, expected, left) in [
            ("${CLAUDE_PLUGIN_ROOT}/a b.sh", Some("/p"), "/p/a b.sh", &[][..]),
            ("${CLAUDE_PLUGIN_ROOT}/x", None, "${CLAUDE_PLUGIN_ROOT}/x", &["${CLAUDE_PLUGIN_ROOT}"]),
            ("${CLAUDE_PROJECT_DIR}/x", Some("/p"), "${CLAUDE_PROJECT_DIR}/x", &[]),
            ("${A:-b}/${user_config.k}", Some("/p"), "${A:-b}/${user_config.k}", &["${A:-b}", "${user_config.k}"]),
            ("${open", Some("/p"), "${open", &[]),
            ("$HOME {}", Some("/p"), "$HOME {}", &[]),
        ] {
            let left = left.iter().map(|&name| name.to_owned()).collect::<Vec<_>>();
            assert_eq!(expand(word, root.map(Path::new)), (expected.to_owned(), left), "{word}");
        }
    }
}
