//! Static tokens: a file that lists them or their hashes.

use std::{
    collections::HashMap,
    path::{Path, PathBuf},
    sync::Arc,
};

use arc_swap::{ArcSwap, ArcSwapOption};
use hookd_json::{Map, Value};
use hookd_rules::{Format, read_small_text};
use sha2::{Digest as _, Sha256};
use tokio_util::task::AbortOnDropHandle;
use tracing::{info, warn};

use super::TokenHash;
use crate::{
    catalog::{Watch, WatchTimes},
    model::{Identity, Labels},
    settings::{check_label, is_label_value},
};

/// What names of identities begin with whose proof is a static token.
const PREFIX: &str = "token/";
/// Shortest token, in bytes: shorter ones can be guessed.
const MIN_TOKEN_BYTES: usize = 16;

/// The tokens of a file, as it was when it could be read last.
#[derive(Debug)]
pub(super) struct StaticTokens {
    by_hash: Arc<ArcSwap<ByHash>>,
    /// Why the file as it is now is not what counts.
    refusal: Arc<ArcSwapOption<String>>,
    _watching: AbortOnDropHandle<()>,
}

type ByHash = HashMap<TokenHash, Arc<Identity>>;

impl StaticTokens {
    /// Reads the file, and reads it again whenever it changes.
    ///
    /// # Errors
    /// What is wrong with it. Later that is logged, and the tokens from before stay.
    pub(super) async fn start(path: PathBuf) -> Result<Self, String> {
        let watch = Watch::start(vec![path.clone()], WatchTimes::default()).await;
        let by_hash = Arc::new(ArcSwap::from_pointee(read(path.clone()).await?));
        let refusal = Arc::new(ArcSwapOption::empty());
        let (swapped, refused) = (Arc::clone(&by_hash), Arc::clone(&refusal));
        let watching = async move {
            loop {
                watch.changed().await;
                match read(path.clone()).await {
                    Ok(tokens) => {
                        info!(tokens = tokens.len(), "the file of tokens was read again");
                        swapped.store(Arc::new(tokens));
                        refused.store(None);
                    }
                    Err(error) => {
                        refused.store(Some(Arc::new(error.clone())));
                        warn!(error, "the file of tokens cannot be used, the tokens from before stay");
                    }
                }
            }
        };
        Ok(Self { by_hash, refusal, _watching: AbortOnDropHandle::new(tokio::spawn(watching)) })
    }

    /// Says whether a server could start with the file.
    ///
    /// # Errors
    /// What is wrong with it.
    pub(super) fn check(path: &Path) -> Result<(), String> {
        read_now(path).map(|_| ())
    }

    /// Why tokens may be in force that the file has no more, for people.
    pub(super) fn trouble(&self) -> Option<String> {
        let refusal = self.refusal.load();
        Some(format!("tokens from before stay: {}", refusal.as_ref()?))
    }

    /// Whose token this is the hash of.
    ///
    /// Hashes are compared, not tokens: how long that takes tells something of the hash of what was presented, which
    /// is of no use to whoever does not have the token already.
    pub(super) fn get(&self, hash: &TokenHash) -> Option<Arc<Identity>> {
        self.by_hash.load().get(hash).cloned()
    }
}

async fn read(path: PathBuf) -> Result<ByHash, String> {
    let reading = tokio::task::spawn_blocking(move || read_now(&path));
    reading.await.map_err(|error| error.to_string())?
}

fn read_now(path: &Path) -> Result<ByHash, String> {
    let text = read_small_text(path).map_err(|why| format!("{}: cannot be read: {why}", path.display()))?;
    let format = Format::of(path).ok_or_else(|| format!("{}: is not .yaml, .yml or .json", path.display()))?;
    let value = format.value(&text).map_err(|error| {
        // What stands there may be a token, so that the message is not told.
        format!("{}:{}:{}: is not {}", path.display(), error.line, error.column, name_of(format))
    })?;
    parse(&value).map_err(|why| format!("{}: {why}", path.display()))
}

fn name_of(format: Format) -> &'static str {
    match format {
        Format::Json => "JSON",
        Format::Yaml => "YAML",
    }
}

fn parse(value: &Value) -> Result<ByHash, String> {
    let expected = "expected tokens: [ { name: ci, sha256: \"…\", labels: { tenant: a } } ]";
    let file = value.as_object().ok_or(expected)?;
    if let Some(key) = file.keys().find(|key| *key != "tokens") {
        return Err(format!("unknown key `{}`, {expected}", shown(key)));
    }
    let tokens = file.get("tokens").and_then(Value::as_array).ok_or(expected)?;
    let mut by_hash = ByHash::new();
    for (index, token) in tokens.iter().enumerate() {
        let here = |why: String| format!("tokens[{index}]: {why}");
        let (hash, identity) = entry(token.as_object().ok_or_else(|| here(expected.to_owned()))?).map_err(here)?;
        if by_hash.insert(hash, Arc::new(identity)).is_some() {
            return Err(here("is the token of an entry before it".to_owned()));
        }
    }
    Ok(by_hash)
}

/// One token. The error says nothing of its value.
fn entry(entry: &Map<String, Value>) -> Result<(TokenHash, Identity), String> {
    let known = ["name", "sha256", "value", "labels"];
    if let Some(key) = entry.keys().find(|key| !known.contains(&key.as_str())) {
        return Err(format!("unknown key `{}`, known are name, sha256, value and labels", shown(key)));
    }
    let text = |key: &str| entry.get(key).and_then(Value::as_str);
    let name = text("name").filter(|name| is_label_value(name)).ok_or("name: expected a text, such as ci")?;
    let hash = match (entry.get("sha256"), entry.get("value")) {
        (Some(_), None) => text("sha256").and_then(from_hex).ok_or("sha256: expected 64 hexadecimal digits")?,
        (None, Some(_)) => {
            let value = text("value").filter(|value| value.len() >= MIN_TOKEN_BYTES && is_token(value));
            let expected = || format!("value: expected at least {MIN_TOKEN_BYTES} characters of ASCII without blanks");
            Sha256::digest(value.ok_or_else(expected)?).into()
        }
        _ => return Err("expected sha256 or value, and not both".to_owned()),
    };
    let labels = match entry.get("labels") {
        None => Labels::default(),
        Some(labels) => self::labels(labels.as_object().ok_or("labels: expected a table, such as { tenant: a }")?)?,
    };
    Ok((hash, Identity { name: format!("{PREFIX}{name}"), labels }))
}

fn labels(table: &Map<String, Value>) -> Result<Labels, String> {
    let label = |(label, value): (&String, &Value)| {
        let here = |why: &str| format!("labels.{}: {why}", shown(label));
        check_label(label).map_err(|why| here(&why))?;
        let value = value.as_str().filter(|value| is_label_value(value));
        let value = value.ok_or_else(|| here("expected a text without control characters"))?;
        Ok((label.clone(), value.to_owned()))
    };
    table.iter().map(label).collect()
}

/// A key for a message. One that could be a token, in the wrong place, is not told.
fn shown(key: &str) -> &str {
    if key.len() < MIN_TOKEN_BYTES && is_token(key) { key } else { "(not shown, it may be a token)" }
}

/// Whether it can stand in a header.
fn is_token(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_graphic())
}

fn from_hex(text: &str) -> Option<TokenHash> {
    let mut hash = TokenHash::default();
    if text.len() != 64 || !text.bytes().all(|byte| byte.is_ascii_hexdigit()) {
        return None;
    }
    for (byte, digits) in hash.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
        *byte = u8::from_str_radix(str::from_utf8(digits).ok()?, 16).ok()?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn values_and_hashes_are_tokens_with_names_and_labels() {
        let token = "0123456789abcdef";
        let hash = TokenHash::from(Sha256::digest("another-token-of-length"));
        let hex = hash.iter().map(|byte| format!("{byte:02X}")).collect::<String>();
        let file = json!({ "tokens": [
            { "name": "ci", "value": token, "labels": { "tenant": "a", "role": "admin" } },
            { "name": "laptop", "sha256": hex },
        ] });
        let tokens = parse(&file).unwrap();
        let ci = &tokens[&TokenHash::from(Sha256::digest(token))];
        assert_eq!((ci.name.as_str(), ci.labels.get("tenant")), ("token/ci", Some("a")));
        assert_eq!(tokens[&hash].name, "token/laptop");
    }

    #[test]
    fn what_is_wrong_is_told_without_the_token() {
        let of = |entry: Value| parse(&json!({ "tokens": [entry] })).unwrap_err();
        let secret = "0123456789abcdef";
        let cases = [
            (json!({ "name": "a" }), "expected sha256 or value, and not both"),
            (json!({ "name": "a", "value": secret, "sha256": "x" }), "expected sha256 or value, and not both"),
            (json!({ "name": "a", "sha256": secret }), "sha256: expected 64 hexadecimal digits"),
            (
                json!({ "name": "a", "value": "short" }),
                "value: expected at least 16 characters of ASCII without blanks",
            ),
            (
                json!({ "name": "a", "value": "0123456789abcdef " }),
                "value: expected at least 16 characters of ASCII without blanks",
            ),
            (json!({ "name": "", "value": secret }), "name: expected a text, such as ci"),
            (
                json!({ "name": "a", "value": secret, "label": {} }),
                "unknown key `label`, known are name, sha256, value and labels",
            ),
            (
                json!({ "name": "a", "value": secret, "labels": { "a:b": "x" } }),
                "labels.a:b: the name of a label has letters, digits, `-`, `_`, `.` and `/` only",
            ),
            (
                json!({ "name": "a", "value": secret, "labels": { secret: 1 } }),
                "labels.(not shown, it may be a token): expected a text without control characters",
            ),
            (
                json!({ "name": "a", secret: {} }),
                "unknown key `(not shown, it may be a token)`, known are name, sha256, value and labels",
            ),
            (
                json!({ "name": "a", "value": secret, "labels": { "a": 1 } }),
                "labels.a: expected a text without control characters",
            ),
        ];
        for (entry, expected) in cases {
            assert_eq!(of(entry), format!("tokens[0]: {expected}"));
        }
        let twice = json!({ "name": "a", "value": secret });
        let twice = parse(&json!({ "tokens": [twice, twice] })).unwrap_err();
        assert_eq!(twice, "tokens[1]: is the token of an entry before it");
        for (key, told) in
            [("x", "x"), (secret, "(not shown, it may be a token)"), ("a\nb", "(not shown, it may be a token)")]
        {
            let unknown = parse(&json!({ key: { "tenant": "a" } })).unwrap_err();
            assert!(unknown.starts_with(&format!("unknown key `{told}`, ")), "{unknown}");
        }
    }
}
