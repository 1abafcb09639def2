use serde::{Deserialize, Serialize};

use crate::{Hash, hash::DIGITS};

/// What stands between the fields of a record and its hash.
const BEFORE_HASH: &[u8] = br#","hash":""#;
/// What stands after it.
const AFTER_HASH: &[u8] = br#""}"#;

/// What every record has, and what verification needs of some.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
pub struct Record {
    /// Its number in its run, from 1.
    pub seq: u64,
    /// The run that wrote it.
    pub run: String,
    /// Hash of the record before. [`Hash::NONE`]: there is none.
    pub prev: Hash,
    /// When what it tells of happened, RFC 3339 in UTC.
    pub time: String,
    /// What it tells of.
    pub kind: String,
    /// Its own hash.
    pub hash: Hash,
    /// [`crate::START`]: the lines before it that earlier processes left unfinished. The second and all later ones are of
    /// processes that did not get past their first record.
    #[serde(default)]
    pub torn: Vec<Torn>,
    /// [`crate::DROPPED`]: how many.
    #[serde(default)]
    pub count: u64,
    /// How many decisions before it were left out by sampling.
    #[serde(default)]
    pub sampled_out: u64,
}

/// A line that was not written to its end.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub struct Torn {
    /// Its bytes, without the line break that was added later.
    pub bytes: u64,
    /// Their hash.
    pub sha256: Hash,
}

/// Why a line is no record.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum NotARecord {
    /// It has another form.
    #[error("is no record")]
    Form,
    /// It has the form of one and is not what it was.
    #[error("was changed: it does not have its own hash")]
    Changed(Box<Record>),
}

impl Record {
    /// Reads a line, without its line break.
    ///
    /// # Errors
    /// [`NotARecord`].
    pub fn read(line: &[u8]) -> Result<Self, NotARecord> {
        let hashed =
            line.strip_suffix(AFTER_HASH).and_then(|line| line.split_at_checked(line.len().checked_sub(DIGITS)?));
        let hashed = hashed.and_then(|(line, _)| line.strip_suffix(BEFORE_HASH)).ok_or(NotARecord::Form)?;
        let record = serde_json::from_slice::<Self>(line).map_err(|_| NotARecord::Form)?;
        if Hash::of(hashed) == record.hash { Ok(record) } else { Err(NotARecord::Changed(record.into())) }
    }
}

impl Torn {
    pub(crate) fn of(line: &[u8]) -> Self {
        Self { bytes: u64::try_from(line.len()).unwrap_or(u64::MAX), sha256: Hash::of(line) }
    }

    /// Whether the line can be the beginning of the first record of a run.
    pub(crate) fn may_be_first(line: &[u8]) -> bool {
        line.iter().zip(br#"{"seq":1,"run":""#).all(|(byte, expected)| byte == expected)
    }
}
