//! `*` in a text: any run of characters, white space too.

/// A text in which `*` stands for any run of characters; `\*` is a star and `\\` a backslash.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct Wildcard {
    /// What stands between the stars, one more than there are stars; not empty.
    parts: Box<[Box<str>]>,
}

impl Wildcard {
    pub(super) fn new(text: &str) -> Self {
        let mut parts = Vec::new();
        let mut part = String::new();
        let mut rest = text.chars().peekable();
        while let Some(c) = rest.next() {
            match c {
                '*' => parts.push(std::mem::take(&mut part).into_boxed_str()),
                '\\' => part.push(rest.next_if(|next| matches!(next, '*' | '\\')).unwrap_or('\\')),
                c => part.push(c),
            }
        }
        parts.push(part.into_boxed_str());
        Self { parts: parts.into() }
    }

    /// Whether the whole of `text` is one.
    pub(super) fn matches(&self, text: &str) -> bool {
        let Some((first, rest)) = self.parts.split_first() else { return false };
        let Some((last, middle)) = rest.split_last() else { return text == &**first };
        let inner = text.strip_prefix(&**first).and_then(|text| text.strip_suffix(&**last));
        let Some(mut inner) = inner else { return false };
        // The earliest place of each part leaves the most for those after it.
        middle.iter().all(|part| match inner.find(&**part).and_then(|at| inner.get(at.saturating_add(part.len())..)) {
            Some(after) => {
                inner = after;
                true
            }
            None => false,
        })
    }
}
