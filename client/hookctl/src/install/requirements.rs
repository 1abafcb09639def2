//! The entries in Codex's `requirements.toml`: put in, brought up to date, taken out. All else stays as it is.

use std::path::Path;

use hookd_json::{Map, Value};
use toml_edit::{ArrayOfTables, DocumentMut, Item, Table, TableLike, value};

use crate::install::entry::{Wish, asks_as};

/// What marks a key that install has put in besides the entries.
const MARK: &str = " # hookctl install";

/// The text after the change. `None`: there is no need for the file any more.
///
/// # Errors
/// One line: it is not a file that entries can be put into.
pub(super) fn changed(before: Option<&str>, wish: &Wish, remove: bool) -> Result<Option<String>, String> {
    let mut file = before.unwrap_or_default().parse::<DocumentMut>().map_err(|error| {
        let text = error.to_string();
        format!(
            "it is not TOML: {}",
            text.lines().map(str::trim).filter(|line| !line.is_empty()).collect::<Vec<_>>().join(" ")
        )
    })?;
    let wanted = if remove { Vec::new() } else { wish.entries() };
    let mut touched = false;
    if !remove {
        let features = table(file.as_table_mut(), "features", "`features`")?;
        match features.get("hooks").map(Item::as_bool) {
            None => put(features, "hooks", value(true)),
            Some(Some(true)) => {}
            Some(_) => return Err("`features.hooks` is not true, so no hook of this file would run; set it".to_owned()),
        }
        let hooks = table(file.as_table_mut(), "hooks", "`hooks`")?;
        if hooks.get("managed_dir").is_none() {
            let folder = Path::new(&wish.program).parent().and_then(Path::to_str).unwrap_or("/");
            put(hooks, "managed_dir", value(folder));
        }
    }
    if let Some(hooks) = file.get_mut("hooks").and_then(Item::as_table_like_mut) {
        let events = hooks.iter().map(|(event, _)| event.to_owned()).collect::<Vec<_>>();
        for event in events {
            let entry = wanted.iter().find(|(name, _)| *name == event).map(|(_, entry)| entry);
            let groups = match hooks.get_mut(&event).map(|item| (item.type_name(), item.as_array_of_tables_mut())) {
                Some((_, Some(groups))) => groups,
                Some((kind, None)) if entry.is_some() => {
                    return Err(format!("`hooks.{event}` is of type {kind}, expected tables `[[hooks.{event}]]`"));
                }
                _ => continue,
            };
            touched |= settle(groups, wish, entry);
            if groups.is_empty() {
                hooks.remove(&event);
            }
        }
        for (event, entry) in wanted.iter().filter(|(event, _)| hooks.get(event).is_none()).collect::<Vec<_>>() {
            let mut groups = ArrayOfTables::new();
            groups.push(group(entry));
            hooks.insert(event, Item::ArrayOfTables(groups));
        }
    }
    if remove && touched {
        take_out_marked(file.as_table_mut(), "features", "hooks");
        take_out_marked(file.as_table_mut(), "hooks", "managed_dir");
    }
    let text = file.to_string();
    let is_spent = remove && touched && text.trim().is_empty();
    Ok((!is_spent).then_some(text))
}

/// Brings the groups of an event to where hookctl's is the one that is wanted, and says whether one was taken out.
fn settle(groups: &mut ArrayOfTables, wish: &Wish, wanted: Option<&Value>) -> bool {
    let asks = |handler: &Table| asks_as(&plain(handler)) == Some(wish.agent);
    let mut touched = false;
    let mut is_there = false;
    for index in (0..groups.len()).rev() {
        let Some(found) = groups.get_mut(index) else { continue };
        let Some(handlers) = found.get_mut("hooks").and_then(Item::as_array_of_tables_mut) else { continue };
        if !handlers.iter().any(asks) {
            continue;
        }
        let is_whole = handlers.iter().all(asks);
        if !is_whole {
            handlers.retain(|handler| !asks(handler));
            touched = true;
        } else if !is_there && wanted.is_some_and(|wanted| plain(found) == *wanted) {
            is_there = true;
        } else {
            groups.remove(index);
            touched = true;
        }
    }
    if let Some(wanted) = wanted.filter(|_| !is_there) {
        groups.push(group(wanted));
    }
    touched
}

/// The table at `key`, made where there is none.
fn table<'t>(file: &'t mut Table, key: &str, shown: &str) -> Result<&'t mut dyn TableLike, String> {
    let item = file.entry(key).or_insert_with(|| Item::Table(Table::new()));
    let kind = item.type_name();
    item.as_table_like_mut().ok_or_else(|| format!("{shown} is of type {kind}, expected a table"))
}

fn put(table: &mut dyn TableLike, key: &str, mut item: Item) {
    if let Some(value) = item.as_value_mut() {
        value.decor_mut().set_suffix(MARK);
    }
    table.insert(key, item);
}

/// Takes out a key that install has put in, and its table where nothing else is in it.
fn take_out_marked(file: &mut Table, key: &str, inner: &str) {
    let Some(table) = file.get_mut(key).and_then(Item::as_table_like_mut) else { return };
    let suffix = |item: &Item| item.as_value()?.decor().suffix()?.as_str().map(str::to_owned);
    if table.get(inner).and_then(suffix).as_deref() == Some(MARK) {
        table.remove(inner);
    }
    if table.is_empty() {
        file.remove(key);
    }
}

/// A group of one handler, as a table of its own.
fn group(entry: &Value) -> Table {
    let mut handlers = ArrayOfTables::new();
    for handler in entry.get("hooks").and_then(Value::as_array).into_iter().flatten() {
        let mut table = Table::new();
        for (key, member) in handler.as_object().into_iter().flatten() {
            match (member.as_str(), member.as_i64()) {
                (Some(text), _) => drop(table.insert(key, value(text))),
                (None, Some(number)) => drop(table.insert(key, value(number))),
                (None, None) => {}
            }
        }
        handlers.push(table);
    }
    let mut group = Table::new();
    group.insert("hooks", Item::ArrayOfTables(handlers));
    group
}

/// The table as JSON, as far as entries go.
fn plain(table: &Table) -> Value {
    let member = |item: &Item| match item {
        Item::ArrayOfTables(tables) => Value::Array(tables.iter().map(plain).collect()),
        item => match (item.as_str(), item.as_integer()) {
            (Some(text), _) => Value::from(text),
            (None, Some(number)) => Value::from(number),
            (None, None) => Value::Null,
        },
    };
    Value::Object(table.iter().map(|(key, item)| (key.to_owned(), member(item))).collect::<Map<_, _>>())
}
