//! The functions of expressions: which there are, and what they do. They know no evaluator: both use the same ones.

mod glob;
mod network;
mod path;
mod shell;
mod text;

pub(crate) use self::{
    glob::{class, glob_pattern, literal},
    network::{Range, host},
    path::under,
    shell::{ShellTexts, ShellWord},
    text::{any_match, redact},
};

use crate::{kind::Kind, pattern::Pattern};

/// A function of expressions.
pub(crate) struct Function {
    pub(crate) name: &'static str,
    /// How it is written, for messages.
    pub(crate) form: &'static str,
    style: Style,
    /// The receiver counts as the first.
    pub(crate) arguments: &'static [Kind],
    pub(crate) result: Kind,
}

/// How a function is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Style {
    /// `f(x, y)`
    Global,
    /// `x.f(y)`
    Receiver,
    /// Both.
    Either,
}

impl Function {
    pub(crate) fn allows(&self, style: Style) -> bool {
        self.style == style || self.style == Style::Either
    }
}

const fn function(
    name: &'static str,
    form: &'static str,
    style: Style,
    arguments: &'static [Kind],
    result: Kind,
) -> Function {
    Function { name, form, style, arguments, result }
}

/// hookd's functions, then CEL's.
pub(crate) static FUNCTIONS: [Function; 20] = [
    function("anyMatch", "anyMatch(value, regex)", Style::Global, &[Kind::Any, Kind::Text], Kind::Bool),
    function("cidr", "cidr(ip, range)", Style::Global, &[Kind::Text, Kind::Text], Kind::Bool),
    function("glob", "glob(string, pattern)", Style::Global, &[Kind::Text, Kind::Text], Kind::Bool),
    function("host", "host(url)", Style::Global, &[Kind::Text], Kind::Text),
    function("matches", "string.matches(regex)", Style::Either, &[Kind::Text, Kind::Text], Kind::Bool),
    function("redact", "redact(value, regex, with)", Style::Global, &[Kind::Any, Kind::Text, Kind::Text], Kind::Any),
    function("shellCommands", "shellCommands(text)", Style::Global, &[Kind::Text], Kind::List),
    function("under", "under(path, directory)", Style::Global, &[Kind::Text, Kind::Text], Kind::Bool),
    function("contains", "string.contains(part)", Style::Receiver, &[Kind::Text, Kind::Text], Kind::Bool),
    function("endsWith", "string.endsWith(end)", Style::Receiver, &[Kind::Text, Kind::Text], Kind::Bool),
    function("startsWith", "string.startsWith(start)", Style::Receiver, &[Kind::Text, Kind::Text], Kind::Bool),
    function("size", "size(value)", Style::Either, &[Kind::Any], Kind::Number),
    function("bool", "bool(value)", Style::Global, &[Kind::Any], Kind::Bool),
    function("bytes", "bytes(value)", Style::Global, &[Kind::Any], Kind::Bytes),
    function("double", "double(value)", Style::Global, &[Kind::Any], Kind::Number),
    function("int", "int(value)", Style::Global, &[Kind::Any], Kind::Number),
    function("uint", "uint(value)", Style::Global, &[Kind::Any], Kind::Number),
    function("string", "string(value)", Style::Global, &[Kind::Any], Kind::Text),
    function("dyn", "dyn(value)", Style::Global, &[Kind::Any], Kind::Any),
    function("type", "type(value)", Style::Global, &[Kind::Any], Kind::Type),
];

/// Whether `text`, written out as argument number `place` of `function`, is good.
///
/// # Errors
/// What is wrong with it, on one line.
pub(crate) fn check_literal(function: &str, place: usize, text: &str) -> Result<(), String> {
    match (function, place) {
        ("matches" | "anyMatch" | "redact", 1) => Pattern::new(text).map(drop),
        ("glob", 1) => Pattern::new(&glob_pattern(text)?).map(drop),
        ("cidr", 1) => Range::parse(text).map(drop),
        _ => Ok(()),
    }
}
