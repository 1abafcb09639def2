//! Settings that are one word of a few: one list to read them and to print them.

use super::section::{Section, text};

/// The words and what they mean, in the order in which messages name them.
pub(super) type Words<T> = [(&'static str, T)];

impl Section<'_, '_> {
    /// One of `words`; `default` where it is absent or wrong.
    pub(super) fn word<T: Copy>(&mut self, key: &'static str, words: &Words<T>, default: T) -> T {
        self.optional_word(key, words).unwrap_or(default)
    }

    /// As [`Self::word`]; `None` where it is absent or wrong.
    pub(super) fn optional_word<T: Copy>(&mut self, key: &'static str, words: &Words<T>) -> Option<T> {
        let names = words.iter().map(|(name, _)| *name).collect::<Vec<_>>();
        let expected = match names.split_last() {
            Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
            _ => names.concat(),
        };
        let meant = |name: &str| words.iter().find(|(known, _)| *known == name).map(|(_, meant)| *meant);
        self.read(key, |value| text(value).and_then(meant), &expected)
    }
}

/// The word for `value`, which has one.
pub(super) fn word_of<T: PartialEq>(words: &Words<T>, value: T) -> &'static str {
    words.iter().find(|(_, meant)| *meant == value).map_or("", |(word, _)| word)
}
