//! What an agent does with an answer, or without one.

use std::{collections::BTreeSet, fmt};

use serde::{
    Deserialize, Deserializer,
    de::{Error as _, MapAccess, SeqAccess, Visitor},
};

use crate::{
    CallError,
    event::Block,
    proto::{Note, TriggerResponse, Verdict},
};

/// What to do now. The answer to the everyday call: there is no error to forget, what happens where hookd gives no
/// usable answer is decided in here, by [`OnUnavailable`] and the event's safe side.
///
/// The safe side is [`Gate::Refuse`] where a block keeps something from happening or is feedback, and [`Gate::Run`]
/// where it is recorded only or where what it would keep from happening is the agent's end (`Stop`, `SubagentStop`,
/// `TaskCompleted`, `TeammateIdle`: a hookd that is not there must not keep an agent running).
///
/// Parameters and results are JSON texts: parse them with a reader that keeps the digits of numbers.
#[derive(Debug, Clone, PartialEq)]
#[must_use = "a gate that is not looked at guards nothing"]
pub enum Gate {
    /// Go on: run the tool, take the prompt, stop, or whatever the event announced.
    Run {
        /// The parameters to run the tool with, a JSON object. `None`: the ones that were sent.
        params: Option<String>,
        /// The result to show to the model, a JSON value. `None`: the one that was sent.
        result: Option<String>,
        /// A rule allowed this explicitly: the agent's own permission prompt is not needed. `false` where no rule had
        /// an opinion or hookd was not asked; the agent goes on as if it had not asked, its own prompts included.
        approved: bool,
        /// How this came about.
        decision: Decision,
    },
    /// A person has to agree first. Without a person to ask, this is a no.
    Ask {
        /// Why, for the person. May be empty.
        reason: String,
        /// What the person is asked about and what runs if they agree, as in [`Gate::Run`].
        params: Option<String>,
        /// The result to show to the model, as in [`Gate::Run`].
        result: Option<String>,
        /// How this came about.
        decision: Decision,
    },
    /// Put the call aside until someone decides outside. Never consent.
    Suspend {
        /// Why. May be empty.
        reason: String,
        /// What would run, as in [`Gate::Run`].
        params: Option<String>,
        /// The result to show to the model, as in [`Gate::Run`].
        result: Option<String>,
        /// How this came about.
        decision: Decision,
    },
    /// It does not happen: the tool does not run, the prompt is refused. On events after the fact (`PostToolUse`)
    /// nothing can be kept from happening any more: the reason goes to the model beside the result.
    Refuse {
        /// Why, for the model. May be empty.
        reason: String,
        /// The result to show to the model, a JSON value; only on `PostToolUse`. `None`: the one that was sent.
        result: Option<String>,
        /// How this came about.
        decision: Decision,
    },
    /// The agent wanted to stop and has to go on. Only on `Stop`, `SubagentStop`, `TaskCompleted` and `TeammateIdle`.
    Continue {
        /// Its next instruction. May be empty.
        reason: String,
        /// How this came about.
        decision: Decision,
    },
    /// The agent has to stop now; what the event announced does not happen.
    Halt {
        /// Why. May be empty.
        reason: String,
        /// How this came about.
        decision: Decision,
    },
}

/// What happens where hookd cannot be asked: nobody answers, or not in time, or hookd has a fault of its own or too
/// many calls ([`CallErrorKind::is_unavailable`](crate::CallErrorKind::is_unavailable)). There is no default on
/// purpose. On Stop-like events the agent may always stop.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum OnUnavailable {
    /// Block where the event can block.
    Block,
    /// As [`OnUnavailable::Block`], but events of these tools (exact names) go on unapproved: an agent that can still
    /// read is not lost. Events without a tool block.
    BlockExcept(BTreeSet<String>),
    /// Go on unapproved, as if there were no hookd.
    Allow,
}

/// How a [`Gate`] came about.
#[derive(Debug, Clone, PartialEq)]
pub struct Decision {
    answer: Option<Box<TriggerResponse>>,
    error: Option<CallError>,
}

impl OnUnavailable {
    /// [`OnUnavailable::BlockExcept`] of these tools.
    pub fn block_except<T: Into<String>>(tools: impl IntoIterator<Item = T>) -> Self {
        Self::BlockExcept(tools.into_iter().map(Into::into).collect())
    }

    fn blocks(&self, tool: Option<&str>) -> bool {
        match self {
            Self::Block => true,
            Self::BlockExcept(tools) => tool.is_none_or(|tool| !tools.contains(tool)),
            Self::Allow => false,
        }
    }
}

impl Decision {
    /// The whole answer. `None`: there was none; [`Decision::error`] says why.
    #[must_use]
    pub fn answer(&self) -> Option<&TriggerResponse> {
        self.answer.as_deref()
    }

    /// Why there was no answer, or why it could not be carried out. `None`: it was carried out.
    #[must_use]
    pub fn error(&self) -> Option<&CallError> {
        self.error.as_ref()
    }

    /// hookd's id of this decision, to be found in its logs. Empty: hookd did not answer.
    #[must_use]
    pub fn id(&self) -> &str {
        let of_error = || self.error()?.decision_id.as_deref();
        self.answer().map(|answer| answer.decision_id.as_str()).or_else(of_error).unwrap_or_default()
    }

    /// Revision of the rules that judged. Empty: none did.
    #[must_use]
    pub fn policy_revision(&self) -> &str {
        self.answer().map_or("", |answer| &answer.policy_revision)
    }

    /// A rule that should have had a say had none: a failure was forgiven, or hookd gave no usable answer.
    #[must_use]
    pub fn degraded(&self) -> bool {
        self.error.is_some() || self.answer().is_some_and(|answer| answer.degraded)
    }

    /// Texts for the model, in the order of the rules.
    #[must_use]
    pub fn additional_context(&self) -> &[Note] {
        self.answer().map_or(&[], |answer| &answer.additional_context)
    }

    /// Texts for the person, in the order of the rules.
    #[must_use]
    pub fn system_messages(&self) -> &[Note] {
        self.answer().map_or(&[], |answer| &answer.system_messages)
    }

    /// Per-event outputs that have no field of their own, a JSON object.
    #[must_use]
    pub fn event_output_json(&self) -> Option<&str> {
        self.answer().and_then(|answer| answer.event_output_json.as_deref())
    }
}

impl Gate {
    /// How this came about.
    #[must_use]
    pub fn decision(&self) -> &Decision {
        match self {
            Self::Run { decision, .. }
            | Self::Ask { decision, .. }
            | Self::Suspend { decision, .. }
            | Self::Refuse { decision, .. }
            | Self::Continue { decision, .. }
            | Self::Halt { decision, .. } => decision,
        }
    }

    /// What `answer` means on `event`, the exact name. For a caller that got it by [`Client::call`](crate::Client::call).
    pub fn of_answer(event: &str, answer: TriggerResponse) -> Self {
        let block = Block::on(event);
        if answer.halt {
            let reason = if answer.halt_reason.is_empty() { &answer.reason } else { &answer.halt_reason };
            return Self::Halt { reason: reason.clone(), decision: Decision::of(answer) };
        }
        let params = answer.modified_params_json.clone();
        let result = answer.modified_result_json.clone();
        let reason = answer.reason.clone();
        let verdict = Verdict::try_from(answer.verdict).unwrap_or(Verdict::Unspecified);
        let carried_out = match verdict {
            Verdict::Unspecified => Err(format!("verdict {} is not known", answer.verdict)),
            // A block needs neither form to be carried out.
            Verdict::Block => Ok(()),
            _ => check_params(params.as_deref()).and_then(|()| check_result(result.as_deref())),
        };
        if let Err(problem) = carried_out {
            let decision = Decision { answer: Some(Box::new(answer)), error: Some(CallError::not_understood(problem)) };
            return Self::safe_side(block, decision);
        }
        let decision = Decision::of(answer);
        match verdict {
            Verdict::Ask => Self::Ask { reason, params, result, decision },
            Verdict::Defer => Self::Suspend { reason, params, result, decision },
            Verdict::Block => match block {
                Block::PreventsStop => Self::Continue { reason, decision },
                Block::Recorded => Self::Run { params: None, result: None, approved: false, decision },
                Block::Prevents | Block::Feedback => Self::Refuse { reason, result: None, decision },
                Block::FeedbackOnResult => {
                    let result = result.map(|result| match check_result(Some(&result)) {
                        Ok(()) => result,
                        Err(_) => notice("its replacement by hookd is not JSON"),
                    });
                    Self::Refuse { reason, result, decision }
                }
            },
            Verdict::None | Verdict::Allow | Verdict::Unspecified => {
                Self::Run { params, result, approved: verdict == Verdict::Allow, decision }
            }
        }
    }

    /// What happens on `event`, about `tool` if it is about one, where hookd gave no answer.
    pub(crate) fn of_error(event: &str, tool: Option<&str>, error: CallError, on_unavailable: &OnUnavailable) -> Self {
        let blocks = !error.kind.is_unavailable() || on_unavailable.blocks(tool);
        let decision = Decision { answer: None, error: Some(error) };
        if blocks {
            Self::safe_side(Block::on(event), decision)
        } else {
            Self::Run { params: None, result: None, approved: false, decision }
        }
    }

    fn safe_side(block: Block, decision: Decision) -> Self {
        let reason = decision.error().map(|error| error.message.clone()).unwrap_or_default();
        match block {
            Block::PreventsStop | Block::Recorded => {
                Self::Run { params: None, result: None, approved: false, decision }
            }
            Block::Prevents | Block::Feedback => Self::Refuse { reason, result: None, decision },
            // A rule that takes secrets out of results may not have had its turn.
            Block::FeedbackOnResult => Self::Refuse { result: Some(notice(&reason)), reason, decision },
        }
    }
}

impl Decision {
    fn of(answer: TriggerResponse) -> Self {
        Self { answer: Some(Box::new(answer)), error: None }
    }
}

/// A result that stands for one that is not shown, a JSON string.
fn notice(why: &str) -> String {
    serde_json::Value::String(format!("the result is not shown: {why}")).to_string()
}

fn check_params(params: Option<&str>) -> Result<(), String> {
    let Some(text) = params else { return Ok(()) };
    let why = match serde_json::from_str::<Unambiguous>(text) {
        Ok(_) if text.trim_start().starts_with('{') => return Ok(()),
        Ok(_) => String::new(),
        Err(error) => format!(": {error}"),
    };
    Err(format!("the modified parameters are not a JSON object{why}"))
}

fn check_result(result: Option<&str>) -> Result<(), String> {
    match result.map(serde_json::from_str::<Unambiguous>) {
        None | Some(Ok(_)) => Ok(()),
        Some(Err(error)) => Err(format!("the modified result is not JSON: {error}")),
    }
}

/// JSON without an object that has a key twice: no two readers see two things in it.
struct Unambiguous;

struct Look;

impl<'de> Deserialize<'de> for Unambiguous {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(Look)
    }
}

impl<'de> Visitor<'de> for Look {
    type Value = Unambiguous;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a JSON value")
    }

    fn visit_unit<E>(self) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_bool<E>(self, _: bool) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_u64<E>(self, _: u64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_i64<E>(self, _: i64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_f64<E>(self, _: f64) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_str<E>(self, _: &str) -> Result<Unambiguous, E> {
        Ok(Unambiguous)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut items: A) -> Result<Unambiguous, A::Error> {
        while items.next_element::<Unambiguous>()?.is_some() {}
        Ok(Unambiguous)
    }

    /// Numbers that no type of Rust holds come here too, as an object with one text.
    fn visit_map<A: MapAccess<'de>>(self, mut entries: A) -> Result<Unambiguous, A::Error> {
        let mut keys = BTreeSet::new();
        while let Some(key) = entries.next_key::<String>()? {
            entries.next_value::<Unambiguous>()?;
            if let Some(twice) = keys.replace(key) {
                return Err(A::Error::custom(format_args!("duplicate key {twice:?}")));
            }
        }
        Ok(Unambiguous)
    }
}
