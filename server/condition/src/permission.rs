//! Permission rules, the `if` of Claude Code's hook files: `Tool` or `Tool(specifier)`.
//!
//! | Form | Runs for |
//! | --- | --- |
//! | `Bash`, `mcp__github`, `mcp__github__*` | every call of the tool, of the server |
//! | `Bash(git push *)`, `PowerShell(Remove-Item *)` | shell texts in which one of the commands matches |
//! | `Edit(src/**)`, `Read(~/.ssh/**)` | files, by gitignore patterns |
//! | `WebFetch(domain:*.example.com)` | URLs by their host |
//! | `Agent(Explore)`, `Skill(deploy *)` | subagents and skills by name |
//! | `Tool(param:value)` | calls with that value of a parameter |
//!
//! A rule narrows a hook, so what it cannot tell (a text that is no shell text, a parameter that is not there, a
//! directory that nobody named) lets the hook run.

mod command;
mod path;
mod powershell;
mod wildcard;

use std::{borrow::Cow, sync::Arc};

use hookd_json::Json;

use self::{command::CommandPattern, path::PathPattern, powershell::PowerShellPattern, wildcard::Wildcard};
use crate::{Facts, functions::host, pattern::Pattern};

/// One permission rule, checked. Cheap to clone.
#[derive(Debug, Clone)]
pub struct PermissionRule(Arc<Inner>);

/// Why a text is no permission rule: one line, lowercase, with the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("the permission rule `{rule}` is refused: {why}")]
pub struct PermissionError {
    rule: String,
    why: String,
}

#[derive(Debug)]
struct Inner {
    text: Box<str>,
    tools: Tools,
    specifier: Option<Specifier>,
}

/// The tools that a rule is for.
#[derive(Debug)]
enum Tools {
    /// Those of one family; the first gives the name.
    Family(&'static [&'static str]),
    /// The one of this name, and of an MCP server's name all of its tools.
    Named(Box<str>),
    /// Those whose whole name matches.
    Like(Wildcard),
}

/// What a rule tests besides the tool: one of the two is there, and what either says lets the hook run. Texts such as
/// `plugin:reviewer` may be meant as both.
#[derive(Debug)]
struct Specifier {
    form: Option<Form>,
    parameter: Option<Parameter>,
}

/// The tool's own form.
#[derive(Debug)]
enum Form {
    Command(CommandPattern),
    PowerShell(PowerShellPattern),
    Path(PathPattern),
    Domain(Arc<Pattern>),
    Agent(Wildcard),
    Skill(CommandPattern),
}

/// `name:value`
#[derive(Debug)]
struct Parameter {
    name: Box<str>,
    value: Wildcard,
}

/// The longest rule, in bytes.
const MAX_TEXT: usize = 1024;

/// Tools whose rules have the form of the first one's.
const FAMILIES: [&[&str]; 4] = [
    &["Bash", "Monitor"],
    &["Read", "Grep", "Glob", "LS", "LSP", "NotebookRead"],
    &["Edit", "Write", "MultiEdit", "NotebookEdit"],
    &["PowerShell"],
];

/// Tools that were renamed, each with all of its names, the one of today first. Rules and calls may still have the others.
pub const RENAMED_TOOLS: [&[&str]; 8] = [
    &["Agent", "Task"],
    &["TaskStop", "KillShell", "KillBash"],
    &["ListAgents", "ListPeers"],
    &["SendUserMessage", "Brief"],
    &["ListMcpResourcesTool", "ListMcpResources"],
    &["ReadMcpResourceTool", "ReadMcpResource"],
    &["ReadMcpResourceDirTool", "ReadMcpResourceDir"],
    &["SetGoal", "ProposeGoal"],
];

/// Parameters that the tool's own form tests.
const PRIMARY: [&str; 5] = ["command", "file_path", "notebook_path", "path", "url"];

impl PermissionRule {
    /// Parses and checks `text`.
    ///
    /// # Errors
    /// It has none of the forms of this module.
    pub fn parse(text: &str) -> Result<Self, PermissionError> {
        let text = text.trim();
        let parsed =
            if text.len() > MAX_TEXT { Err(format!("it has more than {MAX_TEXT} bytes")) } else { parse(text) };
        match parsed {
            Ok((tools, specifier)) => Ok(Self(Arc::new(Inner { text: text.into(), tools, specifier }))),
            Err(why) => {
                let shown = |text: &str| {
                    text.chars().take(200).map(|c| if c.is_control() { ' ' } else { c }).collect::<String>()
                };
                Err(PermissionError { rule: shown(text), why: shown(&why) })
            }
        }
    }

    /// The text that it was made from, without white space around it.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0.text
    }

    /// Whether the hook that has it runs for a call. `root` is the directory that `/path` starts at: the one that the
    /// rule's settings file belongs to. Where it is `None`, or `cwd` is not known, any directory is meant.
    ///
    /// Never for what is no tool call; always where it cannot be told.
    #[must_use]
    pub fn runs(&self, facts: &Facts<'_>, root: Option<&str>) -> bool {
        let Some(tool) = facts.call().tool else { return false };
        if !self.0.tools.has(tool) {
            return false;
        }
        let Some(specifier) = &self.0.specifier else { return true };
        let Ok(params) = facts.params() else { return true };
        specifier.runs(tool, params, facts, root)
    }

    /// Why the shell text of a call cannot be told, where that is what lets the hook run.
    #[must_use]
    pub fn doubt(&self, facts: &Facts<'_>) -> Option<String> {
        let Some(Form::Command(_)) = self.0.specifier.as_ref()?.form else { return None };
        let command = facts.params().ok()?.get("command")?.as_str()?;
        facts.shell().told(command, |told| told.as_ref().err().cloned())
    }
}

fn parse(text: &str) -> Result<(Tools, Option<Specifier>), String> {
    let (name, specifier) = match text.split_once('(') {
        Some((name, rest)) => (name, Some(inside(rest)?)),
        None => (text, None),
    };
    let of_a_name = |c: char| c.is_alphanumeric() || "_-.:/@*".contains(c);
    if name.is_empty() || !name.chars().all(of_a_name) {
        return Err(format!("`{name}` is not the name of a tool, write `Tool` or `Tool(specifier)`"));
    }
    let name = current(name);
    let specifier = match specifier.as_deref().map(str::trim) {
        None | Some("" | "*") => None,
        Some(specifier) => Some(Specifier::parse(name, specifier)?),
    };
    Ok((Tools::of(name), specifier))
}

/// What stands before the last parenthesis, `\(` and `\)` being parentheses.
fn inside(rest: &str) -> Result<String, String> {
    let closed = rest.strip_suffix(')').filter(|inner| !inner.ends_with('\\'));
    let inner = closed.ok_or("it does not end with the `)` of its `(`")?;
    // `Bash(git *) || Bash(npm *)`
    let more = inner.match_indices(')').any(|(at, _)| {
        let after = inner.get(at..).unwrap_or_default().trim_start_matches(')').trim_start();
        let after = ["||", "&&", ",", "|"].iter().find_map(|joint| after.strip_prefix(joint));
        after.and_then(|after| after.trim_start().split_once('(')).is_some_and(|(name, _)| {
            name.starts_with(|c: char| c.is_ascii_uppercase()) && name.chars().all(|c| c.is_alphanumeric() || c == '_')
        })
    });
    if more {
        return Err("it holds more than one rule, give each a hook of its own".to_owned());
    }
    Ok(inner.replace("\\(", "(").replace("\\)", ")"))
}

/// The name that a tool has now.
fn current(name: &str) -> &str {
    RENAMED_TOOLS.iter().find(|names| names.contains(&name)).and_then(|names| names.first()).map_or(name, |now| now)
}

impl Tools {
    fn of(name: &str) -> Self {
        if name.contains('*') {
            return Self::Like(Wildcard::new(name));
        }
        match FAMILIES.into_iter().find(|family| family.first() == Some(&name)) {
            Some(family) => Self::Family(family),
            None => Self::Named(name.into()),
        }
    }

    fn has(&self, tool: &str) -> bool {
        let tool = current(tool);
        match self {
            Self::Family(family) => family.contains(&tool),
            Self::Named(name) => {
                let of_the_server = || {
                    let server = name.strip_prefix("mcp__").is_some_and(|server| !server.contains("__"));
                    server && tool.strip_prefix(&**name).is_some_and(|rest| rest.starts_with("__"))
                };
                tool == &**name || of_the_server()
            }
            Self::Like(wildcard) => wildcard.matches(tool),
        }
    }
}

impl Specifier {
    /// The specifier of a rule for `tool`, which is neither empty nor `*`.
    fn parse(tool: &str, text: &str) -> Result<Self, String> {
        let family = FAMILIES.into_iter().find(|family| family.contains(&tool)).and_then(|family| family.first());
        let parameter = Parameter::parse(text);
        if let Some(primary) = parameter.as_ref().filter(|parameter| PRIMARY.contains(&&*parameter.name)) {
            return Err(format!(
                "`{}` is what the tool's own form tests, such as `Bash(rm *)`, `Read(./path)` or `WebFetch(domain:host)`",
                primary.name
            ));
        }
        let form = match family.copied().unwrap_or(tool) {
            "Bash" => Form::Command(CommandPattern::new(text)),
            "PowerShell" => Form::PowerShell(PowerShellPattern::new(text)),
            "Read" | "Edit" => Form::Path(PathPattern::new(text)?),
            "Agent" => Form::Agent(Wildcard::new(text)),
            "Skill" => Form::Skill(CommandPattern::new(text.trim_start_matches('/'))),
            "WebFetch" => match parameter {
                Some(Parameter { name, .. }) if &*name == "domain" => {
                    return Ok(Self { form: Some(Form::Domain(domain(text)?)), parameter: None });
                }
                Some(parameter) if !text.contains("://") => return Ok(Self { form: None, parameter: Some(parameter) }),
                _ => return Err("a rule for `WebFetch` names a host: `WebFetch(domain:example.com)`".to_owned()),
            },
            tool if parameter.is_none() => {
                return Err(format!(
                    "`{tool}` takes no specifier but a parameter and its value: `{tool}(param:value)`"
                ));
            }
            _ => return Ok(Self { form: None, parameter }),
        };
        Ok(Self { form: Some(form), parameter })
    }

    fn runs(&self, tool: &str, params: &Json<'_>, facts: &Facts<'_>, root: Option<&str>) -> bool {
        if self.parameter.as_ref().is_some_and(|parameter| parameter.holds(params)) {
            return true;
        }
        let text = |key: &str| params.get(key).and_then(Json::as_str);
        match &self.form {
            None => false,
            Some(Form::Command(pattern)) => text("command").is_none_or(|command| pattern.runs(command, facts.shell())),
            Some(Form::PowerShell(pattern)) => text("command").is_none_or(|command| pattern.runs(command)),
            Some(Form::Path(pattern)) => pattern.runs(tool, params, facts.call().cwd, root),
            Some(Form::Domain(pattern)) => {
                let host = text("url").and_then(|url| host(url).ok());
                host.is_none_or(|host| pattern.is_match(&host).unwrap_or(true))
            }
            Some(Form::Agent(pattern)) => {
                text("subagent_type").map_or(self.parameter.is_none(), |agent| pattern.matches(agent))
            }
            Some(Form::Skill(pattern)) => {
                let skill = text("skill").or_else(|| text("command")).map(|skill| skill.trim_start_matches('/'));
                skill.map_or(self.parameter.is_none(), |skill| {
                    let arguments = text("args").unwrap_or_default();
                    pattern.matches(format!("{skill} {arguments}").trim_end())
                })
            }
        }
    }
}

impl Parameter {
    /// `None`: it does not have this form.
    fn parse(text: &str) -> Option<Self> {
        let (name, value) = text.split_once(':')?;
        let (name, value) = (name.trim(), value.trim());
        let is_name = name.starts_with(|c: char| c.is_ascii_alphabetic() || c == '_')
            && name.chars().all(|c| c.is_ascii_alphanumeric() || c == '_' || c == '-');
        is_name.then(|| Self { name: name.into(), value: Wildcard::new(value) })
    }

    /// Whether the call has the parameter with this value. What is no scalar has none.
    fn holds(&self, params: &Json<'_>) -> bool {
        let value = match params.get(&self.name) {
            Some(Json::Text(text)) => Cow::Borrowed(&**text),
            Some(Json::Bool(flag)) => Cow::Borrowed(if *flag { "true" } else { "false" }),
            Some(Json::Number(digits)) => Cow::Borrowed(*digits),
            Some(Json::Null) => Cow::Borrowed("null"),
            Some(Json::List(_) | Json::Object(_)) | None => return false,
        };
        self.value.matches(&value)
    }
}

/// The hosts that `domain:…` means. `*.` at the start is any subdomain; another `*` stays between two dots.
fn domain(text: &str) -> Result<Arc<Pattern>, String> {
    let name = text.split_once(':').map(|(_, name)| name.trim().to_ascii_lowercase()).unwrap_or_default();
    let name = name.strip_suffix('.').unwrap_or(&name);
    if name.is_empty() || name.contains(|c: char| c.is_whitespace() || "/:@?#".contains(c)) {
        return Err(format!("`{name}` is no host, such as `example.com` or `*.example.com`"));
    }
    if name == "*" {
        return Pattern::new("");
    }
    let (start, rest) = name.strip_prefix("*.").map_or(("^", name), |rest| (r"^(?:.+\.)", rest));
    let rest = rest.split('*').map(regex::escape).collect::<Vec<_>>().join("[^.]*");
    Pattern::new(&format!("{start}{rest}$"))
}

#[cfg(test)]
mod tests;
