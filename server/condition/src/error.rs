/// Why a text is no condition or expression of hookd, and where in the text.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{message} at line {line} column {column} of the expression")]
pub struct ConditionError {
    /// What is wrong and what would be right, lowercase, on one line.
    pub message: String,
    /// Bytes before the place.
    pub offset: usize,
    /// Line, from 1.
    pub line: usize,
    /// Column in characters, from 1.
    pub column: usize,
}

impl ConditionError {
    /// An error at byte `offset` of `text`.
    pub(crate) fn at(text: &str, offset: usize, message: impl Into<String>) -> Self {
        let offset = text.floor_char_boundary(offset);
        let before = text.get(..offset).unwrap_or_default();
        let line_start = before.rfind('\n').map_or(0, |newline| newline.saturating_add(1));
        Self {
            message: one_line(&message.into()),
            offset,
            line: before.matches('\n').count().saturating_add(1),
            column: before.get(line_start..).unwrap_or_default().chars().count().saturating_add(1),
        }
    }
}

/// Why an expression gave no value for a call: a failure of kind `expression`, never `false`.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct EvaluationError(pub(crate) String);

impl EvaluationError {
    pub(crate) fn new(message: impl AsRef<str>) -> Self {
        Self(one_line(message.as_ref()))
    }
}

/// The longest part of a message that values of the call may fill.
const LONGEST: usize = 400;

/// `text` without line breaks and other control characters, cut where it gets long.
fn one_line(text: &str) -> String {
    let mut line: String = text.chars().take(LONGEST).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if text.chars().nth(LONGEST).is_some() {
        line.push('…');
    }
    line
}
