//! The entries in a JSON file: put in, brought up to date, taken out. All else stays as it is.

use hookd_agents::Agent;
use hookd_json::{Kind, Value};

use crate::install::{
    agents::{self, Form},
    entry::{Wish, asks_as},
    text::{Text, member, one_line},
};

/// The switch of Claude Code's managed settings that keeps the hooks of all other files from running.
pub(super) const TAKES_OVER: &str = "allowManagedHooksOnly";

/// What is to become of a file besides its entries.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Change {
    /// Take everything out.
    pub(super) remove: bool,
    /// The switch goes with the entries.
    pub(super) take_over: bool,
}

/// The text after the change. `None`: there is no need for the file any more.
///
/// # Errors
/// One line: it is not a file that entries can be put into.
pub(super) fn changed(before: Option<&str>, wish: &Wish, change: Change, name: &str) -> Result<Option<String>, String> {
    let fresh = fresh(wish, name);
    let text = Text::parse(before.filter(|text| !text.trim().is_empty()).unwrap_or(&fresh).to_owned())?;
    let is_object = |text: &Text, path: &[&str]| match text.kind(path) {
        None | Some(Kind::Object) => Ok(()),
        Some(kind) => Err(wrong(path, kind, "an object")),
    };
    is_object(&text, &[])?;
    let mut file = File { text, wish, change, touched: false };
    if wish.form == Form::Triggers {
        file.triggers()?;
    } else {
        is_object(&file.text, &["hooks"])?;
        file.events()?;
    }
    if change.take_over {
        file.switch()?;
    }
    file.only_this_agent()?;
    let is_spent = change.remove && file.touched && file.is_spent(&fresh);
    Ok((!is_spent).then(|| file.text.into_text()))
}

/// A file that has nothing in it yet.
fn fresh(wish: &Wish, name: &str) -> String {
    if wish.form == Form::Handlers && matches!(wish.agent, Agent::AmazonQ | Agent::Kiro) {
        return format!("{{\n  {}\n}}\n", member("name", &Value::from(name)));
    }
    match agents::version(wish.agent, wish.form) {
        Some(version) => format!("{{\n  \"version\": {version}\n}}\n"),
        None => "{}\n".to_owned(),
    }
}

fn wrong(path: &[&str], kind: Kind, right: &str) -> String {
    let place = if path.is_empty() { "it".to_owned() } else { format!("`{}`", path.join(".")) };
    format!("{place} is {}, expected {right}", kind.noun())
}

struct File<'w> {
    text: Text,
    wish: &'w Wish,
    change: Change,
    /// Something was taken out.
    touched: bool,
}

impl File<'_> {
    /// Does `edit` to the text.
    fn edit(&mut self, edit: impl FnOnce(Text) -> Result<Text, String>) -> Result<(), String> {
        let text = std::mem::replace(&mut self.text, Text::parse("null".to_owned())?);
        self.text = edit(text)?;
        Ok(())
    }

    fn wanted(&self) -> Vec<(&'static str, Value)> {
        if self.change.remove { Vec::new() } else { self.wish.entries() }
    }

    fn triggers(&mut self) -> Result<(), String> {
        let wanted = self.wanted().into_iter().map(|(_, entry)| entry).collect::<Vec<_>>();
        match self.text.kind(&["hooks"]) {
            Some(Kind::Array) => {}
            Some(kind) => return Err(wrong(&["hooks"], kind, "a list")),
            None if wanted.is_empty() => return Ok(()),
            None => self.edit(|text| text.push(&[], "\"hooks\": []"))?,
        }
        self.settle(&["hooks"], &wanted)?;
        self.drop_empty(&[], "hooks")
    }

    fn events(&mut self) -> Result<(), String> {
        let wanted = self.wanted();
        for event in self.text.keys(&["hooks"]) {
            let entry = wanted.iter().find(|(name, _)| *name == event).map(|(_, entry)| entry.clone());
            let path = ["hooks", event.as_str()];
            match self.text.kind(&path) {
                Some(Kind::Array) => {}
                Some(kind) if entry.is_some() => return Err(wrong(&path, kind, "a list")),
                _ => continue,
            }
            self.settle(&path, entry.as_slice())?;
            self.drop_empty(&["hooks"], &event)?;
        }
        let version = agents::version(self.wish.agent, self.wish.form);
        if let Some(version) = version.filter(|_| !wanted.is_empty() && self.text.kind(&["version"]).is_none()) {
            self.edit(|text| text.push(&[], &format!("\"version\": {version}")))?;
        }
        for (event, entry) in wanted {
            if self.text.kind(&["hooks"]).is_none() {
                self.edit(|text| text.push(&[], "\"hooks\": {}"))?;
            }
            if self.text.kind(&["hooks", event]).is_none() {
                self.edit(|text| text.push(&["hooks"], &member(event, &Value::from(vec![entry]))))?;
            }
        }
        self.drop_empty(&[], "hooks")
    }

    /// Brings a list to where its entries of hookctl's are those that are wanted, the others untouched.
    fn settle(&mut self, path: &[&str], wanted: &[Value]) -> Result<(), String> {
        self.free_handlers(path)?;
        loop {
            let items = self.items(path);
            let mut missing = wanted.to_vec();
            let mut stale = Vec::new();
            for (index, item) in items.iter().enumerate().filter(|(_, item)| self.is_ours(item)) {
                match missing.iter().position(|entry| entry == item) {
                    Some(found) => drop(missing.remove(found)),
                    None => stale.push(index),
                }
            }
            match (stale.first(), missing.first()) {
                (Some(index), Some(entry)) => self.edit(|text| text.replace(path, *index, &one_line(entry)))?,
                (Some(index), None) => {
                    self.edit(|text| text.take_out(path, *index))?;
                    self.touched = true;
                }
                (None, Some(entry)) => self.edit(|text| text.push(path, &one_line(entry)))?,
                (None, None) => return Ok(()),
            }
        }
    }

    /// Takes hookctl's handlers out of groups that hold others' too.
    fn free_handlers(&mut self, path: &[&str]) -> Result<(), String> {
        for (index, item) in self.items(path).iter().enumerate() {
            let index = index.to_string();
            let within = [path, &[index.as_str(), "hooks"]].concat();
            let handlers = item.get("hooks").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
            if self.is_ours(item) {
                continue;
            }
            let own = handlers.iter().enumerate().filter(|(_, it)| self.asks(it)).map(|(at, _)| at).collect::<Vec<_>>();
            for handler in own.into_iter().rev() {
                self.edit(|text| text.take_out(&within, handler))?;
                self.touched = true;
            }
        }
        Ok(())
    }

    /// An entry that holds nothing but what install writes for this agent.
    fn is_ours(&self, entry: &Value) -> bool {
        match entry.get("hooks").and_then(Value::as_array) {
            Some(handlers) => !handlers.is_empty() && handlers.iter().all(|handler| self.asks(handler)),
            None => self.asks(entry),
        }
    }

    fn asks(&self, handler: &Value) -> bool {
        asks_as(handler) == Some(self.wish.agent)
    }

    fn items(&self, path: &[&str]) -> Vec<Value> {
        match self.text.value(path) {
            Some(Value::Array(items)) => items,
            _ => Vec::new(),
        }
    }

    /// Takes out a list or object that has become empty.
    fn drop_empty(&mut self, path: &[&str], key: &str) -> Result<(), String> {
        let is_empty = match self.text.value(&[path, &[key]].concat()) {
            Some(Value::Array(items)) => items.is_empty(),
            Some(Value::Object(members)) => members.is_empty(),
            _ => false,
        };
        match self.text.position(path, key).filter(|_| self.touched && is_empty) {
            Some(index) => self.edit(|text| text.take_out(path, index)),
            None => Ok(()),
        }
    }

    /// Sets the switch that leaves all other hooks to hookd, or takes it out.
    fn switch(&mut self) -> Result<(), String> {
        let at = self.text.position(&[], TAKES_OVER);
        let is_on = self.text.value(&[TAKES_OVER]) == Some(Value::Bool(true));
        match (self.change.remove, at) {
            (true, Some(index)) if is_on => {
                self.touched = true;
                self.edit(|text| text.take_out(&[], index))
            }
            (false, Some(index)) if !is_on => self.edit(|text| text.replace(&[], index, "true")),
            (false, None) => self.edit(|text| text.push(&[], &member(TAKES_OVER, &Value::Bool(true)))),
            _ => Ok(()),
        }
    }

    /// No entry asks hookd as another agent: this one would run that as well.
    fn only_this_agent(&self) -> Result<(), String> {
        if self.change.remove {
            return Ok(());
        }
        let mut entries = Vec::new();
        all_of(&self.text.value(&["hooks"]).unwrap_or_default(), &mut entries);
        match entries.into_iter().find(|agent| *agent != self.wish.agent) {
            Some(other) => Err(format!(
                "it asks hookd as {} already, and {} would do so too; take that out (`hookctl install {} --remove`) or \
                 name another file with `--file`",
                other.name(),
                self.wish.agent.name(),
                other.name()
            )),
            None => Ok(()),
        }
    }

    /// Nothing is left but what a new file begins with.
    fn is_spent(&self, fresh: &str) -> bool {
        let left = self.text.value(&[]).unwrap_or_default();
        left == Value::Object(hookd_json::Map::new()) || hookd_json::parse(fresh).is_ok_and(|fresh| fresh == left)
    }
}

/// Whom the handlers anywhere in `value` ask hookd as.
pub(super) fn all_of(value: &Value, found: &mut Vec<Agent>) {
    found.extend(asks_as(value));
    match value {
        Value::Array(items) => items.iter().for_each(|item| all_of(item, found)),
        Value::Object(members) => {
            // The action of a trigger was found with it.
            members.iter().filter(|(key, _)| *key != "action").for_each(|(_, value)| all_of(value, found));
        }
        _ => {}
    }
}
