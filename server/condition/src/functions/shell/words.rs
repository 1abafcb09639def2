//! Words of a shell text: their text without quotes, and the commands inside of them.

use brush_parser::{
    ParserOptions,
    word::{Parameter, ParameterExpr, WordPiece, WordPieceWithSource, parse, parse_heredoc},
};

use super::{Inner, MAX_DIGITS, MAX_SUBSTITUTIONS, Walked, quotes};

/// How deeply `${a:-${b}}` and quotes may be nested.
const MAX_DEPTH: usize = 10;

/// Adds the text of `word` to `text`, and the commands in it to `inner`. Tells whether the shell puts something into it.
pub(super) fn read(
    word: &str,
    options: &ParserOptions,
    text: &mut String,
    inner: &mut Vec<Inner>,
) -> Result<bool, String> {
    let mut reader = Reader { options, inner, expands: false };
    reader.word(word, text, 0)?;
    Ok(reader.expands)
}

/// As [`read`], of the body of a here-document.
pub(super) fn read_document(body: &str, options: &ParserOptions, inner: &mut Vec<Inner>) -> Result<bool, String> {
    limit(body)?;
    let pieces = parse_heredoc(body, options).map_err(|error| format!("not a shell text: {error}"))?;
    let mut reader = Reader { options, inner, expands: false };
    reader.pieces(body, &pieces, &mut String::new(), false, 0)?;
    Ok(reader.expands)
}

struct Reader<'r> {
    options: &'r ParserOptions,
    inner: &'r mut Vec<Inner>,
    /// It has seen something that the shell puts in when it runs.
    expands: bool,
}

impl Reader<'_> {
    fn word(&mut self, word: &str, text: &mut String, depth: usize) -> Walked {
        if depth > MAX_DEPTH {
            return Err(format!("a word is nested more than {MAX_DEPTH} deep"));
        }
        limit(word)?;
        // Most words are plain.
        if word.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_./:=,+@%".contains(&byte)) {
            text.push_str(word);
            return Ok(());
        }
        let pieces = parse(word, self.options).map_err(|error| format!("not a shell text: {error}"))?;
        self.pieces(word, &pieces, text, false, depth)
    }

    fn pieces(
        &mut self,
        word: &str,
        pieces: &[WordPieceWithSource],
        text: &mut String,
        quoted: bool,
        depth: usize,
    ) -> Walked {
        let deeper = depth.saturating_add(1);
        for piece in pieces {
            self.expands |= matches!(
                piece.piece,
                WordPiece::ParameterExpansion(_)
                    | WordPiece::CommandSubstitution(_)
                    | WordPiece::BackquotedCommandSubstitution(_)
            );
            match &piece.piece {
                // A line that goes on after `\` is one line.
                WordPiece::Text(part) if quoted => text.push_str(&part.replace("\\\n", "")),
                WordPiece::Text(part) | WordPiece::SingleQuotedText(part) => text.push_str(part),
                WordPiece::AnsiCQuotedText(part) => quotes::ansi_c(part, text)?,
                WordPiece::DoubleQuotedSequence(pieces) | WordPiece::GettextDoubleQuotedSequence(pieces) => {
                    self.pieces(word, pieces, text, true, deeper)?;
                }
                WordPiece::EscapeSequence(escape) => match escape.strip_prefix('\\') {
                    Some("\n") => {}
                    Some(escaped) => text.push_str(escaped),
                    None => return Err("not a shell text".to_owned()),
                },
                WordPiece::TildeExpansion(_) => text.push_str(source(word, piece, &["~"])?),
                WordPiece::ParameterExpansion(expansion) => {
                    text.push_str(source(word, piece, &["$"])?);
                    self.expansion(expansion, deeper)?;
                }
                WordPiece::CommandSubstitution(command) => {
                    text.push_str(source(word, piece, &["$("])?);
                    self.inner.push(Inner::Text(command.clone()));
                }
                WordPiece::BackquotedCommandSubstitution(command) => {
                    text.push_str(source(word, piece, &["`"])?);
                    self.inner.push(Inner::Text(command.clone()));
                }
                WordPiece::ArithmeticExpression(expression) => {
                    text.push_str(source(word, piece, &["$((", "$["])?);
                    self.inside(&expression.value, deeper)?;
                }
            }
        }
        Ok(())
    }

    /// The commands in a text that is itself no part of the word.
    fn inside(&mut self, text: &str, depth: usize) -> Walked {
        self.word(text, &mut String::new(), depth)
    }

    fn expansion(&mut self, expansion: &ParameterExpr, depth: usize) -> Walked {
        let (parameter, texts): (_, [Option<&str>; 2]) = match expansion {
            ParameterExpr::UseDefaultValues { parameter, default_value: text, .. }
            | ParameterExpr::AssignDefaultValues { parameter, default_value: text, .. }
            | ParameterExpr::IndicateErrorIfNullOrUnset { parameter, error_message: text, .. }
            | ParameterExpr::UseAlternativeValue { parameter, alternative_value: text, .. }
            | ParameterExpr::RemoveSmallestSuffixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveLargestSuffixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveSmallestPrefixPattern { parameter, pattern: text, .. }
            | ParameterExpr::RemoveLargestPrefixPattern { parameter, pattern: text, .. }
            | ParameterExpr::UppercaseFirstChar { parameter, pattern: text, .. }
            | ParameterExpr::UppercasePattern { parameter, pattern: text, .. }
            | ParameterExpr::LowercaseFirstChar { parameter, pattern: text, .. }
            | ParameterExpr::LowercasePattern { parameter, pattern: text, .. } => (parameter, [text.as_deref(), None]),
            ParameterExpr::ReplaceSubstring { parameter, pattern, replacement, .. } => {
                (parameter, [Some(pattern), replacement.as_deref()])
            }
            ParameterExpr::Substring { parameter, offset, length, .. } => {
                (parameter, [Some(&offset.value), length.as_ref().map(|length| length.value.as_str())])
            }
            ParameterExpr::Parameter { parameter, .. }
            | ParameterExpr::ParameterLength { parameter, .. }
            | ParameterExpr::Transform { parameter, .. } => (parameter, [None, None]),
            ParameterExpr::VariableNames { .. } | ParameterExpr::MemberKeys { .. } => return Ok(()),
        };
        let index = match parameter {
            Parameter::NamedWithIndex { index, .. } => Some(index.as_str()),
            _ => None,
        };
        texts.into_iter().chain([index]).flatten().try_for_each(|text| self.inside(text, depth))
    }
}

/// How `piece` is written in `word`.
fn source<'w>(word: &'w str, piece: &WordPieceWithSource, starts: &[&str]) -> Result<&'w str, String> {
    let written = word.get(piece.start_index..piece.end_index);
    let written = written.filter(|written| starts.iter().any(|start| written.starts_with(start)));
    written.ok_or_else(|| "a word cannot be told".to_owned())
}

/// Refuses what the parser would need too much time for: it tries again for each opening that it does not find closed.
fn limit(word: &str) -> Walked {
    let openings = |opening: &str| word.matches(opening).count();
    let plain = word.split("${").skip(1).filter(|rest| {
        let name = rest.trim_start_matches(|c: char| c.is_ascii_alphanumeric() || c == '_');
        name.starts_with('}')
    });
    let nested = openings("$(")
        .saturating_add(openings("${").saturating_sub(plain.count()))
        .saturating_add(openings("$["))
        .saturating_add(openings("`").div_ceil(2));
    if nested > MAX_SUBSTITUTIONS {
        return Err(format!("a word has more than {MAX_SUBSTITUTIONS} substitutions"));
    }
    // The parser panics on numbers that no shell takes either.
    for rest in word.split(['~', '$', '{']).skip(1) {
        let digits = rest.trim_start_matches(['+', '-']);
        if digits.len().saturating_sub(digits.trim_start_matches(|c: char| c.is_ascii_digit()).len()) > MAX_DIGITS {
            return Err("not a shell text: a number is too large".to_owned());
        }
    }
    Ok(())
}
