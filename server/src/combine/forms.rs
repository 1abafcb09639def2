use std::sync::Arc;

use hookd_json::Value;

use crate::model::{Form, RewriteTarget};

/// One form of a call. Equal forms have equal ids, whoever made them: they compare as JSON values, numbers by their
/// digits.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FormId(usize);

/// The forms that a call has had in one evaluation.
#[derive(Debug)]
pub struct Forms {
    current: FormId,
    seen: Vec<Seen>,
}

#[derive(Debug)]
struct Seen {
    form: Form,
    /// Parsed when the first rewrite comes: most calls are never rewritten.
    values: Option<Values>,
}

#[derive(Debug, Clone, PartialEq)]
struct Values {
    params: Value,
    result: Option<Value>,
}

impl FormId {
    /// The form in which the call arrived.
    pub const ARRIVAL: Self = Self(0);
}

impl Forms {
    /// A call that arrived in this form.
    #[must_use]
    pub fn new(arrival: Form) -> Self {
        Self { current: FormId::ARRIVAL, seen: vec![Seen { form: arrival, values: None }] }
    }

    /// The form now.
    #[must_use]
    pub fn current(&self) -> FormId {
        self.current
    }

    /// The texts of the form `id`.
    #[must_use]
    pub fn form(&self, id: FormId) -> Option<&Form> {
        self.seen.get(id.0).map(|seen| &seen.form)
    }

    /// Puts `value` in the place of the parameters or the result. Gives the change as a JSON Patch, or `None` where
    /// the value is equal and nothing is rewritten.
    pub fn rewrite(&mut self, target: RewriteTarget, value: &Value) -> Option<String> {
        let mut after = self.values()?;
        let old = match target {
            RewriteTarget::Params => Some(std::mem::replace(&mut after.params, value.clone())),
            RewriteTarget::Result => after.result.replace(value.clone()),
        };
        if old.as_ref() == Some(value) {
            return None;
        }
        let patch = json_patch::diff(&old.unwrap_or(Value::Null), value).to_string();
        self.current = self.intern(target, after)?;
        Some(patch)
    }

    fn intern(&mut self, target: RewriteTarget, values: Values) -> Option<FormId> {
        if let Some(known) = self.seen.iter().position(|seen| seen.values.as_ref() == Some(&values)) {
            return Some(FormId(known));
        }
        let mut form = self.form(self.current)?.clone();
        match target {
            RewriteTarget::Params => form.params = Arc::from(hookd_json::to_text(&values.params)),
            RewriteTarget::Result => {
                form.result = values.result.as_ref().map(|result| Arc::from(hookd_json::to_text(result)));
            }
        }
        self.seen.push(Seen { form, values: Some(values) });
        Some(FormId(self.seen.len().saturating_sub(1)))
    }

    /// The values of the form now. `None` cannot happen for forms that were checked on arrival.
    fn values(&mut self) -> Option<Values> {
        let seen = self.seen.get_mut(self.current.0)?;
        if seen.values.is_none() {
            let params = hookd_json::parse(&seen.form.params).ok()?;
            let result = match &seen.form.result {
                Some(result) => Some(hookd_json::parse(result).ok()?),
                None => None,
            };
            seen.values = Some(Values { params, result });
        }
        seen.values.clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn forms(params: &str) -> Forms {
        Forms::new(Form { params: Arc::from(params), result: None })
    }

    fn rewrite(forms: &mut Forms, params: &str) -> Option<String> {
        forms.rewrite(RewriteTarget::Params, &hookd_json::parse(params).unwrap())
    }

    #[test]
    fn law_05_an_equal_form_is_no_rewrite() {
        let mut forms = forms(r#"{"a":1,"b":{"c":[1,2]}}"#);
        assert_eq!(rewrite(&mut forms, r#"{ "b": {"c":[1,2]}, "a": 1 }"#), None);
        assert_eq!(forms.current(), FormId::ARRIVAL);
    }

    #[test]
    fn law_05_numbers_compare_by_their_digits() {
        let mut forms = forms(r#"{"id":9007199254740993,"n":1}"#);
        let patch = rewrite(&mut forms, r#"{"id":9007199254740992,"n":1.0}"#).unwrap();
        assert_eq!(
            patch,
            r#"[{"op":"replace","path":"/id","value":9007199254740992},{"op":"replace","path":"/n","value":1.0}]"#
        );
        assert_eq!(&*forms.form(forms.current()).unwrap().params, r#"{"id":9007199254740992,"n":1.0}"#);
    }

    #[test]
    fn law_05_a_form_that_comes_back_is_the_same_form() {
        let mut forms = forms(r#"{"a":1}"#);
        assert!(rewrite(&mut forms, r#"{"a":2}"#).is_some());
        assert_ne!(forms.current(), FormId::ARRIVAL);
        assert!(rewrite(&mut forms, r#"{"a":1}"#).is_some());
        assert_eq!(forms.current(), FormId::ARRIVAL);
    }

    #[test]
    fn a_result_can_appear_and_change() {
        let mut forms = forms("{}");
        let text = Value::String("seen".to_owned());
        assert_eq!(
            forms.rewrite(RewriteTarget::Result, &text).as_deref(),
            Some(r#"[{"op":"replace","path":"","value":"seen"}]"#)
        );
        assert_eq!(forms.form(forms.current()).unwrap().result.as_deref(), Some("\"seen\""));
        assert_eq!(forms.rewrite(RewriteTarget::Result, &text), None);
    }
}
