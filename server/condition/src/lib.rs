//! Conditions (`when`) and value expressions (`{"expr": "…"}`) of rules, written in CEL.
//!
//! A text is compiled once, at load: [`Condition::compile`] and [`Expression::compile`] refuse what can be known to be
//! wrong, with a place. It is evaluated at its rule's turn on the [`Facts`] of the form that the call has then (law 5).
//! An error is a failure of the rule (law 7), never `false`.
//!
//! # Variables
//!
//! | Name | Type | Without it |
//! | --- | --- | --- |
//! | `event`, `sessionId` | string | never |
//! | `tool`, `toolKind`, `mcpServer`, `cwd` | string | `null` |
//! | `params`, `payload` | map | `{}` |
//! | `result` | any | `null` |
//! | `timestamp` | int, milliseconds since 1970 | never |
//! | `caller.labels` | map of strings, what hookd knows of the caller | `{}` |
//! | `caller.claimed.agent`, `.agentVersion`, `.project`, `.user`, `.parentSessionId`, `.agentId`, `.agentType`, `.parentAgentId`, `.labels` | strings and a map, what the caller says | a missing key |
//!
//! A missing key is an error, as in CEL: `has(params.a) && params.a == 1` asks first. `&&` and `||` forget the error of
//! one side where the other decides. JSON integers are `int` or `uint` where they fit, numbers with a point or an
//! exponent are `double`, and a number that fits neither is an error where it is looked up; whole values that are only
//! handed on keep it. There is no clock: `timestamp / 3600000 % 24` is the hour.
//!
//! # Functions
//!
//! CEL's own `size`, `contains`, `startsWith`, `endsWith`, conversions, `type`, and the macros `has`, `all`, `exists`,
//! `exists_one`, `map` and `filter`; and these. Patterns are regular expressions that are searched anywhere, without
//! look-around; a literal one is checked at load.
//!
//! - `string.matches(regex)`, also `matches(string, regex)`.
//! - `glob(string, pattern)`: over the whole string. `*` and `?` stop at `/`, `**` does not; `[a-z]`, `[!a-z]`, `{a,b}`,
//!   `\` before a character.
//! - `under(path, directory)`: whether the path is the directory or lies in it, by text alone, `.` and `..` worked out.
//!   Relative paths start at `cwd`. Symbolic links are not followed.
//! - `shellCommands(text)`: the simple commands of a shell text, each a list of words without quotes, those of pipes,
//!   subshells and substitutions too: `shellCommands(params.command).exists(c, c[0] == 'rm')`. Assignments and
//!   redirections are no words. What the shell works out when it runs (`$X`, `*.txt`, `{a,b}`, the text that `eval` or
//!   `bash -c` is given) stands as it is written. What cannot be parsed is an error.
//! - `host(url)`: in lower case, IPv6 without brackets, without a dot at the end.
//! - `cidr(ip, range)`: whether the address is in the range. `::ffff:10.0.0.1` is an IPv4 address.
//! - `anyMatch(value, regex)`: in any string of the value, keys of maps included.
//! - `redact(value, regex, with)`: the value with each match in its strings replaced; keys stay.
//!
//! # Permission rules
//!
//! [`PermissionRule`] is the other kind of condition: the `if` of Claude Code's hook files, `Bash(git push *)`.
//!
//! # Limits
//!
//! A text has at most 4096 bytes, 1000 parts and a nesting of 32; a literal pattern at most 1 MiB compiled, another one
//! 64 KiB. Only macros repeat anything, and all macros of one evaluation walk at most 100,000 elements together: each
//! range is counted before it is walked. A clock is looked at for each element, too, and after one second the
//! evaluation ends with the element at hand. What `+`, `redact`, lists and maps build is limited to 16 MiB.
//!
//! # How it is fast
//!
//! The common shapes are lowered to native tests over the parsed call (`native`); only the rest runs through cel's
//! interpreter (`interpret`), each such part for itself, and a property test holds the two equal. [`Facts`] parse a text
//! of the call once, when the first expression asks. [`Condition::share_patterns`] finds many patterns on one field in
//! one pass.

mod error;
mod variable;
mod facts;
mod condition;
mod parse;
mod check;
mod kind;
mod native;
mod group;
mod interpret;
mod functions;
mod pattern;
mod number;
mod permission;

pub use self::{
    condition::{Condition, Expression},
    error::{ConditionError, EvaluationError},
    facts::{Call, Claimed, Facts},
    permission::{PermissionError, PermissionRule, RENAMED_TOOLS},
};
