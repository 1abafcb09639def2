/// Tools of today's agents by what they do: some agents run the hook files of others, so that what an agent is called does
/// not say whose tools it has. Names are compared in lower case, without `_` and `-`.
#[rustfmt::skip]
const KINDS: [(&str, &[&str]); 7] = [
    ("shell", &["bash", "shell", "sh", "powershell", "terminal", "exec", "execute", "execcommand", "unifiedexec", "writestdin",
        "runcommand", "runcommands", "runshellcommand", "runterminalcommand", "runinterminal", "runtask", "createandruntask",
        "executecommand", "executebash", "executecmd", "localshell", "monitor"]),
    ("read", &["read", "readfile", "readfiles", "readmanyfiles", "view", "viewfile", "viewimage", "notebookread", "cat", "fsread"]),
    ("write", &["write", "writefile", "writetofile", "createfile", "create", "createdirectory", "createnewjupyternotebook", "fswrite"]),
    ("edit", &["edit", "editfile", "editfiles", "multiedit", "notebookedit", "editnotebook", "editnotebookfile", "applypatch",
        "replace", "strreplace", "strreplaceeditor", "strreplacebasededittool", "replaceinfile", "replacestringinfile",
        "multireplacestringinfile", "inserteditintofile", "searchreplace"]),
    ("fetch", &["webfetch", "fetch", "fetchurl", "urlfetch", "fetchwebpage", "fetchwebcontent"]),
    ("search", &["grep", "glob", "search", "searchfiles", "searchfilecontent", "searchcodebase", "websearch", "googlewebsearch",
        "codebasesearch", "semanticsearch", "grepsearch", "filesearch", "ls", "listdir", "listdirectory", "listfiles",
        "listcodeusages", "listcodedefinitionnames"]),
    ("spawn", &["task", "newtask", "agent", "spawn", "spawnagent", "subagent", "usesubagents", "runsubagent", "delegate"]),
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
            // Of VS Code, which runs Claude Code's hook files as well, and so comes as that agent.
            ("run_in_terminal", "shell", None),
            ("replace_string_in_file", "edit", None),
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
