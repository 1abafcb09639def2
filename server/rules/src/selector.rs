//! Which callers the rules of a source are for: Kubernetes' label selectors, over labels that were verified (issue 6).

use std::{collections::BTreeSet, fmt};

use hookd_json::Value;
use serde_json::json;

/// The labels of one caller, sorted by key, each key once: what was verified of it, never what it says of itself.
pub type LabelPairs = [(String, String)];

/// Which callers a source is for: those whose labels meet every requirement. Without any requirement it is for everyone.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Selector {
    /// Sorted, each once.
    requirements: Box<[Requirement]>,
    missing_label: MissingLabel,
}

/// What one label must be.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Requirement {
    /// The key of the label.
    pub key: String,
    /// What must hold of its value.
    pub operator: Operator,
}

/// The operators of Kubernetes' `matchExpressions`. `matchLabels` is [`Operator::In`] with one value.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Operator {
    /// The label is there, with one of these values.
    In(BTreeSet<String>),
    /// The label is not there, or has none of these values.
    NotIn(BTreeSet<String>),
    /// The label is there.
    Exists,
    /// The label is not there.
    DoesNotExist,
}

/// What becomes of the call of a caller that lacks a label which a selector needs.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Default)]
pub enum MissingLabel {
    /// It is refused: nobody can tell whether the rules are for this caller, and they must not silently fall away.
    #[default]
    Deny,
    /// The rules are not for this caller.
    Skip,
}

/// Whether the rules of a source are for one caller.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Fit<'s> {
    /// They are.
    Applies,
    /// They are not: the label is not what this requirement asks for.
    Differs(&'s Requirement),
    /// The caller lacks the label that this requirement needs.
    Lacks(&'s Requirement),
}

impl Selector {
    /// The selector of these requirements.
    ///
    /// # Errors
    /// The key whose requirements no value meets, and why: rules that are for nobody are rules that fell away.
    pub fn new(
        requirements: impl IntoIterator<Item = Requirement>,
        missing_label: MissingLabel,
    ) -> Result<Self, String> {
        let requirements = requirements.into_iter().collect::<BTreeSet<_>>();
        for Requirement { key, .. } in &requirements {
            let of_key = || requirements.iter().filter(|requirement| requirement.key == *key);
            let absent_is_right = of_key().all(|requirement| requirement.is_met_without());
            let values = of_key().filter_map(|requirement| match &requirement.operator {
                Operator::In(values) => Some(values),
                _ => None,
            });
            let some_value_is_right = match values.min_by_key(|values| values.len()) {
                Some(values) => values.iter().any(|value| of_key().all(|requirement| requirement.is_met_by(value))),
                // There are more values than any list of those that it must not be.
                None => of_key().all(|requirement| requirement.operator != Operator::DoesNotExist),
            };
            if !absent_is_right && !some_value_is_right {
                return Err(format!("the requirements on `{key}` exclude each other: no caller can meet all of them"));
            }
        }
        Ok(Self { requirements: requirements.into_iter().collect(), missing_label })
    }

    /// What the labels must be, sorted.
    #[must_use]
    pub fn requirements(&self) -> &[Requirement] {
        &self.requirements
    }

    /// What becomes of a call that lacks a label which this needs.
    #[must_use]
    pub fn missing_label(&self) -> MissingLabel {
        self.missing_label
    }

    /// Whether it is for the caller with these labels.
    ///
    /// A label that is needed and missing counts before everything else: that another requirement fails is no reason to
    /// overlook it, so that whether a caller is refused hangs on which labels it has and never on their values.
    #[must_use]
    pub fn fit(&self, labels: &LabelPairs) -> Fit<'_> {
        let mut fit = Fit::Applies;
        for requirement in &self.requirements {
            match label(labels, &requirement.key) {
                Some(value) if requirement.is_met_by(value) => {}
                None if requirement.is_met_without() => {}
                None => return Fit::Lacks(requirement),
                Some(_) => {
                    if fit == Fit::Applies {
                        fit = Fit::Differs(requirement);
                    }
                }
            }
        }
        fit
    }

    /// The keys of the labels that it needs. `In` and `Exists` need theirs. `NotIn` and `DoesNotExist` do not: a caller
    /// without the label meets them, as in Kubernetes, so their rules do not fall away but bind it.
    pub fn needed(&self) -> impl Iterator<Item = &str> {
        let needs = |requirement: &&Requirement| !requirement.is_met_without();
        self.requirements.iter().filter(needs).map(|requirement| requirement.key.as_str())
    }

    /// Its requirements, for the revision.
    pub(crate) fn meaning(&self) -> Value {
        self.requirements
            .iter()
            .map(|Requirement { key, operator }| json!([key, operator.name(), operator.values()]))
            .collect()
    }
}

impl Requirement {
    fn is_met_by(&self, value: &str) -> bool {
        match &self.operator {
            Operator::In(values) => values.contains(value),
            Operator::NotIn(values) => !values.contains(value),
            Operator::Exists => true,
            Operator::DoesNotExist => false,
        }
    }

    fn is_met_without(&self) -> bool {
        matches!(self.operator, Operator::NotIn(_) | Operator::DoesNotExist)
    }
}

impl Operator {
    /// Its name, as Kubernetes writes it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::In(_) => "In",
            Self::NotIn(_) => "NotIn",
            Self::Exists => "Exists",
            Self::DoesNotExist => "DoesNotExist",
        }
    }

    /// Its values, sorted. None for `Exists` and `DoesNotExist`.
    #[must_use]
    pub fn values(&self) -> Vec<&str> {
        match self {
            Self::In(values) | Self::NotIn(values) => values.iter().map(String::as_str).collect(),
            Self::Exists | Self::DoesNotExist => Vec::new(),
        }
    }
}

impl MissingLabel {
    /// Its name in the settings.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::Deny => "deny",
            Self::Skip => "skip",
        }
    }
}

impl fmt::Display for Selector {
    /// As `kubectl -l` writes it: `tenant=a,env in (prod,test),!trial`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (place, requirement) in self.requirements.iter().enumerate() {
            if place > 0 {
                f.write_str(",")?;
            }
            requirement.fmt(f)?;
        }
        Ok(())
    }
}

impl fmt::Display for Requirement {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let key = &self.key;
        let values = self.operator.values();
        match &self.operator {
            Operator::In(_) if values.len() == 1 => write!(f, "{key}={}", values.concat()),
            Operator::NotIn(_) if values.len() == 1 => write!(f, "{key}!={}", values.concat()),
            Operator::In(_) => write!(f, "{key} in ({})", values.join(",")),
            Operator::NotIn(_) => write!(f, "{key} notin ({})", values.join(",")),
            Operator::Exists => f.write_str(key),
            Operator::DoesNotExist => write!(f, "!{key}"),
        }
    }
}

/// The value of the label `key`.
pub(crate) fn label<'l>(labels: &'l LabelPairs, key: &str) -> Option<&'l str> {
    let place = labels.binary_search_by(|(there, _)| there.as_str().cmp(key)).ok()?;
    labels.get(place).map(|(_, value)| value.as_str())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn values(values: &str) -> BTreeSet<String> {
        values.split(',').map(str::to_owned).collect()
    }

    fn requirement(key: &str, operator: Operator) -> Requirement {
        Requirement { key: key.to_owned(), operator }
    }

    fn selector(requirements: &[(&str, Operator)]) -> Selector {
        let requirements = requirements.iter().map(|(key, operator)| requirement(key, operator.clone()));
        Selector::new(requirements, MissingLabel::Deny).unwrap()
    }

    fn labels(text: &str) -> Vec<(String, String)> {
        let pairs = text.split(',').filter_map(|pair| pair.split_once('='));
        let mut labels = pairs.map(|(key, value)| (key.to_owned(), value.to_owned())).collect::<Vec<_>>();
        labels.sort();
        labels
    }

    fn fit<'s>(selector: &'s Selector, text: &str) -> Fit<'s> {
        selector.fit(&labels(text))
    }

    #[test]
    fn operators_mean_what_kubernetes_says_and_in_and_exists_need_their_label() {
        let (a, b) = (|| values("a,b"), || values("b"));
        for (operator, with_a, with_c, without) in [
            (Operator::In(a()), "applies", "differs", "lacks"),
            (Operator::NotIn(a()), "differs", "applies", "applies"),
            (Operator::Exists, "applies", "applies", "lacks"),
            (Operator::DoesNotExist, "differs", "differs", "applies"),
            (Operator::In(b()), "differs", "differs", "lacks"),
            (Operator::NotIn(b()), "applies", "applies", "applies"),
        ] {
            let selector = selector(&[("k", operator)]);
            for (text, expected) in [("k=a", with_a), ("j=a,k=c", with_c), ("j=a,l=a", without)] {
                let came = match fit(&selector, text) {
                    Fit::Applies => "applies",
                    Fit::Differs(_) => "differs",
                    Fit::Lacks(_) => "lacks",
                };
                assert_eq!(came, expected, "{selector} on {text}");
            }
        }
    }

    #[test]
    fn a_requirement_that_fails_does_not_hide_a_label_that_is_missing() {
        let selector = selector(&[("project", Operator::Exists), ("tenant", Operator::In(values("a")))]);
        assert_eq!(fit(&selector, "project=p,tenant=a"), Fit::Applies);
        assert_eq!(fit(&selector, "project=p,tenant=b"), Fit::Differs(&selector.requirements[1]));
        assert_eq!(fit(&selector, "tenant=b"), Fit::Lacks(&selector.requirements[0]));
        assert_eq!(fit(&selector, "project=p"), Fit::Lacks(&selector.requirements[1]));
        assert_eq!(selector.needed().collect::<Vec<_>>(), ["project", "tenant"]);
    }

    #[test]
    fn the_order_in_which_a_selector_is_written_does_not_count() {
        let (one, two) = (("a", Operator::In(values("x,y"))), ("b", Operator::DoesNotExist));
        let selector_one = selector(&[one.clone(), two.clone()]);
        let selector_two = selector(&[two.clone(), ("a", Operator::In(values("y,x"))), one, two]);
        assert_eq!(selector_one, selector_two);
        assert_eq!(selector_one.to_string(), "a in (x,y),!b");
        let all = selector(&[
            ("a", Operator::In(values("x"))),
            ("b", Operator::NotIn(values("x"))),
            ("c", Operator::NotIn(values("x,y"))),
            ("d", Operator::Exists),
        ]);
        assert_eq!(all.to_string(), "a=x,b!=x,c notin (x,y),d");
        assert_eq!(fit(&selector(&[]), ""), Fit::Applies);
    }

    #[test]
    fn what_no_caller_can_meet_is_refused() {
        let (a, b) = (|| Operator::In(values("a")), || Operator::In(values("b,c")));
        for (operators, possible) in [
            (vec![a(), b()], false),
            (vec![a(), Operator::NotIn(values("a,b"))], false),
            (vec![a(), Operator::DoesNotExist], false),
            (vec![Operator::Exists, Operator::DoesNotExist], false),
            (vec![b(), Operator::NotIn(values("b"))], true),
            (vec![Operator::Exists, Operator::NotIn(values("b"))], true),
            (vec![Operator::DoesNotExist, Operator::NotIn(values("b"))], true),
            (vec![b(), Operator::In(values("c,d"))], true),
        ] {
            let requirements = operators.into_iter().map(|operator| requirement("k", operator));
            let made = Selector::new(requirements, MissingLabel::Skip);
            let message = "the requirements on `k` exclude each other: no caller can meet all of them".to_owned();
            assert_eq!(made.as_ref().err(), (!possible).then_some(&message), "{made:?}");
        }
    }
}
