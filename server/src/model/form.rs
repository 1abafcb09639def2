use std::sync::Arc;

/// The value of the parameters and of the result at one point of the chain. JSON texts on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Form {
    /// The parameters, an object.
    pub params: Arc<str>,
    /// The result, where there is one.
    pub result: Option<Arc<str>>,
}
