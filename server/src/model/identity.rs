use std::{
    collections::BTreeMap,
    sync::{Arc, LazyLock},
};

/// Who calls, as the connection or the token that it brought has proved: never what the message says of itself, which
/// is [`super::Caller`].
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default)]
pub struct Identity {
    /// A name for people and records, unique among those who prove who they are in the same way. Empty: nobody proved
    /// anything, the caller is anonymous.
    pub name: String,
    /// What was proved of it, by label: `tenant`, `project`, `user`, `agent`, ….
    pub labels: Labels,
}

/// Labels by key, each key once, sorted.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, PartialOrd, Ord)]
pub struct Labels(Vec<(String, String)>);

impl Identity {
    /// The tenant that the caller belongs to, if that was proved: the label `tenant`.
    #[must_use]
    pub fn tenant(&self) -> Option<&str> {
        self.labels.get("tenant")
    }

    /// Whoever has proved nothing.
    #[must_use]
    pub fn anonymous() -> Arc<Self> {
        static ANONYMOUS: LazyLock<Arc<Identity>> = LazyLock::new(Arc::default);
        Arc::clone(&ANONYMOUS)
    }
}

impl Labels {
    /// The value of the label `key`.
    #[must_use]
    pub fn get(&self, key: &str) -> Option<&str> {
        let place = self.0.binary_search_by(|(there, _)| there.as_str().cmp(key)).ok()?;
        self.0.get(place).map(|(_, value)| value.as_str())
    }

    /// All of them, sorted by key.
    #[must_use]
    pub fn as_slice(&self) -> &[(String, String)] {
        &self.0
    }
}

impl FromIterator<(String, String)> for Labels {
    /// Of a key that comes more than once the last value stays.
    fn from_iter<I: IntoIterator<Item = (String, String)>>(labels: I) -> Self {
        Self(labels.into_iter().collect::<BTreeMap<_, _>>().into_iter().collect())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn labels_are_sorted_and_found_by_their_key() {
        let pairs = [("tenant", "a"), ("agent", "x"), ("tenant", "b")];
        let labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).into_iter().collect::<Labels>();
        let sorted = [("agent", "x"), ("tenant", "b")].map(|(key, value)| (key.to_owned(), value.to_owned()));
        assert_eq!(labels.as_slice(), sorted);
        assert_eq!((labels.get("tenant"), labels.get("user")), (Some("b"), None));
    }
}
