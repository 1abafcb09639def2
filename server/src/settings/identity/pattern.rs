//! Patterns of the names in a client certificate.

use regex::Regex;

/// A pattern of one kind of name: `uri:spiffe://example.org/ns/{}/sa/*`.
///
/// `*` stands for one part of the name (of a URI all but `/`, of a DNS name all but `.`, of what stands in the subject all),
/// `**` for any text; neither for nothing. `{}` is a `*` that is taken out. Everything else stands for itself.
#[derive(Debug, Clone)]
pub struct NamePattern {
    text: String,
    kind: NameKind,
    regex: Regex,
}

/// A kind of name in a certificate.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NameKind {
    /// A URI among the subject's alternative names, such as a SPIFFE id.
    Uri,
    /// A DNS name among the subject's alternative names.
    Dns,
    /// The common name of the subject.
    CommonName,
    /// An organisation of the subject.
    Organization,
    /// An organisational unit of the subject.
    OrganizationalUnit,
}

impl NameKind {
    const ALL: [Self; 5] = [Self::Uri, Self::Dns, Self::CommonName, Self::Organization, Self::OrganizationalUnit];

    /// How patterns and names of identities begin that are of this kind.
    #[must_use]
    pub fn prefix(self) -> &'static str {
        match self {
            Self::Uri => "uri:",
            Self::Dns => "dns:",
            Self::CommonName => "cn:",
            Self::Organization => "o:",
            Self::OrganizationalUnit => "ou:",
        }
    }

    /// Whether it is of one holder: organisations and their units are of many, so they give labels and no name.
    #[must_use]
    pub fn is_of_one(self) -> bool {
        matches!(self, Self::Uri | Self::Dns | Self::CommonName)
    }
}

impl NamePattern {
    /// Reads a pattern; `takes` is whether it has to take something out.
    ///
    /// # Errors
    /// What is wrong with it.
    pub fn parse(text: &str, takes: bool) -> Result<Self, &'static str> {
        let kind = NameKind::ALL.into_iter().find(|kind| text.starts_with(kind.prefix()));
        let kind = kind.ok_or("does not begin with uri:, dns:, cn:, o: or ou:")?;
        if !takes && !kind.is_of_one() {
            return Err("is of many: o: and ou: are for labels only");
        }
        let pattern = text.strip_prefix(kind.prefix()).filter(|rest| !rest.is_empty()).ok_or("holds no name")?;
        match (takes, pattern.matches("{}").count()) {
            (true, 1) | (false, 0) => {}
            (true, _) => return Err("does not have `{}` once, for what becomes the label"),
            (false, _) => return Err("takes something out with `{}`, which only the patterns of labels do"),
        }
        // Host names are the same in any case.
        let pattern = if kind == NameKind::Dns { pattern.to_ascii_lowercase() } else { pattern.to_owned() };
        let part = match kind {
            NameKind::Uri => "[^/]+",
            NameKind::Dns => "[^.]+",
            NameKind::CommonName | NameKind::Organization | NameKind::OrganizationalUnit => ".+",
        };
        let regex = regex::escape(&pattern).replace(r"\*\*", ".+").replace(r"\*", part);
        let regex = regex.replace(r"\{\}", &format!("({part})"));
        let regex = Regex::new(&format!("^(?:{regex})$")).map_err(|_| "is too long")?;
        Ok(Self { text: text.to_owned(), kind, regex })
    }

    /// As it stands in the settings.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.text
    }

    /// Whether it matches a name of this kind.
    #[must_use]
    pub fn matches(&self, kind: NameKind, name: &str) -> bool {
        self.kind == kind && self.regex.is_match(name)
    }

    /// What it takes out of a name that it matches.
    #[must_use]
    pub fn taken<'n>(&self, kind: NameKind, name: &'n str) -> Option<&'n str> {
        let found = self.regex.captures(name).filter(|_| self.kind == kind)?;
        found.get(1).map(|taken| taken.as_str())
    }
}

impl PartialEq for NamePattern {
    fn eq(&self, other: &Self) -> bool {
        self.text == other.text
    }
}

impl Eq for NamePattern {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_matched_and_taken_whole() {
        let cases = [
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "spiffe://example.org/ns/a/sa/x", Some("a")),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "spiffe://example.org/ns/a/b/sa/x", None),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "spiffe://example.org/ns//sa/x", None),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "spiffe://evil.org/ns/a/sa/x", None),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "spiffe://example.org/ns/a/sa/x/y", None),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::Uri, "x spiffe://example.org/ns/a/sa/x", None),
            ("uri:spiffe://example.org/ns/{}/sa/*", NameKind::CommonName, "spiffe://example.org/ns/a/sa/x", None),
            ("uri:spiffe://example.org/ns/{}/**", NameKind::Uri, "spiffe://example.org/ns/a/sa/x/y", Some("a")),
            ("dns:{}.agents.Example.org", NameKind::Dns, "a.agents.example.org", Some("a")),
            ("dns:{}.agents.example.org", NameKind::Dns, "a.b.agents.example.org", None),
            ("dns:{}.agents.example.org", NameKind::Dns, "a.agentsXexample.org", None),
            ("cn:agent {}", NameKind::CommonName, "agent of a.b/c", Some("of a.b/c")),
            ("cn:{}", NameKind::CommonName, "a\nb", None),
            ("o:team {}", NameKind::Organization, "team a.b/c", Some("a.b/c")),
            ("o:{}", NameKind::OrganizationalUnit, "a", None),
            ("ou:{}", NameKind::OrganizationalUnit, "a", Some("a")),
            ("ou:{}", NameKind::CommonName, "a", None),
        ];
        for (pattern, kind, name, expected) in cases {
            assert_eq!(NamePattern::parse(pattern, true).unwrap().taken(kind, name), expected, "{pattern} {name}");
        }
        let whole = NamePattern::parse("dns:*.example.org", false).unwrap();
        assert!(whole.matches(NameKind::Dns, "a.example.org") && !whole.matches(NameKind::Dns, "example.org"));
        assert!(!whole.matches(NameKind::CommonName, "a.example.org"), "a subject may say anything");
    }

    #[test]
    fn what_is_no_pattern_is_told() {
        let wrong = |text: &str, takes| NamePattern::parse(text, takes).unwrap_err();
        assert_eq!(wrong("spiffe://x/{}", true), "does not begin with uri:, dns:, cn:, o: or ou:");
        assert_eq!(wrong("o:a", false), "is of many: o: and ou: are for labels only");
        assert_eq!(wrong("ou:**", false), "is of many: o: and ou: are for labels only");
        assert_eq!(wrong("cn:", false), "holds no name");
        assert_eq!(wrong("cn:x", true), "does not have `{}` once, for what becomes the label");
        assert_eq!(wrong("cn:{}{}", true), "does not have `{}` once, for what becomes the label");
        assert_eq!(wrong("cn:{}", false), "takes something out with `{}`, which only the patterns of labels do");
    }
}
