//! What can be known of an expression before any call: names, functions, literal patterns, types.

use std::collections::HashSet;

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, SelectExpr, operators};

use crate::{
    facts::CLAIMED,
    functions::{FUNCTIONS, Function, Style, check_literal},
    kind::Kind,
    variable::{VARIABLES, Variable},
};

/// What an expression is for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Wanted {
    Boolean,
    Value,
}

/// What is wrong with a node.
pub(crate) struct Fault {
    pub(crate) node: u64,
    pub(crate) message: String,
}

/// Names of CEL's types, which are values too: `type(x) == string`.
const TYPES: [&str; 10] = ["bool", "bytes", "double", "dyn", "int", "list", "map", "null_type", "string", "uint"];

/// Checks a whole expression.
pub(crate) fn check(tree: &IdedExpr, wanted: Wanted) -> Result<(), Fault> {
    let mut checker = Checker { local: Vec::new() };
    let kind = checker.kind(tree)?;
    if wanted == Wanted::Boolean && !kind.fits(Kind::Bool) {
        return fault(tree, format!("a condition must be a boolean, this is {}", kind.noun()));
    }
    Ok(())
}

struct Checker<'t> {
    /// Variables of the macros around the node.
    local: Vec<&'t str>,
}

impl<'t> Checker<'t> {
    fn kind(&mut self, node: &'t IdedExpr) -> Result<Kind, Fault> {
        match &node.expr {
            Expr::Literal(literal) => Ok(literal_kind(literal)),
            Expr::Ident(name) => self.variable(node, name),
            Expr::Select(select) => self.select(node, select),
            Expr::Call(call) => self.call(node, call),
            Expr::List(list) => {
                for element in &list.elements {
                    self.kind(element)?;
                }
                Ok(Kind::List)
            }
            Expr::Map(map) => {
                let mut keys = HashSet::new();
                for entry in &map.entries {
                    let EntryExpr::MapEntry(entry) = &entry.expr else {
                        return fault(node, "a map has keys and values");
                    };
                    let kind = self.kind(&entry.key)?;
                    if matches!(kind, Kind::Null | Kind::List | Kind::Map | Kind::Bytes | Kind::Type) {
                        return fault(&entry.key, format!("{} is no key of a map", kind.noun()));
                    }
                    if let Expr::Literal(LiteralValue::String(key)) = &entry.key.expr
                        && !keys.insert(key.inner())
                    {
                        return fault(&entry.key, format!("duplicate key `{}`", key.inner()));
                    }
                    self.kind(&entry.value)?;
                }
                Ok(Kind::Map)
            }
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(made) => fault(node, format!("`{}{{…}}`: there are no message types", made.type_name)),
            Expr::Unspecified => fault(node, "not a CEL expression"),
        }
    }

    fn variable(&mut self, node: &IdedExpr, name: &'t str) -> Result<Kind, Fault> {
        if self.local.contains(&name) {
            return Ok(Kind::Any);
        }
        if let Some(variable) = Variable::named(name) {
            return Ok(variable_kind(variable));
        }
        if TYPES.contains(&name) {
            return Ok(Kind::Type);
        }
        let names = VARIABLES.iter().map(|variable| variable.name()).chain(self.local.iter().copied());
        fault(node, format!("unknown variable `{name}`{}", meant(name, names)))
    }

    fn select(&mut self, node: &IdedExpr, select: &'t SelectExpr) -> Result<Kind, Fault> {
        let operand = self.kind(&select.operand)?;
        if !operand.fits(Kind::Map) {
            let what = if select.test { "`has` asks of" } else { "a look-up needs" };
            return fault(node, format!("{what} a map, `.{}` is asked of {}", select.field, operand.noun()));
        }
        let claimed = || CLAIMED.into_iter().chain(["labels"]).collect();
        let (keys, what): (Vec<&str>, _) = match path_of(&select.operand).as_deref() {
            Some(["caller"]) if !self.local.contains(&"caller") => (vec!["labels", "claimed"], "`caller`"),
            Some(["caller", "claimed"]) if !self.local.contains(&"caller") => (claimed(), "`caller.claimed`"),
            _ => return Ok(if select.test { Kind::Bool } else { Kind::Any }),
        };
        if !keys.contains(&select.field.as_str()) {
            let meant = meant(&select.field, keys.iter().copied());
            return fault(node, format!("{what} has no key `{}`{meant}", select.field));
        }
        Ok(match select.field.as_str() {
            _ if select.test => Kind::Bool,
            "labels" | "claimed" => Kind::Map,
            _ => Kind::Text,
        })
    }

    fn comprehension(&mut self, comprehension: &'t ComprehensionExpr) -> Result<Kind, Fault> {
        let range = self.kind(&comprehension.iter_range)?;
        if !range.fits(Kind::List) && !range.fits(Kind::Map) {
            let message = format!("only lists and maps have elements, this is {}", range.noun());
            return fault(&comprehension.iter_range, message);
        }
        let name = comprehension.iter_var.as_str();
        if Variable::named(name).is_some() || self.local.contains(&name) {
            return fault(&comprehension.iter_range, format!("the element's name `{name}` is taken already"));
        }
        let result = self.kind(&comprehension.accu_init)?;
        let known = self.local.len();
        self.local.extend([name, comprehension.accu_var.as_str()]);
        self.kind(&comprehension.loop_cond)?;
        self.kind(&comprehension.loop_step)?;
        let made = self.kind(&comprehension.result)?;
        self.local.truncate(known);
        Ok(if made == Kind::Any { result } else { made })
    }

    fn call(&mut self, node: &IdedExpr, call: &'t CallExpr) -> Result<Kind, Fault> {
        let name = call.func_name.as_str();
        if call.target.is_none() {
            match (name, call.args.as_slice()) {
                (operators::LOGICAL_AND | operators::LOGICAL_OR, [left, right]) => {
                    self.boolean(left, "`&&` and `||` take")?;
                    self.boolean(right, "`&&` and `||` take")?;
                    return Ok(Kind::Bool);
                }
                (operators::LOGICAL_NOT, [operand]) => {
                    self.boolean(operand, "`!` takes")?;
                    return Ok(Kind::Bool);
                }
                (operators::NOT_STRICTLY_FALSE, [operand]) => {
                    self.kind(operand)?;
                    return Ok(Kind::Bool);
                }
                (operators::CONDITIONAL, [condition, yes, no]) => {
                    self.boolean(condition, "`?` takes")?;
                    let (yes, no) = (self.kind(yes)?, self.kind(no)?);
                    return Ok(if yes == no { yes } else { Kind::Any });
                }
                (operators::NEGATE, [operand]) => {
                    let kind = self.kind(operand)?;
                    if !kind.fits(Kind::Number) {
                        return fault(node, format!("`-` needs a number, this is {}", kind.noun()));
                    }
                    return Ok(Kind::Number);
                }
                (operators::INDEX, [container, index]) => return self.index(node, container, index),
                (operators::IN, [element, container]) => {
                    self.kind(element)?;
                    let kind = self.kind(container)?;
                    if !kind.fits(Kind::List) && !kind.fits(Kind::Map) {
                        return fault(node, format!("`in` looks into a list or a map, this is {}", kind.noun()));
                    }
                    return Ok(Kind::Bool);
                }
                (operator, [left, right]) if let Some(sign) = sign(operator) => {
                    return self.binary(node, sign, left, right);
                }
                _ => {}
            }
        }
        self.function(node, call)
    }

    fn boolean(&mut self, node: &'t IdedExpr, what: &str) -> Result<(), Fault> {
        let kind = self.kind(node)?;
        if kind.fits(Kind::Bool) {
            return Ok(());
        }
        fault(node, format!("{what} booleans, this is {}", kind.noun()))
    }

    fn index(&mut self, node: &IdedExpr, container: &'t IdedExpr, index: &'t IdedExpr) -> Result<Kind, Fault> {
        let kind = self.kind(container)?;
        let index = self.kind(index)?;
        if !kind.fits(Kind::List) && !kind.fits(Kind::Map) {
            return fault(node, format!("`[…]` looks into a list or a map, this is {}", kind.noun()));
        }
        if kind == Kind::List && !index.fits(Kind::Number) {
            return fault(node, format!("a list is indexed by a number, this is {}", index.noun()));
        }
        Ok(Kind::Any)
    }

    fn binary(&mut self, node: &IdedExpr, sign: &str, left: &'t IdedExpr, right: &'t IdedExpr) -> Result<Kind, Fault> {
        let (left, right) = (self.kind(left)?, self.kind(right)?);
        let pair = || format!("{} and {}", left.noun(), right.noun());
        match sign {
            "==" | "!=" => {
                // Any variable may be null, and asking for that is how one finds out.
                if !left.fits(right) && left != Kind::Null && right != Kind::Null {
                    return fault(node, format!("{} are never equal", pair()));
                }
                Ok(Kind::Bool)
            }
            "<" | "<=" | ">" | ">=" => {
                let ordered = |kind| matches!(kind, Kind::Any | Kind::Number | Kind::Text | Kind::Bool | Kind::Bytes);
                if !left.fits(right) || !ordered(left) || !ordered(right) {
                    return fault(node, format!("`{sign}` cannot compare {}", pair()));
                }
                Ok(Kind::Bool)
            }
            _ => {
                let added = |kind| {
                    matches!(kind, Kind::Any | Kind::Number)
                        || (sign == "+" && matches!(kind, Kind::Text | Kind::Bytes | Kind::List))
                };
                if !left.fits(right) || !added(left) || !added(right) {
                    return fault(node, format!("`{sign}` does not take {}", pair()));
                }
                Ok(if left == Kind::Any { right } else { left })
            }
        }
    }

    fn function(&mut self, node: &IdedExpr, call: &'t CallExpr) -> Result<Kind, Fault> {
        let name = call.func_name.as_str();
        let Some(function) = FUNCTIONS.iter().find(|function| function.name == name) else {
            let names = FUNCTIONS.iter().map(|function| function.name).chain(MACROS.iter().map(|(name, _)| *name));
            if let Some((_, form)) = MACROS.iter().find(|(known, _)| *known == name) {
                return fault(node, format!("`{name}` is written `{form}`"));
            }
            return fault(node, format!("unknown function `{name}`{}", meant(name, names)));
        };
        let style = if call.target.is_some() { Style::Receiver } else { Style::Global };
        let given: Vec<&IdedExpr> = call.target.iter().map(|target| &**target).chain(&call.args).collect();
        if !function.allows(style) || given.len() != function.arguments.len() {
            return fault(node, format!("`{name}` is written `{}`", function.form));
        }
        for (argument, wanted) in given.iter().zip(function.arguments) {
            let kind = self.kind(argument)?;
            if !kind.fits(*wanted) {
                return fault(
                    argument,
                    format!("`{}` takes {} here, this is {}", function.form, wanted.noun(), kind.noun()),
                );
            }
            if name == "size" && matches!(kind, Kind::Number | Kind::Bool | Kind::Null | Kind::Type) {
                return fault(argument, format!("{} has no size", kind.noun()));
            }
        }
        literals(function, &given)?;
        Ok(function.result)
    }
}

/// Patterns, ranges and the like that are written out must be good.
fn literals(function: &Function, given: &[&IdedExpr]) -> Result<(), Fault> {
    for (place, argument) in given.iter().enumerate() {
        if let Expr::Literal(LiteralValue::String(text)) = &argument.expr
            && let Err(message) = check_literal(function.name, place, text.inner())
        {
            return fault(argument, message);
        }
    }
    Ok(())
}

/// The macros and how they are written.
const MACROS: [(&str, &str); 7] = [
    ("has", "has(map.key)"),
    ("all", "list.all(x, condition)"),
    ("exists", "list.exists(x, condition)"),
    ("exists_one", "list.exists_one(x, condition)"),
    ("existsOne", "list.existsOne(x, condition)"),
    ("map", "list.map(x, value)"),
    ("filter", "list.filter(x, condition)"),
];

fn sign(operator: &str) -> Option<&'static str> {
    Some(match operator {
        operators::EQUALS => "==",
        operators::NOT_EQUALS => "!=",
        operators::LESS => "<",
        operators::LESS_EQUALS => "<=",
        operators::GREATER => ">",
        operators::GREATER_EQUALS => ">=",
        operators::ADD => "+",
        operators::SUBSTRACT => "-",
        operators::MULTIPLY => "*",
        operators::DIVIDE => "/",
        operators::MODULO => "%",
        _ => return None,
    })
}

fn literal_kind(literal: &LiteralValue) -> Kind {
    match literal {
        LiteralValue::Boolean(_) => Kind::Bool,
        LiteralValue::Bytes(_) => Kind::Bytes,
        LiteralValue::Double(_) | LiteralValue::Int(_) | LiteralValue::UInt(_) => Kind::Number,
        LiteralValue::Null => Kind::Null,
        LiteralValue::String(_) => Kind::Text,
    }
}

fn variable_kind(variable: Variable) -> Kind {
    match variable {
        Variable::Event
        | Variable::SessionId
        | Variable::Tool
        | Variable::ToolKind
        | Variable::McpServer
        | Variable::Cwd => Kind::Text,
        Variable::Timestamp => Kind::Number,
        Variable::Params | Variable::Caller => Kind::Map,
        Variable::Result | Variable::Payload => Kind::Any,
    }
}

/// The segments of `a.b.c`.
fn path_of(node: &IdedExpr) -> Option<Vec<&str>> {
    match &node.expr {
        Expr::Ident(name) => Some(vec![name]),
        Expr::Select(select) if !select.test => {
            let mut path = path_of(&select.operand)?;
            path.push(&select.field);
            Some(path)
        }
        _ => None,
    }
}

/// `: did you mean …`, where something known is near.
fn meant<'n>(name: &str, known: impl Iterator<Item = &'n str>) -> String {
    let lower = name.to_lowercase();
    let nearest = known
        .filter(|known| !known.starts_with('@'))
        .map(|known| (strsim::damerau_levenshtein(&lower, &known.to_lowercase()), known))
        .min_by_key(|(distance, _)| *distance)
        .filter(|(distance, _)| *distance <= name.chars().count().div_ceil(3));
    nearest.map(|(_, known)| format!(", did you mean `{known}`")).unwrap_or_default()
}

fn fault<T>(node: &IdedExpr, message: impl Into<String>) -> Result<T, Fault> {
    Err(Fault { node: node.id, message: message.into() })
}
