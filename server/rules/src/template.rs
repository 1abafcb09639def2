//! JSON values of a rule file with CEL in them: `{"expr": "…"}` anywhere inside stands for the expression's value.

use hookd_condition::{EvaluationError, Expression, Facts};
use hookd_json::{Map, Node, Tree, Value};

use crate::problem::{Issues, KeyPath};

/// A value with at least one expression in it.
#[derive(Debug)]
pub struct Template(Part);

#[derive(Debug)]
enum Part {
    Fixed(Value),
    Expression(Expression),
    List(Vec<Part>),
    Map(Vec<(String, Part)>),
}

/// What a key of a `decide` handler holds.
#[derive(Debug)]
pub(crate) enum Given {
    /// A value as it is.
    Fixed(Value),
    /// One that depends on the call.
    Template(Template),
}

impl Template {
    /// The value for a call.
    ///
    /// # Errors
    /// An expression has no value for this call.
    pub fn evaluate(&self, facts: &mut Facts<'_>) -> Result<Value, EvaluationError> {
        self.0.evaluate(facts)
    }
}

impl Given {
    /// What stands at `node`. What is wrong with an expression is reported at its place.
    pub(crate) fn compile(node: &Node, path: &KeyPath<'_>, issues: &mut Issues) -> Self {
        match Part::compile(node, path, issues) {
            Part::Fixed(value) => Self::Fixed(value),
            part => Self::Template(Template(part)),
        }
    }
}

impl Part {
    fn compile(node: &Node, path: &KeyPath<'_>, issues: &mut Issues) -> Self {
        match &node.value {
            Tree::List(items) => {
                let parts = items.iter().enumerate();
                let parts = parts.map(|(index, item)| Self::compile(item, &KeyPath::Index(path, index), issues));
                Self::list(parts.collect())
            }
            Tree::Map(entries) => {
                if let [entry] = entries.as_slice()
                    && entry.key == "expr"
                    && let Tree::String(text) = &entry.node.value
                {
                    return match Expression::compile(text) {
                        Ok(expression) => Self::Expression(expression),
                        Err(error) => {
                            issues.error(entry.node.place, KeyPath::Key(path, "expr"), error.to_string());
                            Self::Fixed(Value::Null)
                        }
                    };
                }
                let part = |entry: &hookd_json::Entry, issues: &mut Issues| {
                    (entry.key.clone(), Self::compile(&entry.node, &KeyPath::Key(path, &entry.key), issues))
                };
                Self::map(entries.iter().map(|entry| part(entry, issues)).collect())
            }
            _ => Self::Fixed(node.to_value().unwrap_or(Value::Null)),
        }
    }

    fn list(parts: Vec<Self>) -> Self {
        let fixed = parts.iter().map(Self::fixed).collect::<Option<Vec<_>>>();
        fixed.map_or(Self::List(parts), |values| Self::Fixed(Value::Array(values)))
    }

    fn map(parts: Vec<(String, Self)>) -> Self {
        let fixed = parts.iter().map(|(key, part)| Some((key.clone(), part.fixed()?))).collect::<Option<Map<_, _>>>();
        fixed.map_or(Self::Map(parts), |values| Self::Fixed(Value::Object(values)))
    }

    fn fixed(&self) -> Option<Value> {
        match self {
            Self::Fixed(value) => Some(value.clone()),
            Self::Expression(_) | Self::List(_) | Self::Map(_) => None,
        }
    }

    fn evaluate(&self, facts: &mut Facts<'_>) -> Result<Value, EvaluationError> {
        Ok(match self {
            Self::Fixed(value) => value.clone(),
            Self::Expression(expression) => expression.evaluate(facts)?,
            Self::List(parts) => Value::Array(parts.iter().map(|part| part.evaluate(facts)).collect::<Result<_, _>>()?),
            Self::Map(parts) => {
                let mut map = Map::new();
                for (key, part) in parts {
                    map.insert(key.clone(), part.evaluate(facts)?);
                }
                Value::Object(map)
            }
        })
    }
}
