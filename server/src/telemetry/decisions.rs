//! The lines of decisions. They look as all log lines do, but there is one for every call: they are written field by
//! field, since the way through `tracing` cost more than the evaluation itself.

use std::{fmt::Write as _, io::Write as _, time::SystemTime};

use tracing::{Level, enabled};

use super::lines::Lines;

/// What the filter of the log (`log.filter`) knows these lines by.
const TARGET: &str = "hookd::record::line";
/// What most lines need, in bytes.
const USUAL_BYTES: usize = 768;

/// Logs decisions. Cheap to clone.
#[derive(Debug, Clone)]
pub struct DecisionLog {
    lines: Lines,
    /// For people, with colours or without. `None`: JSON.
    human: Option<bool>,
}

/// The value of a field.
#[derive(Debug, Clone, Copy)]
pub enum Field<'f> {
    /// A text.
    Text(&'f str),
    /// A number.
    Count(usize),
    /// True or false.
    Flag(bool),
    /// A time in milliseconds.
    Millis(f64),
}

impl DecisionLog {
    pub(super) fn to(lines: Lines, human: Option<bool>) -> Self {
        Self { lines, human }
    }

    /// Logs where nobody reads.
    #[cfg(test)]
    pub(crate) fn silent() -> Self {
        Self::to(Lines::unread(), None)
    }

    /// One line with what `fields` gives to the function that it is called with, unless the filter keeps such lines out.
    pub fn decided(&self, fields: impl FnOnce(&mut dyn FnMut(&'static str, Field<'_>))) {
        if enabled!(target: TARGET, Level::INFO) {
            let _taken = self.lines.add(&line(self.human, SystemTime::now(), fields));
        }
    }
}

fn line(human: Option<bool>, now: SystemTime, fields: impl FnOnce(&mut dyn FnMut(&'static str, Field<'_>))) -> Vec<u8> {
    let now = humantime::format_rfc3339_micros(now);
    match human {
        None => {
            let mut line = Vec::with_capacity(USUAL_BYTES);
            // Writing to memory does not fail, here and below.
            let _ = write!(line, r#"{{"timestamp":"{now}","level":"INFO","message":"decided""#);
            fields(&mut |name, value| json(&mut line, name, value));
            let _ = writeln!(line, r#","target":"{TARGET}"}}"#);
            line
        }
        Some(is_coloured) => {
            let mut line = String::with_capacity(USUAL_BYTES);
            let paint = Paint::new(is_coloured);
            let Paint { dim, green, italic, off } = paint;
            let _ = write!(line, "{dim}{now}{off} {green} INFO{off} decided");
            fields(&mut |name, value| {
                let _ = write!(line, " {italic}{name}{off}{dim}={off}");
                let _ = match value {
                    Field::Text(text) => write!(line, "{text:?}"),
                    Field::Count(count) => write!(line, "{count}"),
                    Field::Flag(flag) => write!(line, "{flag}"),
                    Field::Millis(millis) => write!(line, "{millis}"),
                };
            });
            line.push('\n');
            line.into_bytes()
        }
    }
}

fn json(line: &mut Vec<u8>, name: &str, value: Field<'_>) {
    line.extend_from_slice(b",\"");
    line.extend_from_slice(name.as_bytes());
    line.extend_from_slice(b"\":");
    let _ = match value {
        Field::Text(text) => serde_json::to_writer(line, text),
        Field::Count(count) => serde_json::to_writer(line, &count),
        Field::Flag(flag) => serde_json::to_writer(line, &flag),
        Field::Millis(millis) => serde_json::to_writer(line, &millis),
    };
}

struct Paint {
    dim: &'static str,
    green: &'static str,
    italic: &'static str,
    off: &'static str,
}

impl Paint {
    fn new(is_coloured: bool) -> Self {
        if is_coloured {
            Self { dim: "\u{1b}[2m", green: "\u{1b}[32m", italic: "\u{1b}[3m", off: "\u{1b}[0m" }
        } else {
            Self { dim: "", green: "", italic: "", off: "" }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[track_caller]
    fn check(human: Option<bool>, expected: &str) {
        let at = SystemTime::UNIX_EPOCH.checked_add(Duration::from_micros(1_700_000_000_000_001)).unwrap();
        let line = line(human, at, |put| {
            put("tool", Field::Text("a\"b\n\u{1b}é"));
            put("considered", Field::Count(3));
            put("degraded", Field::Flag(false));
            put("ms", Field::Millis(0.25));
        });
        assert_eq!(String::from_utf8(line).unwrap(), expected);
    }

    #[test]
    fn a_line_looks_as_all_log_lines_do() {
        check(
            None,
            "{\"timestamp\":\"2023-11-14T22:13:20.000001Z\",\"level\":\"INFO\",\"message\":\"decided\",\
             \"tool\":\"a\\\"b\\n\\u001bé\",\"considered\":3,\"degraded\":false,\"ms\":0.25,\
             \"target\":\"hookd::record::line\"}\n",
        );
        check(
            Some(false),
            "2023-11-14T22:13:20.000001Z  INFO decided tool=\"a\\\"b\\n\\u{1b}é\" considered=3 degraded=false ms=0.25\n",
        );
        check(
            Some(true),
            "\u{1b}[2m2023-11-14T22:13:20.000001Z\u{1b}[0m \u{1b}[32m INFO\u{1b}[0m decided \
             \u{1b}[3mtool\u{1b}[0m\u{1b}[2m=\u{1b}[0m\"a\\\"b\\n\\u{1b}é\" \
             \u{1b}[3mconsidered\u{1b}[0m\u{1b}[2m=\u{1b}[0m3 \
             \u{1b}[3mdegraded\u{1b}[0m\u{1b}[2m=\u{1b}[0mfalse \
             \u{1b}[3mms\u{1b}[0m\u{1b}[2m=\u{1b}[0m0.25\n",
        );
    }
}
