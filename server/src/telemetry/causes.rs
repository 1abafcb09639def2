use std::error::Error;

/// What went wrong with a request, from the outermost cause to the innermost. The error's own text is not in it: it holds
/// the URL.
pub fn causes(error: &reqwest::Error) -> String {
    texts(error.source())
}

/// What went wrong, from the outermost cause to the innermost, in an error whose own text holds nothing of a request.
pub fn all_causes(error: &(dyn Error + 'static)) -> String {
    texts(Some(error))
}

fn texts(mut next: Option<&(dyn Error + 'static)>) -> String {
    let mut causes: Vec<String> = Vec::new();
    while let Some(cause) = next {
        let text = cause.to_string();
        if causes.last() != Some(&text) {
            causes.push(text);
        }
        next = cause.source();
    }
    if causes.is_empty() { "no cause is known".to_owned() } else { causes.join(": ") }
}
