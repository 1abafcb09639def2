//! What takes the place of a decision that a caller cannot carry out.

use hookd_json::Value as Json;
use hookd_rules::{AskFallback, DeferFallback, Fallbacks, ModifyFallback};
use serde_json::json;

use super::{
    section::Section,
    words::{Words, word_of},
};

const ASK: &Words<AskFallback> = &[("block", AskFallback::Block), ("allow", AskFallback::Allow)];
const DEFER: &Words<DeferFallback> = &[("block", DeferFallback::Block), ("ask", DeferFallback::Ask)];
const MODIFY: &Words<ModifyFallback> = &[("block", ModifyFallback::Block)];

pub(super) fn fallbacks(mut section: Section<'_, '_>) -> Fallbacks {
    let defaults = Fallbacks::default();
    let fallbacks = Fallbacks {
        ask: section.word("ask", ASK, defaults.ask),
        defer: section.word("defer", DEFER, defaults.defer),
        modify: section.word("modify", MODIFY, defaults.modify),
    };
    section.end();
    fallbacks
}

pub(super) fn tree(fallbacks: &Fallbacks) -> Json {
    json!({
        "ask": word_of(ASK, fallbacks.ask),
        "defer": word_of(DEFER, fallbacks.defer),
        "modify": word_of(MODIFY, fallbacks.modify),
    })
}
