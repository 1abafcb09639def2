/// Tools of today's agents by what they do. Names are compared in lower case, without `_` and `-`.
#[rustfmt::skip]
const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["bash", "shell", "sh", "powershell", "terminal", "exec", "execcommand", "unifiedexec", "runcommand",
        "runshellcommand", "runterminalcommand", "executecommand", "executebash", "localshell"]),
    ("read", &["read", "readfile", "readmanyfiles", "view", "viewfile", "notebookread", "cat", "fsread"]),
    ("write", &["write", "writefile", "writetofile", "createfile", "create", "fswrite"]),
    ("edit", &["edit", "editfile", "multiedit", "notebookedit", "applypatch", "replace", "strreplace",
        "strreplaceeditor", "strreplacebasededittool", "replaceinfile", "searchreplace"]),
    ("fetch", &["webfetch", "fetch", "fetchurl", "urlfetch"]),
    ("search", &["grep", "glob", "search", "searchfiles", "searchfilecontent", "websearch", "googlewebsearch", "codebasesearch", "ls",
        "listdirectory", "listfiles"]),
    ("spawn", &["task", "agent", "spawn", "spawnagent", "subagent", "delegate"]),
];

/// The normalised kind of a tool, where its caller does not say it (`ToolCall.kind`). Empty: none is known.
#[must_use]
pub fn tool_kind(tool: &str) -> &'static str {
    if mcp_server(tool).is_some() {
        return "mcp";
    }
    let name = tool.chars().filter(|c| !matches!(c, '_' | '-')).flat_map(char::to_lowercase).collect::<String>();
    let kind = KINDS.iter().find(|(_, tools)| tools.contains(&name.as_str()));
    kind.map_or("", |(kind, _)| kind)
}

/// The MCP server in the name of one of its tools: `mcp__server__tool` or `mcp:server:tool`. A server's own name may
/// hold `_`.
#[must_use]
pub fn mcp_server(tool: &str) -> Option<&str> {
    let split = |prefix, separator| tool.strip_prefix(prefix).and_then(|rest: &str| rest.rsplit_once(separator));
    let (server, _) = split("mcp__", "__").or_else(|| split("mcp:", ":"))?;
    (!server.is_empty()).then_some(server)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn kinds_come_from_names() {
        for (tool, kind, server) in [
            ("Bash", "shell", None),
            ("run_shell_command", "shell", None),
            ("edit_file", "edit", None),
            ("MultiEdit", "edit", None),
            ("WebFetch", "fetch", None),
            ("Task", "spawn", None),
            ("mcp__some_server__list", "mcp", Some("some_server")),
            ("mcp:db:execute", "mcp", Some("db")),
            ("mcp__", "", None),
            ("deploy", "", None),
        ] {
            assert_eq!((tool_kind(tool), mcp_server(tool)), (kind, server), "{tool}");
        }
    }
}
