use std::error::Error;

/// `text` without control characters, starting in lowercase: it ends up on terminals and in front of models.
pub(crate) fn one_line(text: &str) -> String {
    let line =
        text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ");
    let mut chars = line.chars();
    match (chars.next(), chars.clone().next()) {
        // Not where the first word is a name in capitals.
        (Some(first), second) if !second.is_some_and(char::is_uppercase) => first.to_lowercase().chain(chars).collect(),
        (Some(_), _) => line,
        (None, _) => "no reason was given".to_owned(),
    }
}

/// The innermost error, in one line.
pub(crate) fn root_of(error: &(dyn Error + 'static)) -> String {
    let mut root = error;
    while let Some(source) = root.source() {
        root = source;
    }
    one_line(&root.to_string())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_of_others_are_made_one_plain_line() {
        assert_eq!(one_line("Tcp connect\n\u{1b}[31merror\r\n"), "tcp connect [31merror");
        assert_eq!(one_line("HTTP 503"), "HTTP 503");
        assert_eq!(one_line(" \n"), "no reason was given");
    }
}
