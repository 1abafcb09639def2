//! Settings files: any text is read or refused in lines that say what is wrong, and what is read can be printed and read
//! again.
#![no_main]

use std::{collections::BTreeMap, fs, path::PathBuf, process, sync::LazyLock};

use hookd::settings::{Origin, Settings, SettingsError};
use libfuzzer_sys::fuzz_target;

/// In memory where the system has such a place.
static FOLDER: LazyLock<PathBuf> = LazyLock::new(|| {
    let base = PathBuf::from("/dev/shm");
    let base = if base.is_dir() { base } else { std::env::temp_dir() };
    let folder = base.join(format!("hookd-fuzz-{}", process::id()));
    fs::create_dir_all(&folder).expect("a folder for the settings");
    folder
});

fn read(name: &str, text: &str) -> Result<Settings, SettingsError> {
    fs::write(FOLDER.join(name), text).expect("a settings file");
    let origin =
        Origin { file: Some(name.into()), environment: BTreeMap::new(), working_directory: FOLDER.to_path_buf() };
    Settings::read(&origin)
}

fuzz_target!(|text: &str| {
    for name in ["settings.yaml", "settings.json", "settings.toml"] {
        match read(name, text) {
            Ok(settings) => assert_eq!(read("printed.yaml", &settings.to_yaml()), Ok(settings), "{name}"),
            Err(SettingsError(lines)) => {
                assert!(!lines.is_empty(), "it says why");
                for line in lines {
                    assert!(!line.is_empty() && !line.contains('\n'), "one line: {line:?}");
                }
            }
        }
    }
});
