//! From text to cel's syntax tree, within limits.

use cel::{
    IdedExpr,
    common::ast::{EntryExpr, Expr, IdedEntryExpr},
    parser::{Parser, PrattParser},
};

use crate::{
    ConditionError,
    check::{self, Wanted},
};

/// The longest expression, in bytes.
pub(crate) const MAX_TEXT: usize = 4096;

/// How deeply brackets, and how deeply the parts of an expression, may be nested.
pub(crate) const MAX_DEPTH: usize = 32;

/// How many `? :` one expression may have: cel's parser nests them on the stack.
const MAX_CHOICES: usize = 32;

/// How many operators, calls, look-ups and literals one expression may have.
pub(crate) const MAX_NODES: usize = 1000;

/// The checked syntax tree of `text`.
///
/// # Errors
/// The first thing that is wrong with it, and where.
pub(crate) fn parse(text: &str, wanted: Wanted) -> Result<IdedExpr, ConditionError> {
    if text.len() > MAX_TEXT {
        let message = format!("an expression has at most {MAX_TEXT} bytes, this one {}", text.len());
        return Err(ConditionError::at(text, 0, message));
    }
    if text.trim().is_empty() {
        return Err(ConditionError::at(text, 0, "expected an expression, found nothing"));
    }
    limit_nesting(text)?;
    let tree = PrattParser::new().max_recursion_depth(96).parse(text).map_err(|errors| syntax_error(text, &errors))?;
    let mut nodes = 0;
    measure(&tree, 0, &mut nodes).map_err(|message| ConditionError::at(text, 0, message))?;
    match check::check(&tree, wanted) {
        Ok(()) => Ok(tree),
        Err(fault) => Err(ConditionError::at(text, place(text, wanted), fault.message)),
    }
}

/// Counts the parts under `node` and how deeply they are nested, before anything else walks the tree.
fn measure(node: &IdedExpr, depth: usize, nodes: &mut usize) -> Result<(), String> {
    *nodes = nodes.saturating_add(1);
    if *nodes > MAX_NODES {
        return Err(format!("more than {MAX_NODES} parts"));
    }
    if depth > MAX_DEPTH {
        return Err(format!("nested more than {MAX_DEPTH} deep"));
    }
    let mut below = |node: &IdedExpr| measure(node, depth.saturating_add(1), nodes);
    match &node.expr {
        Expr::Select(select) => below(&select.operand),
        Expr::Call(call) => call.target.iter().map(|target| &**target).chain(&call.args).try_for_each(below),
        Expr::List(list) => list.elements.iter().try_for_each(below),
        Expr::Map(map) => entries(&map.entries).try_for_each(below),
        Expr::Struct(made) => entries(&made.entries).try_for_each(below),
        Expr::Comprehension(parts) => {
            [&parts.iter_range, &parts.accu_init, &parts.loop_cond, &parts.loop_step, &parts.result]
                .into_iter()
                .try_for_each(below)
        }
        Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => Ok(()),
    }
}

fn entries(entries: &[IdedEntryExpr]) -> impl Iterator<Item = &IdedExpr> {
    entries.iter().flat_map(|entry| match &entry.expr {
        EntryExpr::MapEntry(entry) => vec![&entry.key, &entry.value],
        EntryExpr::StructField(field) => vec![&field.value],
    })
}

/// The first error of cel's parser in our words.
fn syntax_error(text: &str, errors: &cel::ParseErrors) -> ConditionError {
    let Some(first) = errors.errors.first() else {
        return ConditionError::at(text, 0, "not a CEL expression");
    };
    let (line, column) = first.pos;
    let line = usize::try_from(line).unwrap_or(1).saturating_sub(1);
    let column = usize::try_from(column).unwrap_or(1).saturating_sub(1);
    let before: usize = text.split_inclusive('\n').take(line).map(str::len).sum();
    let message = first.msg.strip_prefix("Syntax error: ").unwrap_or(&first.msg);
    let message = message.replace("'<EOF>'", "the end").replace("<EOF>", "the end").replace('\'', "`");
    let mismatch = message.strip_prefix("mismatched input ").and_then(|rest| rest.split_once(" expecting "));
    let message = match mismatch {
        Some((found, expected)) => format!("expected {expected}, found {found}"),
        None => message,
    };
    ConditionError::at(text, before.saturating_add(column), message)
}

/// Where the checker's first fault stands. The fast parser keeps no places of nodes, so the slow one has to say.
fn place(text: &str, wanted: Wanted) -> usize {
    let Ok((tree, source)) = Parser::new().parse_with_source_info(text) else {
        return 0;
    };
    let Err(fault) = check::check(&tree, wanted) else {
        return 0;
    };
    source.offset_for(fault.node).map_or(0, |(start, _)| usize::try_from(start).unwrap_or(0))
}

/// Refuses what could exhaust the stack of a recursive parser, before it runs.
fn limit_nesting(text: &str) -> Result<(), ConditionError> {
    let bytes = text.as_bytes();
    let (mut depth, mut choices, mut at) = (0_usize, 0_usize, 0_usize);
    while let Some(byte) = bytes.get(at) {
        match byte {
            b'(' | b'[' | b'{' => depth = depth.saturating_add(1),
            b')' | b']' | b'}' => depth = depth.saturating_sub(1),
            b'?' => choices = choices.saturating_add(1),
            b'/' if bytes.get(at.saturating_add(1)) == Some(&b'/') => {
                at = text.get(at..).and_then(|rest| rest.find('\n')).map_or(bytes.len(), |end| at.saturating_add(end));
            }
            b'"' | b'\'' => at = end_of_string(text, at),
            _ => {}
        }
        if depth > MAX_DEPTH {
            return Err(ConditionError::at(text, at, format!("nested more than {MAX_DEPTH} deep")));
        }
        if choices > MAX_CHOICES {
            return Err(ConditionError::at(text, at, format!("more than {MAX_CHOICES} `?`")));
        }
        at = at.saturating_add(1);
    }
    Ok(())
}

/// The last byte of the string literal that starts with the quote at `start`.
fn end_of_string(text: &str, start: usize) -> usize {
    let rest = text.get(start..).unwrap_or_default();
    let quote = rest.get(..1).unwrap_or_default();
    let triple = quote.repeat(3);
    let closing = if rest.starts_with(&triple) { triple.as_str() } else { quote };
    let word_start = text
        .get(..start)
        .unwrap_or_default()
        .rfind(|c: char| !c.is_ascii_alphanumeric() && c != '_')
        .map_or(0, |before| before.saturating_add(1));
    let prefix = text.get(word_start..start).unwrap_or_default();
    let raw = matches!(prefix, "r" | "R" | "rb" | "rB" | "Rb" | "RB" | "br" | "bR" | "Br" | "BR");
    let mut at = start.saturating_add(closing.len());
    while let Some(rest) = text.get(at..).filter(|rest| !rest.is_empty()) {
        if rest.starts_with(closing) {
            return at.saturating_add(closing.len()).saturating_sub(1);
        }
        let escaped = !raw && rest.starts_with('\\');
        let step: usize = rest.chars().take(if escaped { 2 } else { 1 }).map(char::len_utf8).sum();
        at = at.saturating_add(step);
    }
    text.len()
}
