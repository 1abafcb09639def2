//! What a syntax tree becomes before cel runs it.

use cel::common::ast::{CallExpr, ComprehensionExpr, EntryExpr, Expr, IdedExpr, LiteralValue, operators};

use super::functions::{Constant, METERED};

/// The changed tree and the constants that it names `@0`, `@1`, ….
///
/// # Errors
/// A literal is bad.
pub(super) fn rewrite(mut tree: IdedExpr) -> Result<(IdedExpr, Vec<Constant>), String> {
    let mut rewriter = Rewriter { constants: Vec::new(), elements: Vec::new() };
    rewriter.node(&mut tree)?;
    Ok((tree, rewriter.constants))
}

/// Literals of up to this many bytes need no counting: there are at most as many as elements that macros may walk.
const SMALL: usize = 64;

struct Rewriter {
    constants: Vec<Constant>,
    /// Names of the elements of the macros around the node.
    elements: Vec<String>,
}

impl Rewriter {
    /// Rewrites a node whose value is used as it is: what it looks up is told to be usable.
    fn node(&mut self, node: &mut IdedExpr) -> Result<(), String> {
        self.inner(node)?;
        let looks_up = match &node.expr {
            Expr::Select(select) => !select.test,
            Expr::Call(call) => call.func_name == operators::INDEX,
            Expr::Ident(name) => {
                self.elements.contains(name) || matches!(name.as_str(), "params" | "result" | "payload")
            }
            _ => false,
        };
        if looks_up {
            wrap(node, "@use", Vec::new());
        }
        Ok(())
    }

    /// Rewrites a node that is only looked into further.
    fn inner(&mut self, node: &mut IdedExpr) -> Result<(), String> {
        match &mut node.expr {
            Expr::Select(select) => self.inner(&mut select.operand),
            Expr::Call(call) => self.call(call),
            Expr::List(list) => list.elements.iter_mut().try_for_each(|element| self.kept(element)),
            Expr::Map(map) => map.entries.iter_mut().try_for_each(|entry| match &mut entry.expr {
                EntryExpr::MapEntry(entry) => {
                    self.node(&mut entry.key)?;
                    self.kept(&mut entry.value)
                }
                EntryExpr::StructField(field) => self.node(&mut field.value),
            }),
            Expr::Comprehension(comprehension) => self.comprehension(comprehension),
            Expr::Struct(_) | Expr::Literal(_) | Expr::Ident(_) | Expr::Unspecified => Ok(()),
        }
    }

    /// Rewrites a node whose value goes into a list or map: a copy of it is counted.
    fn kept(&mut self, node: &mut IdedExpr) -> Result<(), String> {
        self.node(node)?;
        let small = match &node.expr {
            Expr::Literal(LiteralValue::String(text)) => text.inner().len() <= SMALL,
            Expr::Literal(LiteralValue::Bytes(_)) => false,
            Expr::Literal(_) => true,
            _ => false,
        };
        if !small {
            wrap(node, "@keep", vec![meter()]);
        }
        Ok(())
    }

    fn comprehension(&mut self, comprehension: &mut ComprehensionExpr) -> Result<(), String> {
        self.node(&mut comprehension.iter_range)?;
        wrap(&mut comprehension.iter_range, "@walk", vec![meter()]);
        self.elements.push(comprehension.iter_var.clone());
        self.inner(&mut comprehension.loop_step)?;
        self.elements.pop();
        let accumulator = comprehension.accu_var.clone();
        let is_accumulator = |node: &IdedExpr| matches!(&node.expr, Expr::Ident(name) if *name == accumulator);
        // The step keeps its shape, by which cel knows how to run it fast and which errors it may forget.
        match &mut comprehension.loop_step.expr {
            Expr::Call(call) => match (call.func_name.as_str(), call.args.as_mut_slice()) {
                (operators::CONDITIONAL, [guard, ..]) => ticking(guard),
                (operators::LOGICAL_AND | operators::LOGICAL_OR, [first, second]) if is_accumulator(first) => {
                    ticking(second);
                }
                (operators::ADD, [first, IdedExpr { expr: Expr::List(list), .. }]) if is_accumulator(first) => {
                    list.elements.iter_mut().for_each(ticking);
                }
                _ => ticking(&mut comprehension.loop_step),
            },
            _ => ticking(&mut comprehension.loop_step),
        }
        Ok(())
    }

    fn call(&mut self, call: &mut CallExpr) -> Result<(), String> {
        if call.func_name == operators::INDEX
            && let [container, index] = call.args.as_mut_slice()
        {
            self.inner(container)?;
            return self.node(index);
        }
        let extends = call.func_name == operators::ADD
            && matches!(call.args.first(), Some(IdedExpr { expr: Expr::Ident(name), .. }) if name.starts_with('@'));
        for argument in call.target.iter_mut().map(|target| &mut **target).chain(&mut call.args) {
            self.node(argument)?;
        }
        let name = if call.func_name == operators::ADD && !extends { "@add" } else { &format!("@{}", call.func_name) };
        if METERED.contains(&name) {
            let target = call.target.take().map(|target| *target);
            call.args = target.into_iter().chain(std::mem::take(&mut call.args)).collect();
            if let Some(literal) = call.args.get_mut(1)
                && let Expr::Literal(LiteralValue::String(text)) = &literal.expr
                && let Some(constant) = Constant::of(name, text.inner())?
            {
                literal.expr = Expr::Ident(format!("@{}", self.constants.len()));
                self.constants.push(constant);
            }
            call.args.push(meter());
            call.func_name = name.to_owned();
        }
        Ok(())
    }
}

/// `node` becomes `function(node, more…)`.
fn wrap(node: &mut IdedExpr, function: &str, more: Vec<IdedExpr>) {
    let inner = std::mem::take(node);
    let args = std::iter::once(inner).chain(more).collect();
    *node = call(function, args);
}

/// `node` becomes `@tick(@meter) ? node : false`: the meter runs before the node, even if the node fails.
fn ticking(node: &mut IdedExpr) {
    let inner = std::mem::take(node);
    let tick = call("@tick", vec![meter()]);
    let never = IdedExpr { id: 0, expr: Expr::Literal(LiteralValue::Boolean(false.into())) };
    *node = call(operators::CONDITIONAL, vec![tick, inner, never]);
}

fn meter() -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Ident("@meter".to_owned()) }
}

fn call(function: &str, args: Vec<IdedExpr>) -> IdedExpr {
    IdedExpr { id: 0, expr: Expr::Call(CallExpr { func_name: function.to_owned(), target: None, args }) }
}
