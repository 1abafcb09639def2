//! Plugins of Claude Code: which are installed says `~/.claude/plugins/installed_plugins.json`, which are switched on the
//! person's settings.

use std::path::{Path, PathBuf};

use hookd_json::{Map, Value};

use crate::owned::read_owned;

const INSTALLED: &str = ".claude/plugins/installed_plugins.json";
const SETTINGS: &str = ".claude/settings.json";
const HOOKS: &str = "hooks/hooks.json";

/// The hook files of the plugins that are installed for this project and switched on, by the plugins' names; whether they
/// are there or not. What a project's settings switch on does not count: they are the repository's.
pub(super) fn hook_files(home: &Path, project: Option<&Path>, left_out: &mut Vec<String>) -> Vec<PathBuf> {
    let mut read = |path: &str| {
        object(&home.join(path)).unwrap_or_else(|why| {
            left_out.push(why);
            Map::new()
        })
    };
    let settings = read(SETTINGS);
    let Some(Value::Object(switches)) = settings.get("enabledPlugins") else { return Vec::new() };
    let installed = read(INSTALLED);
    let Some(Value::Object(installed)) = installed.get("plugins") else { return Vec::new() };
    let mut on = switches.iter().filter(|(_, on)| **on == Value::Bool(true)).map(|(name, _)| name).collect::<Vec<_>>();
    on.sort();
    on.into_iter().filter_map(|name| root(installed.get(name)?, project)).map(|root| root.join(HOOKS)).collect()
}

/// Where the plugin lies: as it is installed for this project, else for the person.
fn root(installed: &Value, project: Option<&Path>) -> Option<PathBuf> {
    // One entry, or one per scope.
    let entries = installed.as_array().map_or(std::slice::from_ref(installed), Vec::as_slice);
    let of_project = entries.iter().find(|entry| {
        let path = entry.get("projectPath").and_then(Value::as_str);
        project.is_some() && path.map(Path::new) == project
    });
    let of_person = entries.iter().find(|entry| entry.get("projectPath").is_none());
    let root = of_project.or(of_person)?.get("installPath")?.as_str().map(PathBuf::from)?;
    root.is_absolute().then_some(root)
}

fn object(path: &Path) -> Result<Map<String, Value>, String> {
    let Some(read) = read_owned(path)? else { return Ok(Map::new()) };
    let text = str::from_utf8(&read.bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
    match hookd_json::parse(text) {
        Ok(Value::Object(object)) => Ok(object),
        Ok(_) => Err(format!("{} is not an object", path.display())),
        Err(error) => Err(format!("{}: {error}", path.display())),
    }
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    #[test]
    fn plugins_count_where_they_are_installed_and_switched_on() {
        let home = tempfile::tempdir().unwrap();
        let write = |path: &str, text: &str| {
            let path = home.path().join(path);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, text).unwrap();
        };
        let found = |project: Option<&str>| {
            let mut left_out = Vec::new();
            let files = hook_files(home.path(), project.map(Path::new), &mut left_out);
            (files, left_out)
        };
        assert_eq!(found(None), (Vec::new(), Vec::new()));
        write(SETTINGS, r#"{"enabledPlugins":{"z@m":true,"a@m":true,"off@m":false,"odd@m":"yes","gone@m":true}}"#);
        write(
            INSTALLED,
            r#"{"version":2,"plugins":{
                "z@m":{"installPath":"/plugins/z"},
                "a@m":[{"scope":"project","projectPath":"/p","installPath":"/plugins/a/1"},
                       {"scope":"user","installPath":"/plugins/a/2"}],
                "off@m":[{"installPath":"/plugins/off"}],
                "odd@m":[{"installPath":"/plugins/odd"}],
                "never@m":[{"installPath":"/plugins/never"}]}}"#,
        );
        let files = |paths: [&str; 2]| (paths.map(PathBuf::from).to_vec(), Vec::<String>::new());
        assert_eq!(found(None), files(["/plugins/a/2/hooks/hooks.json", "/plugins/z/hooks/hooks.json"]));
        assert_eq!(found(Some("/q")), files(["/plugins/a/2/hooks/hooks.json", "/plugins/z/hooks/hooks.json"]));
        assert_eq!(found(Some("/p")), files(["/plugins/a/1/hooks/hooks.json", "/plugins/z/hooks/hooks.json"]));
        write(INSTALLED, "{");
        assert_eq!(found(None).0, Vec::<PathBuf>::new());
        assert_eq!(found(None).1.len(), 1);
    }
}
