use std::error::Error as _;

/// What went wrong with a request, from the outermost cause to the innermost. The error's own text is not in it: it holds
/// the URL.
pub fn causes(error: &reqwest::Error) -> String {
    let mut causes: Vec<String> = Vec::new();
    let mut next = error.source();
    while let Some(cause) = next {
        let text = cause.to_string();
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = cause.source();
    }
    if causes.is_empty() { "no cause is known".to_owned() } else { causes.join(": ") }
}
