//! The audit trail's records (issue 6, item 7): which decisions and refusals have one, and what stands in it.

mod decided;
mod redaction;

use std::{
    io::Write as _,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use hookd_audit::text;
use hookd_rules::read_small_file;
use secrecy::SecretSlice;
use tonic::Code;
use uuid::Uuid;

use self::{decided::Decided, redaction::Redaction};
use super::metrics::status;
use crate::{
    model::{Decision, Identity, Outcome, Trigger, Verdict},
    settings::{AuditSettings, KEEP_ALL, Parameters},
    telemetry::{
        Secrets,
        audit::{AuditError, Entry, Held, Trail},
        call::Call,
        trace::is_among,
    },
};

/// Shortest key of hashes, in bytes.
const MIN_KEY_BYTES: usize = 16;
/// Longest file of one.
const MAX_KEY_BYTES: usize = 4096;

/// Makes records of decisions and refusals.
#[derive(Debug)]
pub struct Audit {
    trail: Trail,
    redaction: Arc<Redaction>,
    keep: u32,
}

/// Why there can be no audit: one line.
#[derive(Debug, thiserror::Error)]
pub enum NoAudit {
    /// The trail cannot begin.
    #[error(transparent)]
    Trail(#[from] AuditError),
    /// The key of hashes.
    #[error("{}: cannot use the key of hashes: {why}", path.display())]
    Key {
        /// Its file.
        path: PathBuf,
        /// Why.
        why: String,
    },
}

impl Audit {
    /// The audit that `settings` ask for, in which none of `secrets` is told. `None`: none.
    ///
    /// # Errors
    /// [`NoAudit`].
    pub fn begin(settings: &AuditSettings, secrets: Secrets) -> Result<Option<Self>, NoAudit> {
        if !settings.is_on() {
            return Ok(None);
        }
        let redaction = Redaction::new(settings, key_of(settings)?, secrets);
        let start = |out: &mut Vec<u8>| {
            text(out, "version", env!("CARGO_PKG_VERSION"));
            let _ = write!(out, r#","pid":{}"#, std::process::id());
        };
        let trail = Trail::begin(settings, Box::new(start))?;
        Ok(Some(Self { trail, redaction: Arc::new(redaction), keep: settings.keep }))
    }

    /// Says whether the files can be used that `settings` name. None is made.
    ///
    /// # Errors
    /// [`NoAudit`].
    pub fn check(settings: &AuditSettings) -> Result<(), NoAudit> {
        if settings.is_on() {
            key_of(settings)?;
            Trail::check(settings)?;
        }
        Ok(())
    }

    /// Where records go.
    #[must_use]
    pub fn trail(&self) -> &Trail {
        &self.trail
    }

    /// Records a decision. `None`: its answer may leave now.
    pub(super) fn decided(&self, trigger: &Arc<Trigger>, decision: &Decision, took: Duration) -> Option<Held> {
        if self.keep < KEEP_ALL && changes_nothing(decision) && !is_kept(&trigger.decision_id, self.keep) {
            self.trail.left_out();
            return None;
        }
        let decided = Decided::new(Arc::clone(trigger), decision, took, self.redaction.tells_texts());
        let (bytes, redaction) = (decided.bytes(), Arc::clone(&self.redaction));
        self.trail.decided(Entry::new("decision", bytes, Box::new(move |out| decided.write(&redaction, out))))
    }

    /// Records that a decision was not answered as its record says, since that was not written in time.
    pub(super) fn late(&self, trigger: &Trigger, answered: Verdict) {
        let decision_id = trigger.decision_id.clone();
        let fields = move |out: &mut Vec<u8>| {
            text(out, "decision_id", &decision_id);
            text(out, "answered", answered.name());
        };
        self.trail.late(Entry::new("unacknowledged", 0, Box::new(fields)));
    }

    /// Records a call that was answered with a status. `reason` says more of it; it may be empty.
    pub(super) fn refused(&self, call: &Call, code: Code, reason: String) {
        let (decision_id, identity) = (call.decision_text(), call.identity());
        let fields = move |out: &mut Vec<u8>| {
            text(out, "decision_id", &decision_id);
            caller(out, &identity);
            text(out, "status", status(code));
            if !reason.is_empty() {
                text(out, "reason", &reason);
            }
        };
        self.trail.refused(Entry::new("refusal", 0, Box::new(fields)));
    }
}

/// Who calls, as was proved. No name: nobody proved anything.
fn caller(out: &mut Vec<u8>, identity: &Identity) {
    out.extend_from_slice(br#","caller":{"labels":{"#);
    for (at, (key, value)) in identity.labels.as_slice().iter().enumerate() {
        if at > 0 {
            out.push(b',');
        }
        // Writing to memory does not fail, here and below.
        let _ = serde_json::to_writer(&mut *out, key);
        out.push(b':');
        let _ = serde_json::to_writer(&mut *out, value);
    }
    out.push(b'}');
    if !identity.name.is_empty() {
        text(out, "name", &identity.name);
    }
    out.push(b'}');
}

/// Whether everything goes on as if nobody had been asked, and nobody would have had it otherwise: what sampling may leave
/// out.
fn changes_nothing(decision: &Decision) -> bool {
    decision.verdict == Verdict::None
        && !decision.degraded
        && decision.halt.is_none()
        && decision.rewrites.is_empty()
        && decision.downgrades.is_empty()
        && decision.additional_context.is_empty()
        && decision.event_output.is_empty()
        && decision.results.iter().all(|result| match result.outcome {
            Outcome::Gave(verdict) => verdict == Verdict::None,
            Outcome::Queued => true,
            Outcome::Failed => false,
        })
}

/// Whether the decision is among those that are kept: so many of a million, told by its id, whose end is random.
fn is_kept(decision_id: &str, keep: u32) -> bool {
    let Ok(id) = Uuid::parse_str(decision_id) else { return true };
    is_among(id.as_u64_pair().1, keep)
}

/// The key of hashes, where there are hashes.
fn key_of(settings: &AuditSettings) -> Result<Option<SecretSlice<u8>>, NoAudit> {
    let path = settings.hash_key_file.as_deref().filter(|_| settings.parameters == Parameters::Hashed);
    path.map(key_in).transpose()
}

fn key_in(path: &Path) -> Result<SecretSlice<u8>, NoAudit> {
    let no_key = |why: String| NoAudit::Key { path: path.to_owned(), why };
    let mut key = read_small_file(path).map_err(no_key)?;
    while key.last().is_some_and(|byte| matches!(byte, b'\n' | b'\r')) {
        key.pop();
    }
    if !(MIN_KEY_BYTES..=MAX_KEY_BYTES).contains(&key.len()) {
        return Err(no_key(format!("{} bytes are not {MIN_KEY_BYTES} to {MAX_KEY_BYTES}", key.len())));
    }
    Ok(key.into())
}

#[cfg(test)]
mod tests;
