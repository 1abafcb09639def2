/// The type of a value, where it is known.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    Any,
    Bool,
    Number,
    Text,
    Bytes,
    Null,
    List,
    Map,
    Type,
}

impl Kind {
    pub(crate) fn noun(self) -> &'static str {
        match self {
            Self::Any => "a value",
            Self::Bool => "a boolean",
            Self::Number => "a number",
            Self::Text => "a string",
            Self::Bytes => "bytes",
            Self::Null => "null",
            Self::List => "a list",
            Self::Map => "a map",
            Self::Type => "a type",
        }
    }

    /// Whether a value of this type can be one of `other`.
    pub(crate) fn fits(self, other: Self) -> bool {
        self == other || self == Self::Any || other == Self::Any
    }
}
