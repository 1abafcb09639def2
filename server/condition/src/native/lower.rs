//! From cel's checked syntax tree to native parts.

use cel::common::ast::{CallExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use super::{Given, Literal, Operand, Order, Step, Test, TextTest};
use crate::{
    functions::{Range, glob_pattern},
    interpret::Interpreted,
    pattern::Pattern,
    variable::Variable,
};

/// The native form of a condition. What has none is left to cel, part by part.
///
/// # Errors
/// A literal pattern, glob or range is bad: the checker has refused those already.
pub(crate) fn lower(tree: IdedExpr) -> Result<Test, String> {
    if !is_plain(&tree) {
        // The outermost part that has a native form may still be a connective.
        let IdedExpr { id, expr } = tree;
        return match expr {
            Expr::Call(call) if call.target.is_none() => connective(id, call),
            expr => interpreted(IdedExpr { id, expr }),
        };
    }
    match test(&tree)? {
        Some(test) => Ok(test),
        None => interpreted(tree),
    }
}

/// The native form of an expression that gives a value.
///
/// # Errors
/// As [`lower`].
pub(crate) fn lower_value(tree: IdedExpr) -> Result<Given, String> {
    if let Some(operand) = operand(&tree) {
        return Ok(Given::Operand(operand));
    }
    if let Expr::Call(call) = &tree.expr
        && call.func_name == "redact"
        && let [value, pattern, with] = call.args.as_slice()
        && let (Some(value), Some(pattern), Some(with)) = (operand(value), text(pattern), text(with))
    {
        return Ok(Given::Redact(value, Pattern::new(pattern)?, with.into()));
    }
    Ok(Given::Interpreted(Box::new(Interpreted::new(tree)?)))
}

fn interpreted(tree: IdedExpr) -> Result<Test, String> {
    Ok(Test::Interpreted(Box::new(Interpreted::new(tree)?)))
}

/// Whether the node is no connective, so that it has a native form as a whole or not at all.
fn is_plain(node: &IdedExpr) -> bool {
    let Expr::Call(call) = &node.expr else { return true };
    let connective = [operators::LOGICAL_AND, operators::LOGICAL_OR, operators::LOGICAL_NOT, operators::CONDITIONAL];
    !connective.contains(&call.func_name.as_str())
}

fn connective(id: u64, call: CallExpr) -> Result<Test, String> {
    let name = call.func_name.clone();
    let mut parts = call.args.into_iter().map(lower).collect::<Result<Vec<_>, _>>()?;
    Ok(match (name.as_str(), parts.len()) {
        (operators::LOGICAL_AND, 2) => Test::All(flat(parts, |part| match part {
            Test::All(parts) => Ok(parts),
            part => Err(part),
        })),
        (operators::LOGICAL_OR, 2) => Test::Any(flat(parts, |part| match part {
            Test::Any(parts) => Ok(parts),
            part => Err(part),
        })),
        (operators::LOGICAL_NOT, 1) => match parts.pop() {
            Some(part) => Test::Not(Box::new(part)),
            None => return Err(format!("part {id} is nothing")),
        },
        (operators::CONDITIONAL, 3) => {
            let parts: Result<[Test; 3], _> = parts.try_into();
            Test::Choice(Box::new(parts.map_err(|_| format!("part {id} is no choice"))?))
        }
        _ => return Err(format!("part {id} is no connective")),
    })
}

/// `a && (b && c)` as one list: cel's errors are forgotten in the same way.
fn flat(parts: Vec<Test>, open: impl Fn(Test) -> Result<Box<[Test]>, Test>) -> Box<[Test]> {
    let mut all = Vec::with_capacity(parts.len());
    for part in parts {
        match open(part) {
            Ok(parts) => all.extend(parts),
            Err(part) => all.push(part),
        }
    }
    all.into_boxed_slice()
}

/// The native form of a node that is no connective, if it has one.
fn test(node: &IdedExpr) -> Result<Option<Test>, String> {
    match &node.expr {
        Expr::Literal(LiteralValue::Boolean(value)) => Ok(Some(Test::Literal(*value.inner()))),
        Expr::Select(select) if select.test => Ok(has(select)),
        Expr::Call(call) => called(call),
        _ => Ok(operand(node).map(Test::Is)),
    }
}

fn has(select: &SelectExpr) -> Option<Test> {
    let parent = operand(&select.operand)?;
    if let Some(said @ (Operand::Claimed(_) | Operand::Label(_))) =
        step(parent.clone(), Step::Key(select.field.as_str().into()))
    {
        return Some(Test::Present(said));
    }
    Some(Test::Has(parent, select.field.as_str().into()))
}

fn called(call: &CallExpr) -> Result<Option<Test>, String> {
    let arguments: Vec<&IdedExpr> = call.target.iter().map(|target| &**target).chain(&call.args).collect();
    let [left, right] = arguments.as_slice() else { return Ok(None) };
    if call.func_name == operators::IN
        && let Expr::List(list) = &right.expr
    {
        let literals = list.elements.iter().map(literal).collect::<Option<Vec<_>>>();
        return Ok(operand(left).zip(literals).map(|(left, list)| Test::InLiterals(left, list.into())));
    }
    let Some(first) = operand(left) else {
        return Ok(index(call).map(Test::Is));
    };
    let pattern = |glob: bool| match text(right) {
        Some(text) if glob => Pattern::new(&glob_pattern(text)?).map(Some),
        Some(text) => Pattern::new(text).map(Some),
        None => Ok(None),
    };
    Ok(match call.func_name.as_str() {
        "matches" => pattern(false)?.map(|pattern| Test::Matches(first, pattern)),
        "anyMatch" => pattern(false)?.map(|pattern| Test::AnyMatch(first, pattern)),
        "glob" => pattern(true)?.map(|pattern| Test::Glob(first, pattern)),
        "cidr" => match text(right) {
            Some(range) => Some(Test::Cidr(first, Box::new(Range::parse(range)?))),
            None => None,
        },
        operators::INDEX => index(call).map(Test::Is),
        name => operand(right).and_then(|second| pair(name, Box::new([first, second]))),
    })
}

fn pair(name: &str, pair: Box<[Operand; 2]>) -> Option<Test> {
    Some(match name {
        operators::EQUALS => Test::Equal(pair),
        operators::NOT_EQUALS => Test::Not(Box::new(Test::Equal(pair))),
        operators::LESS => Test::Order(Order::Less, pair),
        operators::LESS_EQUALS => Test::Order(Order::LessEqual, pair),
        operators::GREATER => Test::Order(Order::Greater, pair),
        operators::GREATER_EQUALS => Test::Order(Order::GreaterEqual, pair),
        operators::IN => Test::In(pair),
        "startsWith" => Test::Text(TextTest::Starts, pair),
        "endsWith" => Test::Text(TextTest::Ends, pair),
        "contains" => Test::Text(TextTest::Contains, pair),
        "under" => Test::Under(pair),
        _ => return None,
    })
}

fn operand(node: &IdedExpr) -> Option<Operand> {
    match &node.expr {
        Expr::Literal(_) => literal(node).map(Operand::Literal),
        Expr::Ident(name) => Variable::named(name).map(Operand::Variable),
        Expr::Select(select) if !select.test => {
            step(operand(&select.operand)?, Step::Key(select.field.as_str().into()))
        }
        Expr::Call(call) if call.func_name == operators::INDEX => index(call),
        Expr::Call(call) if call.func_name == "size" => {
            let argument = call.target.as_deref().or(call.args.first())?;
            Some(Operand::Size(Box::new(operand(argument)?)))
        }
        _ => None,
    }
}

fn index(call: &CallExpr) -> Option<Operand> {
    let [container, index] = call.args.as_slice() else { return None };
    if call.func_name != operators::INDEX {
        return None;
    }
    let index = match literal(index)? {
        Literal::Text(key) => Step::Key(key),
        Literal::Int(index) => Step::Index(usize::try_from(index).ok()?),
        _ => return None,
    };
    step(operand(container)?, index)
}

fn step(operand: Operand, step: Step) -> Option<Operand> {
    match (operand, step) {
        (
            Operand::Variable(root @ (Variable::Params | Variable::Result | Variable::Payload | Variable::Caller)),
            step,
        ) => Some(Operand::Path(root, Box::new([step]))),
        (Operand::Path(Variable::Caller, steps), Step::Key(key)) => match steps.as_ref() {
            [Step::Key(part)] if **part == *"claimed" && *key != *"labels" => Some(Operand::Claimed(key)),
            [Step::Key(part)] if **part == *"labels" => Some(Operand::Label(key)),
            _ => Some(longer(Variable::Caller, steps, Step::Key(key))),
        },
        (Operand::Path(root, steps), step) => Some(longer(root, steps, step)),
        _ => None,
    }
}

fn longer(root: Variable, steps: Box<[Step]>, step: Step) -> Operand {
    Operand::Path(root, steps.into_iter().chain([step]).collect())
}

fn literal(node: &IdedExpr) -> Option<Literal> {
    let Expr::Literal(literal) = &node.expr else { return None };
    Some(match literal {
        LiteralValue::Null => Literal::Null,
        LiteralValue::Boolean(value) => Literal::Bool(*value.inner()),
        LiteralValue::Int(int) => Literal::Int(*int.inner()),
        LiteralValue::UInt(uint) => Literal::Uint(*uint.inner()),
        LiteralValue::Double(double) => Literal::Double(double.inner().to_bits()),
        LiteralValue::String(text) => Literal::Text(text.inner().into()),
        LiteralValue::Bytes(_) => return None,
    })
}

fn text(node: &IdedExpr) -> Option<&str> {
    match &node.expr {
        Expr::Literal(LiteralValue::String(text)) => Some(text.inner()),
        _ => None,
    }
}
