//! `shellCommands(text)`: the simple commands in a shell line, each as the list of its words.
//!
//! Commands of lists, pipes, subshells, loops, functions and `$(…)`, `` `…` `` and `<(…)` are all there, an outer one
//! before those inside of it; assignments before a command and redirections are not among its words. Quotes are taken
//! off. What the shell only works out when it runs stands as it is written: `$HOME`, `$(…)`, `*.txt`, `{a,b}`, and the
//! text that `eval` or `bash -c` is given. What is no shell text is an error, and so is what is nested too deeply or
//! too large: never a part of the answer.

mod quotes;
mod words;

use std::sync::{Mutex, PoisonError};

use brush_parser::{
    ParserOptions, Token,
    ast::{
        AndOr, AssignmentName, AssignmentValue, Command, CommandPrefixOrSuffixItem, CompoundCommand, CompoundList,
        ExtendedTestExpr, IoFileRedirectTarget, IoRedirect, Pipeline, RedirectList, SimpleCommand, Word,
    },
    parse_tokens, uncached_tokenize_str,
};

/// The longest text, in bytes.
const MAX_TEXT: usize = 64 << 10;

/// How many commands one text may have.
const MAX_COMMANDS: usize = 1000;

/// How deeply substitutions may be nested.
const MAX_DEPTH: usize = 8;

/// How many parentheses may be open at once, and how many `case` there may be: the parser tries again for each.
const MAX_OPEN: usize = 10;
const MAX_CASES: usize = 6;

/// How many words may open something that the parser nests on its stack.
const MAX_OPENERS: usize = 200;

/// How many openings of substitutions and pattern lists one text may have: the tokeniser nests them on its stack.
const MAX_OPENINGS: usize = 500;

/// The longest number of a file descriptor or a `~1`.
const MAX_DIGITS: usize = 9;

/// How many substitutions one word may have.
const MAX_SUBSTITUTIONS: usize = 10;

/// How many openings the stack at hand has room for; a text with more is parsed on a thread of its own, which takes longer.
const FEW: usize = 16;

/// The stack of that thread: enough for all that the limits above allow.
const STACK: usize = 16 << 20;

/// How many texts are remembered.
const MOST_TEXTS: usize = 4;

/// A shell text.
#[derive(Debug)]
pub(crate) struct ShellText {
    /// Its simple commands, an outer one before those inside of it; none is without a word.
    pub(crate) commands: Vec<Vec<ShellWord>>,
    /// It holds `$NAME`, `$(…)` or the like, so that some of its words are only known when it runs.
    pub(crate) expands: bool,
}

/// A word of a command.
#[derive(Debug)]
pub(crate) struct ShellWord {
    /// Without quotes.
    pub(crate) text: String,
    /// As it is written, where that differs.
    pub(crate) written: Option<Box<str>>,
}

/// What a text says, or why it cannot be told.
type Told = Result<ShellText, String>;

/// Texts and what they say.
#[derive(Debug, Default)]
pub(crate) struct ShellTexts(Mutex<Vec<(String, Told)>>);

impl ShellTexts {
    /// Calls `take` with what `text` says. The first few texts are remembered.
    pub(crate) fn told<T>(&self, text: &str, take: impl FnOnce(&Told) -> T) -> T {
        let mut told = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, said)) = told.iter().find(|(known, _)| known == text) {
            return take(said);
        }
        let said = shell_text(text);
        let taken = take(&said);
        if told.len() < MOST_TEXTS {
            told.push((text.to_owned(), said));
        }
        taken
    }
}

fn shell_text(text: &str) -> Told {
    if text.len() > MAX_TEXT {
        return Err(format!("`shellCommands`: the text has more than {MAX_TEXT} bytes"));
    }
    // Few openings need little stack. A panic of the parser is no shell text either way.
    let openings = ["(", "{", "[", "`", "if", "for", "while", "until", "case", "!", "time", "function", "coproc"];
    let parsed = if openings.iter().map(|word| text.matches(word).count()).fold(0, usize::saturating_add) <= FEW {
        std::panic::catch_unwind(|| parse(text))
    } else {
        let text = text.to_owned();
        let thread = std::thread::Builder::new().name("shell-parser".to_owned()).stack_size(STACK);
        let thread = thread.spawn(move || parse(&text));
        thread.map_err(|error| format!("`shellCommands`: no thread to parse in: {error}"))?.join()
    };
    let parsed = parsed.unwrap_or_else(|_| Err("not a shell text".to_owned()));
    parsed.map_err(|error| format!("`shellCommands`: {error}"))
}

fn parse(text: &str) -> Told {
    let said = ShellText { commands: Vec::new(), expands: false };
    let mut walk = Walk { options: ParserOptions::default(), said };
    walk.text(text, 0).map(|()| walk.said)
}

struct Walk {
    options: ParserOptions,
    said: ShellText,
}

/// Why a text is not told.
type Walked = Result<(), String>;

impl Walk {
    fn text(&mut self, text: &str, depth: usize) -> Walked {
        if depth > MAX_DEPTH {
            return Err(format!("substitutions are nested more than {MAX_DEPTH} deep"));
        }
        let openings = ["$(", "${", "$[", "`", "<(", ">(", "@(", "?(", "*(", "+(", "!("];
        if openings.iter().map(|opening| text.matches(opening).count()).fold(0, usize::saturating_add) > MAX_OPENINGS {
            return Err(format!("more than {MAX_OPENINGS} substitutions"));
        }
        let tokens = uncached_tokenize_str(text, &self.options.tokenizer_options());
        let tokens = tokens.map_err(|error| format!("not a shell text: {error}"))?;
        limit(&tokens)?;
        let program = parse_tokens(&tokens, &self.options).map_err(|error| format!("not a shell text: {error}"))?;
        program.complete_commands.iter().try_for_each(|list| self.list(list, depth))
    }

    fn list(&mut self, list: &CompoundList, depth: usize) -> Walked {
        for item in &list.0 {
            self.pipeline(&item.0.first, depth)?;
            for more in &item.0.additional {
                let (AndOr::And(pipeline) | AndOr::Or(pipeline)) = more;
                self.pipeline(pipeline, depth)?;
            }
        }
        Ok(())
    }

    fn pipeline(&mut self, pipeline: &Pipeline, depth: usize) -> Walked {
        pipeline.seq.iter().try_for_each(|command| self.command(command, depth))
    }

    fn command(&mut self, command: &Command, depth: usize) -> Walked {
        match command {
            Command::Simple(command) => self.simple(command, depth),
            Command::Compound(command, redirects) => {
                self.compound(command, depth)?;
                self.redirects(redirects.as_ref(), depth)
            }
            Command::Function(function) => {
                self.compound(&function.body.0, depth)?;
                self.redirects(function.body.1.as_ref(), depth)
            }
            Command::ExtendedTest(test, redirects) => {
                self.test(&test.expr, depth)?;
                self.redirects(redirects.as_ref(), depth)
            }
        }
    }

    fn compound(&mut self, command: &CompoundCommand, depth: usize) -> Walked {
        match command {
            CompoundCommand::Arithmetic(command) => self.inside(&command.expr.value, depth),
            CompoundCommand::ArithmeticForClause(command) => {
                let parts = [&command.initializer, &command.condition, &command.updater];
                parts.into_iter().flatten().try_for_each(|part| self.inside(&part.value, depth))?;
                self.list(&command.body.list, depth)
            }
            CompoundCommand::BraceGroup(command) => self.list(&command.list, depth),
            CompoundCommand::Subshell(command) => self.list(&command.list, depth),
            CompoundCommand::ForClause(command) => {
                command.values.iter().flatten().try_for_each(|word| self.inside(&word.value, depth))?;
                self.list(&command.body.list, depth)
            }
            CompoundCommand::CaseClause(command) => {
                self.inside(&command.value.value, depth)?;
                for case in &command.cases {
                    case.patterns.iter().try_for_each(|word| self.inside(&word.value, depth))?;
                    case.cmd.iter().try_for_each(|list| self.list(list, depth))?;
                }
                Ok(())
            }
            CompoundCommand::IfClause(command) => {
                self.list(&command.condition, depth)?;
                self.list(&command.then, depth)?;
                for part in command.elses.iter().flatten() {
                    part.condition.iter().try_for_each(|list| self.list(list, depth))?;
                    self.list(&part.body, depth)?;
                }
                Ok(())
            }
            CompoundCommand::WhileClause(command) | CompoundCommand::UntilClause(command) => {
                self.list(&command.0, depth)?;
                self.list(&command.1.list, depth)
            }
            CompoundCommand::Coprocess(command) => self.command(&command.body, depth),
        }
    }

    fn simple(&mut self, command: &SimpleCommand, depth: usize) -> Walked {
        let mut words = Vec::new();
        let mut inner = Vec::new();
        let name = command.word_or_name.as_ref();
        for item in command.prefix.iter().flat_map(|prefix| &prefix.0) {
            // What stands before the name is no word of the command.
            self.item(item, &mut Vec::new(), &mut inner)?;
        }
        name.iter().try_for_each(|name| self.word(name, &mut words, &mut inner))?;
        for item in command.suffix.iter().flat_map(|suffix| &suffix.0) {
            self.item(item, &mut words, &mut inner)?;
        }
        if !words.is_empty() {
            if self.said.commands.len() >= MAX_COMMANDS {
                return Err(format!("more than {MAX_COMMANDS} commands"));
            }
            self.said.commands.push(words);
        }
        let deeper = depth.saturating_add(1);
        inner.into_iter().try_for_each(|inner| match inner {
            Inner::Text(text) => self.text(&text, deeper),
            Inner::List(list) => self.list(&list, deeper),
        })
    }

    fn item(&mut self, item: &CommandPrefixOrSuffixItem, words: &mut Vec<ShellWord>, inner: &mut Vec<Inner>) -> Walked {
        match item {
            CommandPrefixOrSuffixItem::IoRedirect(redirect) => self.redirect(redirect, inner),
            CommandPrefixOrSuffixItem::Word(word) => self.word(word, words, inner),
            CommandPrefixOrSuffixItem::AssignmentWord(assignment, word) => {
                match &assignment.value {
                    // After the name it is an argument like any other: `export A=b`.
                    AssignmentValue::Scalar(_) => return self.word(word, words, inner),
                    AssignmentValue::Array(items) => {
                        words.push(ShellWord { text: word.value.clone(), written: None });
                        let parts = items.iter().flat_map(|(key, value)| key.iter().chain([value]));
                        parts.into_iter().try_for_each(|part| self.inside_of(&part.value, inner))?;
                    }
                }
                match &assignment.name {
                    AssignmentName::VariableName(_) => Ok(()),
                    AssignmentName::ArrayElementName(_, index) => self.inside_of(index, inner),
                }
            }
            CommandPrefixOrSuffixItem::ProcessSubstitution(kind, command) => {
                words.push(ShellWord { text: format!("{kind}{command}"), written: None });
                inner.push(Inner::List(command.list.clone()));
                Ok(())
            }
        }
    }

    fn word(&mut self, word: &Word, words: &mut Vec<ShellWord>, inner: &mut Vec<Inner>) -> Walked {
        let mut text = String::new();
        self.said.expands |= words::read(&word.value, &self.options, &mut text, inner)?;
        let written = (text != word.value).then(|| word.value.as_str().into());
        words.push(ShellWord { text, written });
        Ok(())
    }

    fn redirects(&mut self, redirects: Option<&RedirectList>, depth: usize) -> Walked {
        let mut inner = Vec::new();
        for redirect in redirects.iter().flat_map(|redirects| &redirects.0) {
            self.redirect(redirect, &mut inner)?;
        }
        self.all(inner, depth)
    }

    fn redirect(&mut self, redirect: &IoRedirect, inner: &mut Vec<Inner>) -> Walked {
        match redirect {
            IoRedirect::File(_, _, IoFileRedirectTarget::Filename(word) | IoFileRedirectTarget::Duplicate(word))
            | IoRedirect::HereString(_, word)
            | IoRedirect::OutputAndError(word, _) => self.inside_of(&word.value, inner),
            IoRedirect::File(_, _, IoFileRedirectTarget::Fd(_)) => Ok(()),
            IoRedirect::File(_, _, IoFileRedirectTarget::ProcessSubstitution(_, command)) => {
                inner.push(Inner::List(command.list.clone()));
                Ok(())
            }
            IoRedirect::HereDocument(_, document) if document.requires_expansion => {
                self.said.expands |= words::read_document(&document.doc.value, &self.options, inner)?;
                Ok(())
            }
            IoRedirect::HereDocument(..) => Ok(()),
        }
    }

    fn test(&mut self, test: &ExtendedTestExpr, depth: usize) -> Walked {
        match test {
            ExtendedTestExpr::And(left, right) | ExtendedTestExpr::Or(left, right) => {
                self.test(left, depth)?;
                self.test(right, depth)
            }
            ExtendedTestExpr::Not(test) | ExtendedTestExpr::Parenthesized(test) => self.test(test, depth),
            ExtendedTestExpr::UnaryTest(_, word) => self.inside(&word.value, depth),
            ExtendedTestExpr::BinaryTest(_, left, right) => {
                self.inside(&left.value, depth)?;
                self.inside(&right.value, depth)
            }
        }
    }

    /// The substitutions in a text that is no word of a command.
    fn inside(&mut self, text: &str, depth: usize) -> Walked {
        let mut inner = Vec::new();
        self.inside_of(text, &mut inner)?;
        self.all(inner, depth)
    }

    fn inside_of(&mut self, text: &str, inner: &mut Vec<Inner>) -> Walked {
        self.said.expands |= words::read(text, &self.options, &mut String::new(), inner)?;
        Ok(())
    }

    fn all(&mut self, inner: Vec<Inner>, depth: usize) -> Walked {
        let deeper = depth.saturating_add(1);
        inner.into_iter().try_for_each(|inner| match inner {
            Inner::Text(text) => self.text(&text, deeper),
            Inner::List(list) => self.list(&list, deeper),
        })
    }
}

/// Commands inside of a word.
enum Inner {
    Text(String),
    List(CompoundList),
}

/// Refuses what the parser would need too much time or stack for.
fn limit(tokens: &[Token]) -> Walked {
    let (mut open, mut cases, mut openers) = (0_usize, 0_usize, 0_usize);
    for (at, token) in tokens.iter().enumerate() {
        match token {
            Token::Operator(operator, _) if operator == "(" => open = open.saturating_add(1),
            Token::Operator(operator, _) if operator == ")" => open = open.saturating_sub(1),
            Token::Operator(..) => {}
            // The parser panics on numbers that no shell takes either.
            Token::Word(word, _) if word.len() > MAX_DIGITS && word.bytes().all(|byte| byte.is_ascii_digit()) => {
                let next = tokens.get(at.saturating_add(1));
                if matches!(next, Some(Token::Operator(operator, _)) if operator.starts_with(['<', '>'])) {
                    return Err("not a shell text: no such file descriptor".to_owned());
                }
            }
            Token::Word(word, _) => match word.as_str() {
                "case" => cases = cases.saturating_add(1),
                "{" | "if" | "elif" | "while" | "until" | "for" | "[[" | "!" | "function" | "coproc" | "time" => {
                    openers = openers.saturating_add(1);
                }
                _ => {}
            },
        }
        if open > MAX_OPEN {
            return Err(format!("more than {MAX_OPEN} parentheses are open at once"));
        }
        if cases > MAX_CASES {
            return Err(format!("more than {MAX_CASES} `case`"));
        }
        if openers > MAX_OPENERS {
            return Err(format!("more than {MAX_OPENERS} words such as `if`, `for` and `{{`"));
        }
    }
    Ok(())
}
