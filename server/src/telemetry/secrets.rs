//! Secrets of handlers: put in where rules name them, and known, so that they can be masked where handlers repeat them.

use std::{
    borrow::Cow,
    cmp::Reverse,
    collections::VecDeque,
    ops::Range,
    sync::{Arc, Mutex, PoisonError},
};

use aho_corasick::{AhoCorasick, MatchKind};
use arc_swap::ArcSwapOption;
use hookd_rules::{ValuePart, read_small_text};
use secrecy::{ExposeSecret as _, SecretString};

/// What stands in the place of a secret.
const MASK: &str = "[masked]";
/// What stands where a text was cut off.
const CUT: char = '…';
/// Shorter ones are not masked: they stand in too much that is none.
const SHORTEST: usize = 6;
/// So many are known; then the oldest is forgotten. More than there are, but for files that change.
const KNOWN: usize = 1_000;
/// The secrets that handlers were given so far. Cheap to clone; it prints none of them.
#[derive(Clone, Default)]
pub struct Secrets(Arc<Inner>);

#[derive(Default)]
struct Inner {
    known: Mutex<VecDeque<SecretString>>,
    masks: ArcSwapOption<Masks>,
}

/// How the secrets that are known are found.
struct Masks {
    whole: AhoCorasick,
    /// Finds how they begin, for those of which a text has no more than that.
    beginnings: AhoCorasick,
    /// What `beginnings` are of.
    texts: Vec<SecretString>,
}

impl Secrets {
    /// The text of a value that a rule gives to `holder` (the words for it in an error). Files are read now. An error names
    /// no secret.
    ///
    /// The read is not handed to another thread: it is a small file in memory, as secrets are mounted.
    ///
    /// # Errors
    /// One line: a file cannot be read.
    pub fn render(&self, parts: &[ValuePart], holder: &str) -> Result<String, String> {
        let mut text = String::new();
        for part in parts {
            match part {
                ValuePart::Text(part) => text.push_str(part),
                ValuePart::Env { value, .. } => text.push_str(self.learn(value.expose_secret())),
                ValuePart::File(path) => {
                    let content = read_small_text(path)
                        .map_err(|why| format!("cannot read `{}` for {holder}: {why}", path.display()))?;
                    let line = content.strip_suffix('\n').unwrap_or(&content);
                    text.push_str(self.learn(line.strip_suffix('\r').unwrap_or(line)));
                }
            }
        }
        Ok(text)
    }

    /// `text` with every secret masked that is known, also one of which the text was cut off: what begins as it does and goes
    /// on to the end, or to the mark of a cut.
    #[must_use]
    pub fn mask<'t>(&self, text: &'t str) -> Cow<'t, str> {
        let places = match &*self.0.masks.load() {
            Some(masks) => masks.places(text),
            None => Vec::new(),
        };
        if places.is_empty() {
            return Cow::Borrowed(text);
        }
        let (mut masked, mut from) = (String::new(), 0);
        for place in places.into_iter() {
            // One that begins within the one before has no text before it.
            if place.start >= from {
                masked.push_str(text.get(from..place.start).unwrap_or_default());
                masked.push_str(MASK);
            }
            from = from.max(place.end);
        }
        Cow::Owned(masked + text.get(from..).unwrap_or_default())
    }

    fn learn<'s>(&self, secret: &'s str) -> &'s str {
        if secret.len() < SHORTEST {
            return secret;
        }
        let mut known = self.0.known.lock().unwrap_or_else(PoisonError::into_inner);
        if known.iter().any(|there| there.expose_secret() == secret) {
            return secret;
        }
        known.push_back(SecretString::from(secret));
        if known.len() > KNOWN {
            known.pop_front();
        }
        self.0.masks.store(Masks::of(&known).map(Arc::new));
        secret
    }
}

impl Masks {
    /// `None`: they are too many to be looked for.
    fn of(known: &VecDeque<SecretString>) -> Option<Self> {
        let texts = known.iter().flat_map(|secret| {
            let secret = secret.expose_secret();
            // As it stands in JSON as well, where that is another text.
            [secret.into(), within_quotes(secret).into()]
        });
        let texts = texts.collect::<Vec<SecretString>>();
        let all = || texts.iter().map(|text| text.expose_secret().as_bytes());
        // The longest first: where one secret begins with another, nothing of either must stay.
        let whole = AhoCorasick::builder().match_kind(MatchKind::LeftmostLongest).build(all()).ok()?;
        let beginnings = AhoCorasick::new(all().map(|text| text.get(..SHORTEST).unwrap_or(text))).ok()?;
        Some(Self { whole, beginnings, texts })
    }

    /// Where something of them is, by its start.
    fn places(&self, text: &str) -> Vec<Range<usize>> {
        let begun = self.beginnings.find_overlapping_iter(text).filter_map(|found| {
            let secret = self.texts.get(found.pattern().as_usize())?.expose_secret();
            let there = text.get(found.start()..)?;
            let common = there.char_indices().zip(secret.chars()).find(|((_, one), other)| one != other);
            let length = common.map_or_else(|| there.len().min(secret.len()), |((at, _), _)| at);
            let rest = there.get(length..)?;
            let is_cut = rest.is_empty() || rest.starts_with(CUT);
            is_cut.then(|| found.start()..found.start().saturating_add(length))
        });
        let mut places = self.whole.find_iter(text).map(|found| found.range()).chain(begun).collect::<Vec<_>>();
        places.sort_unstable_by_key(|place| (place.start, Reverse(place.end)));
        places
    }
}

impl std::fmt::Debug for Secrets {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Secrets(..)")
    }
}

/// `text` as it stands in JSON, without the quotes around it.
#[must_use]
pub fn within_quotes(text: &str) -> String {
    let quoted = serde_json::Value::from(text).to_string();
    let inner = quoted.strip_prefix('"').and_then(|inner| inner.strip_suffix('"'));
    inner.unwrap_or_default().to_owned()
}

#[cfg(test)]
mod tests {
    use std::fs;

    use super::*;

    fn env(value: &str) -> ValuePart {
        ValuePart::Env { name: "TOKEN".to_owned(), value: SecretString::from(value) }
    }

    #[test]
    fn what_was_put_in_is_masked_wherever_it_comes_back_and_nothing_else() {
        let secrets = Secrets::default();
        assert_eq!(secrets.mask("s3cret-token"), "s3cret-token");
        let parts = [ValuePart::Text("Bearer ".to_owned()), env("s3cret-token"), env("s3cret-token-2"), env("1234")];
        let text = secrets.render(&parts, "a header").unwrap();
        assert_eq!(text, "Bearer s3cret-tokens3cret-token-21234");
        for (text, masked) in [
            ("s3cret-token", "[masked]"),
            ("got <s3cret-token-2>, s3cret-token", "got <[masked]>, [masked]"),
            ("1234 is too short, s3cret-toke is another text", "1234 is too short, s3cret-toke is another text"),
            // Of the first six bytes on, where more of it may have stood.
            ("it is s3cret-to", "it is [masked]"),
            ("not `s3cret…`, nor `s3cre…`", "not `[masked]…`, nor `s3cre…`"),
            ("s3cret-token-2 and s3cret-token-", "[masked] and [masked]"),
            ("s3cret-tokens3cret-token", "[masked][masked]"),
            ("", ""),
        ] {
            assert_eq!(secrets.mask(text), masked);
        }
        secrets.render(&[env("line\none\"two")], "a header").unwrap();
        assert_eq!(secrets.mask(r#"{"a":"line\none\"two"}"#), r#"{"a":"[masked]"}"#);
        assert_eq!(format!("{secrets:?}"), "Secrets(..)");
    }

    #[test]
    fn a_file_is_read_anew_each_time_and_what_is_no_file_is_refused() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("token");
        let secrets = Secrets::default();
        let render = || secrets.render(&[ValuePart::File(path.clone())], "header `authorization`");
        for content in ["first-token\r\n", "second-token"] {
            fs::write(&path, content).unwrap();
            assert_eq!(render().unwrap(), content.trim_end());
        }
        assert_eq!(secrets.mask("first-token second-token"), "[masked] [masked]");
        fs::write(&path, vec![b'x'; (1 << 20) + 1]).unwrap();
        let place = format!("cannot read `{}` for header `authorization`: ", path.display());
        assert_eq!(render().unwrap_err(), format!("{place}more than 1048576 bytes"));
        fs::remove_file(&path).unwrap();
        assert_eq!(render().unwrap_err(), format!("{place}No such file or directory (os error 2)"));
        assert!(std::process::Command::new("mkfifo").arg(&path).status().unwrap().success());
        assert_eq!(render().unwrap_err(), format!("{place}not a regular file"));
    }

    #[test]
    fn only_so_many_are_known_and_the_newest_stay() {
        let secrets = Secrets::default();
        for number in 0..=KNOWN {
            secrets.learn(&format!("secret-{number:05}"));
        }
        assert_eq!(secrets.mask("secret-00000 secret-00001 secret-01000"), "secret-00000 [masked] [masked]");
    }
}
