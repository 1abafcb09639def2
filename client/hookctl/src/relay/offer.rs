//! The rule files of the caller's own that hookd is offered: the project's, the person's and the plugins'.
//!
//! Whose files they are decides whether they count. A repository's need trust, file by file and content by content
//! (`hookctl trust`), because their commands run here with this user's rights. The person's own hook file counts without:
//! whoever can write it can write the list of what is trusted as well, and the agent itself runs it unasked. So do the
//! plugins that this file switches on.
//!
//! Files of the agent are offered only where the agent does not run them itself (`--offer`): no hook runs twice.

mod plugins;

use std::{
    env,
    path::{Path, PathBuf},
};

use hookd_agents::{Agent, Call};
use hookd_client::{OfferTier, OfferedRules};
use hookd_rules::MAX_OFFERED_FILE_BYTES;

use crate::{
    args::Origin,
    owned::{self, Read, read_any, read_owned},
    relay::{config::Config, nested::is_nested},
    trust::{Store, hash},
};

/// How far up a project is looked for.
const MAX_DEPTH: usize = 64;

/// Rule files of hookd's own that a project can have, whatever its agent.
const OWN: [(OfferTier, &str); 2] =
    [(OfferTier::Local, ".ling/hooks.local.json"), (OfferTier::Shared, ".ling/hooks.json")];
/// Those of Claude Code in a project.
const OF_CLAUDE_CODE: [(OfferTier, &str); 2] =
    [(OfferTier::Local, ".claude/settings.local.json"), (OfferTier::Shared, ".claude/settings.json")];
/// That of a person, in their home.
const OF_THE_PERSON: &str = ".claude/settings.json";

/// What a call brings.
#[derive(Debug, Default)]
pub(crate) struct Offer {
    pub(crate) files: Vec<OfferedRules>,
    /// What was left out and why, one line each.
    pub(crate) left_out: Vec<String>,
    /// The list of what is trusted, once somebody asked for it.
    trusted: Option<Store>,
}

/// Where the project in `folder` has its rule files, whether they are there or not.
pub(crate) fn of_projects(folder: &Path) -> Vec<PathBuf> {
    OWN.iter().chain(&OF_CLAUDE_CODE).map(|(_, path)| folder.join(path)).collect()
}

/// The agent has hook files that hookd can read in its place.
pub(crate) fn can_offer(agent: Agent) -> bool {
    agent == Agent::ClaudeCode
}

/// What `call` brings.
pub(crate) fn of(call: &Call, config: &Config) -> Offer {
    let mut offer = Offer::default();
    if is_nested() {
        offer.left_out.push("another relay runs this one, and has offered what there is".to_owned());
        return offer;
    }
    let offers = |origin| can_offer(call.agent) && config.offer.contains(&origin);
    let project = project(call);
    let mut of_the_person = None;
    if offers(Origin::User)
        && let Some(home) = config.home()
    {
        of_the_person = offer.take_own(OfferTier::Local, &home.join(OF_THE_PERSON), "claude-code");
    }
    if let Some(project) = &project {
        if offers(Origin::Project) {
            for (tier, path) in OF_CLAUDE_CODE {
                let path = project.join(path);
                // In the home itself the two are one file.
                if of_the_person.as_deref() != path.canonicalize().ok().as_deref() {
                    offer.take_trusted(config, tier, &path, "claude-code");
                }
            }
        }
        for (tier, path) in OWN {
            offer.take_trusted(config, tier, &project.join(path), "");
        }
    }
    if offers(Origin::Plugins)
        && let Some(home) = config.home()
    {
        for path in plugins::hook_files(&home, project.as_deref(), &mut offer.left_out) {
            offer.take_own(OfferTier::Plugin, &path, "claude-code");
        }
    }
    offer
}

impl Offer {
    /// A file of the person's own. Gives its real path, where it is one.
    fn take_own(&mut self, tier: OfferTier, path: &Path, format: &str) -> Option<PathBuf> {
        let read = read_owned(path).unwrap_or_else(|why| {
            self.left_out.push(why);
            None
        })?;
        let real = read.path.clone();
        self.take(tier, read, format);
        Some(real)
    }

    /// A file that counts only with this very content.
    fn take_trusted(&mut self, config: &Config, tier: OfferTier, path: &Path, format: &str) {
        let read = match read_any(path) {
            Ok(Some(read)) => read,
            Ok(None) => return,
            Err(why) => return self.left_out.push(why),
        };
        if !has_hooks(&read) {
            return;
        }
        if self.trusted.is_none() {
            let list = config.home().map_or_else(|| Ok(Store::default()), |home| Store::read(&home));
            self.trusted = Some(list.unwrap_or_else(|why| {
                self.left_out.push(why);
                Store::default()
            }));
        }
        if self.trusted.as_ref().is_some_and(|list| list.holds(&read.path, &hash(&read.bytes))) {
            self.take(tier, read, format);
        } else {
            let path = read.path.display();
            self.left_out
                .push(format!("{path} is not trusted as it is now; look at it, then run `hookctl trust {path}`"));
        }
    }

    fn take(&mut self, tier: OfferTier, read: Read, format: &str) {
        if !has_hooks(&read) {
            return;
        }
        let path = read.path.display();
        if read.bytes.len() > MAX_OFFERED_FILE_BYTES {
            let bytes = read.bytes.len();
            return self
                .left_out
                .push(format!("{path} has {bytes} bytes, hookd takes {MAX_OFFERED_FILE_BYTES} of a file"));
        }
        self.files.push(OfferedRules::new(tier, path.to_string(), format, read.bytes));
    }
}

/// A settings file without hooks is nobody's rule file.
fn has_hooks(read: &owned::Read) -> bool {
    read.bytes.windows(5).any(|word| word == b"hooks")
}

/// The project as the agent calls it in the environment of its hooks.
pub(crate) fn named_project(agent: Agent) -> Option<String> {
    let variable = match agent {
        Agent::ClaudeCode => "CLAUDE_PROJECT_DIR",
        Agent::GeminiCli => "GEMINI_PROJECT_DIR",
        Agent::Cursor => "CURSOR_PROJECT_DIR",
        Agent::QwenCode => "QWEN_PROJECT_DIR",
        Agent::FactoryDroid => "FACTORY_PROJECT_DIR",
        _ => return None,
    };
    env::var(variable).ok().filter(|project| Path::new(project).is_absolute())
}

/// The folder of the project: the first root of the workspace, else the nearest folder around the working directory that
/// is under version control, else that directory.
fn project(call: &Call) -> Option<PathBuf> {
    let mut roots = call.request.workspace_roots.iter().map(PathBuf::from);
    if let Some(root) = roots.find(|root| root.is_absolute()) {
        return Some(root);
    }
    let cwd = PathBuf::from(&call.request.cwd);
    let cwd = if cwd.is_absolute() { cwd } else { env::current_dir().ok()? };
    let versioned = |folder: &&Path| folder.join(".git").try_exists().unwrap_or(false);
    let project = cwd.ancestors().take(MAX_DEPTH).find(versioned).map(Path::to_owned);
    Some(project.unwrap_or(cwd))
}
