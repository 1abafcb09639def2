use sha2::{Digest as _, Sha256};

use crate::v1;

/// An id of a call for agents that give none: the same for the same call of the same session, before and after it.
pub(crate) fn derived_id(session: &str, call: &v1::ToolCall) -> String {
    let mut hash = Sha256::new();
    for part in [session, &call.tool, &call.params_json] {
        hash.update(part.len().to_be_bytes());
        hash.update(part);
    }
    let digits = hash.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect::<String>();
    format!("derived-{digits}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_id_of_a_call_depends_on_session_tool_and_parameters_alone() {
        let call = |tool: &str, params: &str| v1::ToolCall {
            tool: tool.to_owned(),
            params_json: params.to_owned(),
            result_json: Some("1".to_owned()),
            ..Default::default()
        };
        let ids = [("s", "ab", "c"), ("s", "a", "bc"), ("sa", "b", "c"), ("s", "ab", "d")]
            .map(|(session, tool, params)| derived_id(session, &call(tool, params)));
        assert_eq!(ids[0], derived_id("s", &v1::ToolCall { result_json: None, ..call("ab", "c") }));
        assert_eq!(std::collections::HashSet::from(ids).len(), 4);
    }
}
