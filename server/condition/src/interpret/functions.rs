//! hookd's functions as cel calls them, and the meter.

use std::{
    any::Any,
    sync::{
        Arc,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use cel::{
    Env, ExecutionError,
    common::{
        types::{CelBool, CelList, CelMap, CelString, DYN_TYPE, Type},
        value::{CowVal, StaticVal, Val},
    },
};
use hookd_json::Json;

use super::values::{Big, Broken, owned, to_json};
use crate::{
    Facts,
    functions::{Range, ShellTexts, any_match, glob_pattern, host, redact, under},
    number,
    pattern::{self, Bounded, Pattern},
};

/// How many elements all macros of one evaluation may walk together.
pub(crate) const MAX_ELEMENTS: usize = 100_000;

/// How many bytes `+`, `redact` and the lists and maps of one evaluation may build together.
pub(crate) const MAX_MADE: usize = 16 << 20;

/// How long the macros of one evaluation may take together, by the clock: long enough for a machine that is busy with
/// other things.
pub(crate) const MAX_TIME: Duration = Duration::from_secs(1);

/// Functions that take the meter as their last argument.
pub(super) const METERED: [&str; 9] =
    ["@add", "@anyMatch", "@cidr", "@glob", "@host", "@matches", "@redact", "@shellCommands", "@under"];

type Arguments<'b, 'v> = Vec<CowVal<'b, 'v>>;
type Given<'b, 'v> = Result<CowVal<'b, 'v>, ExecutionError>;

/// Declares the functions. Their names cannot be spelled in an expression, so none of them is declared already.
pub(super) fn declare(environment: &mut Env) {
    let functions: [(&str, usize, cel::common::functions::Function); 13] = [
        ("@use", 1, usable),
        ("@walk", 2, walk),
        ("@tick", 1, tick),
        ("@keep", 2, keep),
        ("@add", 3, add),
        ("@anyMatch", 3, call_any_match),
        ("@cidr", 3, call_cidr),
        ("@glob", 3, call_glob),
        ("@host", 2, call_host),
        ("@matches", 3, call_matches),
        ("@redact", 4, call_redact),
        ("@shellCommands", 2, call_shell_commands),
        ("@under", 3, call_under),
    ];
    for (name, arguments, function) in functions {
        let added = environment.add_overload(name, name, (0..arguments).map(|_| DYN_TYPE).collect(), function);
        debug_assert!(added.is_ok(), "{added:?}");
    }
}

static CONSTANT: Type = Type::new_unspecified_type("constant");
static METER: Type = Type::new_unspecified_type("meter");

/// A literal that was made ready at load.
#[derive(Debug, Clone)]
pub(super) enum Constant {
    Pattern(Arc<Pattern>),
    Range(Range),
}

impl Constant {
    /// What the literal `text` is as the second argument of `function`.
    pub(super) fn of(function: &str, text: &str) -> Result<Option<Self>, String> {
        Ok(match function {
            "@matches" | "@anyMatch" | "@redact" => Some(Self::Pattern(Pattern::new(text)?)),
            "@glob" => Some(Self::Pattern(Pattern::new(&glob_pattern(text)?)?)),
            "@cidr" => Some(Self::Range(Range::parse(text)?)),
            _ => None,
        })
    }
}

impl Val for Constant {
    fn get_type(&self) -> &Type {
        &CONSTANT
    }

    fn cel_type() -> &'static Type {
        &CONSTANT
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Constant {}

/// What one evaluation has used up.
#[derive(Debug, Clone)]
pub(super) struct Meter(Arc<Used>);

#[derive(Debug)]
struct Used {
    elements: AtomicUsize,
    made: AtomicUsize,
    clock: Clock,
    cwd: Option<String>,
    shell: Arc<ShellTexts>,
}

#[expect(clippy::disallowed_types, reason = "a bound on the work of the processor, which no test pauses")]
#[derive(Debug)]
struct Clock(std::time::Instant);

impl Clock {
    #[expect(clippy::disallowed_types, reason = "a bound on the work of the processor, which no test pauses")]
    fn start() -> Self {
        Self(std::time::Instant::now())
    }
}

impl Meter {
    pub(super) fn new(facts: &Facts<'_>) -> Self {
        Self(Arc::new(Used {
            elements: AtomicUsize::new(0),
            made: AtomicUsize::new(0),
            clock: Clock::start(),
            cwd: facts.call().cwd.map(str::to_owned),
            shell: Arc::clone(facts.shell()),
        }))
    }

    fn of<'a>(arguments: &'a [CowVal<'_, '_>]) -> Result<&'a Self, ExecutionError> {
        let last = arguments.last().and_then(|last| last.downcast_ref::<Self>());
        last.ok_or_else(|| ExecutionError::InternalError("no meter".to_owned()))
    }

    fn make(&self, size: usize) -> Result<(), ExecutionError> {
        let made = self.0.made.fetch_add(size, Ordering::Relaxed).saturating_add(size);
        if made > MAX_MADE {
            return Err(failed(format!("the expression builds more than {MAX_MADE} bytes")));
        }
        Ok(())
    }
}

impl Val for Meter {
    fn get_type(&self) -> &Type {
        &METER
    }

    fn cel_type() -> &'static Type {
        &METER
    }

    fn clone_as_boxed<'v>(&self) -> Box<dyn Val + 'v> {
        Box::new(self.clone())
    }

    fn as_any(&self) -> Option<&dyn Any> {
        Some(self)
    }
}

impl StaticVal for Meter {}

fn failed(message: impl Into<String>) -> ExecutionError {
    ExecutionError::FunctionError { function: String::new(), message: message.into() }
}

fn first<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    arguments.into_iter().next().ok_or(ExecutionError::MissingArgumentOrTarget)
}

fn text<'a>(arguments: &'a [CowVal<'_, '_>], place: usize, function: &str) -> Result<&'a str, ExecutionError> {
    let argument = arguments.get(place).ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let text = argument.downcast_ref::<CelString<'_>>().map(CelString::inner);
    text.ok_or_else(|| failed(format!("`{function}` takes a string, this is {}", argument.get_type().name())))
}

fn boolean<'b, 'v>(value: bool) -> CowVal<'b, 'v> {
    CowVal::owned(CelBool::from(value))
}

/// Hands its argument on, unless it is a number that fits no CEL type, or broken.
fn usable<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let value = first(arguments)?;
    if let Some(big) = value.downcast_ref::<Big>() {
        return Err(failed(number::unfit(big.0.as_str())));
    }
    match value.downcast_ref::<Broken>() {
        Some(broken) => Err(failed(&broken.0)),
        None => Ok(value),
    }
}

/// Hands a list or map on that a macro is about to walk.
fn walk<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let meter = Meter::of(&arguments)?;
    let size = |value: &CowVal<'_, '_>| value.as_sizer().and_then(|sizer| usize::try_from(*sizer.size().inner()).ok());
    let size = arguments.first().and_then(size).unwrap_or(0);
    let walked = meter.0.elements.fetch_add(size, Ordering::Relaxed).saturating_add(size);
    if walked > MAX_ELEMENTS {
        return Err(failed(format!("the macros walk more than {MAX_ELEMENTS} elements")));
    }
    first(arguments)
}

/// `true` for as long as there is time.
fn tick<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    if Meter::of(&arguments)?.0.clock.0.elapsed() > MAX_TIME {
        return Err(failed(format!("the macros take more than {} ms", MAX_TIME.as_millis())));
    }
    Ok(boolean(true))
}

/// Hands a value on that becomes part of a list or map.
fn keep<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let value = arguments.first().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    Meter::of(&arguments)?.make(size_of(&**value))?;
    first(arguments)
}

/// `+`, within bounds.
fn add<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let meter = Meter::of(&arguments)?;
    let [left, right, _] = arguments.as_slice() else { return Err(ExecutionError::MissingArgumentOrTarget) };
    for value in [left, right] {
        let size = match (value.downcast_ref::<CelString<'_>>(), value.downcast_ref::<CelList<'_>>()) {
            (Some(text), _) => text.inner().len(),
            (_, Some(_)) => size_of(&**value),
            _ => 0,
        };
        meter.make(size)?;
    }
    let pair = || format!("`+` does not take {} and {}", left.get_type().name(), right.get_type().name());
    let sum = left.as_adder().ok_or_else(|| failed(pair()))?.add(&**right);
    match sum {
        Ok(sum) => Ok(CowVal::Owned(sum.into_owned())),
        Err(ExecutionError::UnsupportedBinaryOperator(..)) => Err(failed(pair())),
        Err(error) => Err(error),
    }
}

/// Roughly how much a copy of `value` takes.
fn size_of(value: &dyn Val) -> usize {
    if let Some(text) = value.downcast_ref::<CelString<'_>>() {
        return text.inner().len();
    }
    if let Some(list) = value.downcast_ref::<CelList<'_>>() {
        return list
            .inner()
            .iter()
            .map(|item| size_of(item.as_ref()).saturating_add(16))
            .fold(0, usize::saturating_add);
    }
    if let Some(map) = value.downcast_ref::<CelMap<'_>>() {
        let sizes = map.inner().values().map(|item| size_of(item.as_ref()).saturating_add(64));
        return sizes.fold(0, usize::saturating_add);
    }
    16
}

/// Calls `use_it` with the pattern in the second place, compiled at load if it is a literal.
fn with_pattern<T>(
    arguments: &[CowVal<'_, '_>],
    function: &str,
    to_regex: impl FnOnce(&str) -> Result<String, String>,
    literal: impl FnOnce(&Arc<Pattern>) -> Result<T, ExecutionError>,
    fresh: impl FnOnce(&Bounded) -> Result<T, ExecutionError>,
) -> Result<T, ExecutionError> {
    if let Some(Constant::Pattern(pattern)) = arguments.get(1).and_then(|argument| argument.downcast_ref::<Constant>())
    {
        return literal(pattern);
    }
    let pattern = to_regex(text(arguments, 1, function)?).map_err(failed)?;
    fresh(&pattern::fresh(&pattern).map_err(failed)?)
}

fn as_is(pattern: &str) -> Result<String, String> {
    Ok(pattern.to_owned())
}

fn call_matches<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let subject = text(&arguments, 0, "matches")?;
    let found = with_pattern(
        &arguments,
        "matches",
        as_is,
        |pattern| pattern.is_match(subject).map_err(|error| failed(error.0)),
        |regex| regex.is_match(subject).map_err(failed),
    )?;
    Ok(boolean(found))
}

fn call_glob<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let subject = text(&arguments, 0, "glob")?;
    let found = with_pattern(
        &arguments,
        "glob",
        glob_pattern,
        |pattern| pattern.is_match(subject).map_err(|error| failed(error.0)),
        |regex| regex.is_match(subject).map_err(failed),
    )?;
    Ok(boolean(found))
}

fn call_any_match<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let value = arguments.first().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let value = to_json(&**value).map_err(failed)?;
    let value = Json::from(&value);
    let found = with_pattern(
        &arguments,
        "anyMatch",
        as_is,
        |pattern| any_match(&value, &mut |text| pattern.is_match(text)).map_err(|error| failed(error.0)),
        |regex| any_match(&value, &mut |text| regex.is_match(text)).map_err(failed),
    )?;
    Ok(boolean(found))
}

fn call_redact<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let value = arguments.first().ok_or(ExecutionError::MissingArgumentOrTarget)?;
    let value = to_json(&**value).map_err(failed)?;
    let value = Json::from(&value);
    let with = text(&arguments, 2, "redact")?;
    let redacted = with_pattern(
        &arguments,
        "redact",
        as_is,
        |pattern| pattern.with_regex(|regex| redact(&value, regex, with)).map_err(|error| failed(error.0)),
        |regex| Ok(redact(&value, regex, with)),
    )?;
    let redacted: Box<dyn Val + 'v> = owned(redacted.map_err(failed)?);
    Meter::of(&arguments)?.make(size_of(redacted.as_ref()))?;
    Ok(CowVal::Owned(redacted))
}

fn call_under<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let (path, directory) = (text(&arguments, 0, "under")?, text(&arguments, 1, "under")?);
    let cwd = Meter::of(&arguments)?.0.cwd.as_deref();
    under(path, directory, cwd).map(boolean).map_err(failed)
}

fn call_host<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let host = host(text(&arguments, 0, "host")?).map_err(failed)?;
    Ok(CowVal::owned(CelString::from(host)))
}

fn call_cidr<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let ip = text(&arguments, 0, "cidr")?;
    let range = match arguments.get(1).and_then(|argument| argument.downcast_ref::<Constant>()) {
        Some(Constant::Range(range)) => *range,
        _ => Range::parse(text(&arguments, 1, "cidr")?).map_err(failed)?,
    };
    range.contains(ip).map(boolean).map_err(failed)
}

fn call_shell_commands<'b, 'v>(arguments: Arguments<'b, 'v>) -> Given<'b, 'v> {
    let text = text(&arguments, 0, "shellCommands")?;
    Meter::of(&arguments)?.0.shell.told(text, |told| {
        let commands = told.as_ref().map_err(failed)?.commands.iter().map(|words| {
            let words = words.iter().map(|word| Box::new(CelString::from(word.text.clone())) as Box<dyn Val + 'v>);
            Box::new(CelList::from(words.collect::<Vec<_>>())) as Box<dyn Val + 'v>
        });
        Ok(CowVal::owned(CelList::from(commands.collect::<Vec<_>>())))
    })
}
