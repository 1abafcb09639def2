//! The keys of rule files: one table for the loader and for the JSON Schema.

use super::{Key, Object, Shape};

/// More programs than this for one rule are a mistake and no wish.
const MAX_POOL: u64 = 16;
/// More is never.
const MAX_CALLS: u64 = 1_000_000_000;

const MAX_PORT: u64 = 65_535;

const VERDICTS: &[&str] = &["allow", "ask", "defer", "block"];
const VERDICTS_AND_NONE: &[&str] = &["none", "allow", "ask", "defer", "block"];

const fn key(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: false, shape, about }
}

const fn required(name: &'static str, shape: Shape, about: &'static str) -> Key {
    Key { name, required: true, shape, about }
}

/// The top of a rule file.
pub(crate) static FILE: Object = Object {
    what: "a rule file",
    keys: &[
        key("$schema", Shape::Text, "The JSON Schema that an editor checks the file with. Not read."),
        key("description", Shape::Text, "What the file is for. No part of the revision."),
        key("metadata", Shape::Any, "Anything that other tools keep here. Not read."),
        key(
            "mode",
            MODE,
            "`shadow` makes every rule of the file a shadow rule: evaluated and recorded, never counted. Its `defaults` do not count either.",
        ),
        key("hooks", Shape::Objects(&RULE), "The rules, in evaluation order."),
        key(
            "defaults",
            Shape::Objects(&DEFAULT),
            "Last outcomes, in managed and team files only: the first that matches counts where no rule of the tier or of one above gave a verdict.",
        ),
    ],
    later: &[],
};

/// One rule.
pub(crate) static RULE: Object = Object {
    what: "a rule",
    keys: &[
        key(
            "id",
            Shape::FullText,
            "Unique in its source. Default: the name of the file and the position, counted from 0.",
        ),
        required("event", Shape::Names, "The event or events that the rule is for."),
        key(
            "matcher",
            Shape::Text,
            "A regular expression, searched anywhere in the event's subject. Absent, empty or `*` matches everything.",
        ),
        key("when", Shape::FullText, "A condition in CEL that must hold of the call at the rule's turn."),
        required("handler", Shape::Handler, "What the rule does."),
        key("async", Shape::Flag, "Queue the handler and go on: it never decides."),
        key(
            "onVerdict",
            Shape::Words(VERDICTS_AND_NONE),
            "Of an async rule: queue it once the verdict is known, if it is one of these.",
        ),
        key("onError", Shape::Word(&["allow", "block"]), "What a failure of the handler counts as."),
        key(
            "final",
            Shape::Flag,
            "An explicit allow, ask or defer of this rule keeps the lower tiers from being asked.",
        ),
        key("mustDecide", Shape::Flag, "An answer without a decision is a failure."),
        key(
            "concurrent",
            Shape::Flag,
            "Run side by side with neighbouring rules that say so too, under the same budget. Such a rule may not rewrite.",
        ),
        key("mode", MODE, "`shadow`: evaluated and recorded, never counted."),
        key("customEvent", Shape::Flag, "Events that hookd does not know are meant as they are written."),
        key(
            "protocol",
            Shape::Word(&["native", "claude-code"]),
            "What a command or http handler reads and writes. Default: `native`.",
        ),
        key(
            "runOn",
            Shape::Word(&["server", "agent"]),
            "Where a command runs: on hookd's machine, or by the client on the caller's. Default: `server`.",
        ),
        key("disabled", Shape::Flag, "Leave the rule out."),
        key("description", Shape::Text, "What the rule is for. No part of the revision."),
        key("metadata", Shape::Any, "Anything that other tools keep here. Not read."),
    ],
    later: &[],
};

/// One default.
pub(crate) static DEFAULT: Object = Object {
    what: "a default",
    keys: &[
        required("event", Shape::Names, "The event or events that the default is for."),
        key("matcher", Shape::Text, "As in a rule."),
        required("verdict", Shape::Word(VERDICTS), "The verdict."),
        key("reason", Shape::Text, "Why."),
        key("customEvent", Shape::Flag, "As in a rule."),
        key("description", Shape::Text, "What the default is for. No part of the revision."),
    ],
    later: &["when"],
};

/// The handlers by their `type`.
pub(crate) static HANDLERS: [(&str, &Object); 3] = [("command", &COMMAND), ("http", &HTTP), ("decide", &DECIDE)];

/// Types of handlers that this version does not build yet.
pub(crate) const LATER_HANDLERS: &[&str] = &["prompt", "agent", "grpc"];

static COMMAND: Object = Object {
    what: "a command handler",
    keys: &[
        required("type", Shape::Word(&["command"]), "Runs a program."),
        key("command", Shape::FullText, "A line for a shell. Either this or `argv`."),
        key("argv", Shape::Texts, "A program and its arguments, without a shell. Either this or `command`."),
        key("shell", Shape::Word(&["sh", "bash"]), "The shell for `command`. Default: `sh`."),
        key("timeout", Shape::Millis, "Time limit in milliseconds. Default: 10000."),
        key(
            "env",
            Shape::TextMap,
            "Variables added to the environment; `${env:NAME}` and `${file:PATH}` stand for what the settings allow the tier.",
        ),
        key("cwd", Shape::FullText, "The directory to run in; a relative one starts at the rule file."),
        key(
            "worker",
            Shape::Object(&WORKER),
            "Start the program once and keep it: it reads one line for each call and writes one line back, an object or nothing.",
        ),
        key(
            "allow",
            Shape::Object(&ALLOW),
            "Files and TCP ports that it may reach on the server, besides the system's programs and libraries and the rule file's directory; everything else is denied.",
        ),
    ],
    later: &[],
};

/// How the workers of a command handler are kept.
static WORKER: Object = Object {
    what: "a worker",
    keys: &[
        key("pool", Shape::Whole(1, MAX_POOL), "Calls at a time, and so programs. Default: 1."),
        key("maxCalls", Shape::Whole(1, MAX_CALLS), "Answers after which a program is replaced. Default: never."),
    ],
    later: &[],
};

/// What a command handler may reach.
static ALLOW: Object = Object {
    what: "an allow list",
    keys: &[
        key("read", Shape::Names, "Files and directories to read and execute; relative ones start at the rule file."),
        key(
            "write",
            Shape::Names,
            "Files and directories to read, make, change and remove; relative ones start at the rule file.",
        ),
        key("connect", Shape::Wholes(1, MAX_PORT), "TCP ports to connect to."),
        key("bind", Shape::Wholes(0, MAX_PORT), "TCP ports to listen on; 0 stands for a port that the system chooses."),
    ],
    later: &[],
};

static HTTP: Object = Object {
    what: "an http handler",
    keys: &[
        required("type", Shape::Word(&["http"]), "Posts to a URL."),
        required("url", Shape::FullText, "An http or https URL without credentials."),
        key(
            "headers",
            Shape::TextMap,
            "Headers; `${env:NAME}` and `${file:PATH}` stand for what the settings allow the tier.",
        ),
        key("timeout", Shape::Millis, "Time limit in milliseconds. Default: 5000."),
    ],
    later: &[],
};

static DECIDE: Object = Object {
    what: "a decide handler",
    keys: &[
        required("type", Shape::Word(&["decide"]), "Answers in process."),
        key("verdict", Shape::Word(VERDICTS), "The decision."),
        key("reason", Shape::Text, "Why."),
        key(
            "modifiedParams",
            Shape::AnyObject,
            "Parameters to run with instead; `{\"expr\": \"…\"}` inside stands for the value of that CEL expression.",
        ),
        key(
            "modifiedResult",
            Shape::Any,
            "The result to show instead; `{\"expr\": \"…\"}` inside as in `modifiedParams`.",
        ),
        key("additionalContext", Shape::Text, "Text for the model."),
        key("systemMessage", Shape::Text, "Text for the person."),
        key("halt", Shape::Flag, "Stop the agent."),
        key("haltReason", Shape::Text, "Why it is stopped."),
    ],
    later: &[],
};

const MODE: Shape = Shape::Word(&["enforce", "shadow"]);
