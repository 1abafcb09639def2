//! How values of settings are written, and a tree of them as YAML.

use std::time::Duration;

use hookd_json::Value;
/// A tree as block YAML; lists of scalars and of small tables stand on one line.
pub(super) fn yaml(tree: &Value) -> String {
    let mut out = String::new();
    write_table(&mut out, tree, 0);
    out
}

pub(super) fn duration(duration: Duration) -> String {
    humantime::format_duration(duration).to_string()
}

pub(super) fn size(bytes: usize) -> String {
    let units = [("GiB", 30_u32), ("MiB", 20), ("KiB", 10)];
    let whole = units.into_iter().find(|(_, shift)| bytes.trailing_zeros() >= *shift && bytes >> shift > 0);
    whole.map_or_else(|| bytes.to_string(), |(unit, shift)| format!("{}{unit}", bytes >> shift))
}

fn write_table(out: &mut String, tree: &Value, depth: usize) {
    let Value::Object(table) = tree else { return };
    for (key, value) in table {
        out.push_str(&"  ".repeat(depth));
        out.push_str(key);
        out.push(':');
        match value {
            // Keys of the user's own stand on one line.
            Value::Object(_) if key != "labels" => {
                out.push('\n');
                write_table(out, value, depth.saturating_add(1));
            }
            // JSON is YAML as well.
            _ => {
                out.push(' ');
                out.push_str(&value.to_string());
                out.push('\n');
            }
        }
    }
}
