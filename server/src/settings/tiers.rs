//! The sources of each tier, and what the tier may do.

use std::{
    path::{Path, PathBuf},
    time::Duration,
};

use hookd_json::Value as Json;
use hookd_rules::{Mode, OnError, PerTier, Permits, SourceSettings, Tier};
use serde_json::{Map, json};

use super::{
    permits,
    print::duration,
    section::{Section, text},
    selector,
    words::{Words, word_of},
};

/// One tier.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TierSettings {
    /// Where its rules come from, in evaluation order.
    pub sources: Vec<SourceSettings>,
    /// The settings say so themselves, be it that there are none.
    pub says_sources: Said,
    /// `shadow` keeps every rule of the tier out of verdicts.
    pub mode: Mode,
    /// What its failures count as where a rule does not say (law 7).
    pub on_error: OnError,
    /// Its ALLOW counts (law 3).
    pub may_allow: bool,
    /// Variables of the server's environment that its header values may take.
    pub allow_env: Vec<String>,
    /// Files that its header values may take.
    pub allow_files: Vec<PathBuf>,
    /// Whether its commands run on this machine (`deploy/docs/rules.md`, "Where commands run"). Central tiers: always
    /// [`ServerCommands::Allow`].
    pub server_commands: ServerCommands,
    /// What its rules may be.
    pub permits: Permits,
}

/// Whether the settings say something themselves. What it comes to can be the same, so no two settings differ by it.
#[derive(Debug, Clone, Copy)]
pub struct Said(pub bool);

impl PartialEq for Said {
    fn eq(&self, _: &Self) -> bool {
        true
    }
}

impl Eq for Said {}

/// Whether a tier's commands run on this machine.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ServerCommands {
    /// While hookd listens on loopback and unix sockets alone.
    Loopback,
    /// Always.
    Allow,
    /// Never.
    Deny,
}

/// What a null is here: left by a template, or of a file that was cut off while it was written.
pub(super) const CUT_OFF: &str = "is empty, so rules would fall away: leave it out if that is meant";
const NO_SOURCES: &str = "is empty, so the rules of this tier would fall away: write [] if that is meant";
const MODES: &Words<Mode> = &[("enforce", Mode::Enforce), ("shadow", Mode::Shadow)];
const ON_ERROR: &Words<OnError> = &[("allow", OnError::Allow), ("block", OnError::Block)];
const SERVER_COMMANDS: &Words<ServerCommands> =
    &[("loopback", ServerCommands::Loopback), ("allow", ServerCommands::Allow), ("deny", ServerCommands::Deny)];

impl ServerCommands {
    /// Whether they run, `local` being whether only this machine can reach the server.
    #[must_use]
    pub fn allows(self, local: bool) -> bool {
        match self {
            Self::Loopback => local,
            Self::Allow => true,
            Self::Deny => false,
        }
    }
}

pub(super) fn tiers(
    mut section: Section<'_, '_>,
    working_directory: &Path,
    max_handler_timeout: Duration,
) -> PerTier<TierSettings> {
    let mut sources_named = false;
    let mut tiers = PerTier::from_fn(|tier| {
        section.refuse_null(tier.name(), CUT_OFF);
        let mut section = section.section(tier.name());
        let defaults = hookd_rules::TierSettings::new(tier);
        section.refuse_null("sources", NO_SOURCES);
        let is_text = section.peek("sources").is_some_and(|value| text(value).is_some());
        let sources = section.sources("sources");
        if is_text && sources.as_ref().is_some_and(Vec::is_empty) {
            section.problem("sources", None, NO_SOURCES);
        }
        sources_named |= sources.is_some();
        let settings = TierSettings {
            says_sources: Said(sources.is_some()),
            sources: sources.unwrap_or_default(),
            mode: section.word("mode", MODES, Mode::default()),
            on_error: section.word("on_error", ON_ERROR, defaults.policy.on_error),
            may_allow: section.yes_or_no("may_allow", defaults.policy.may_allow),
            allow_env: section
                .strings("allow_env", "a list of names of variables, such as [SLACK_TOKEN]")
                .unwrap_or_default(),
            allow_files: section.paths("allow_files").unwrap_or_default(),
            server_commands: server_commands(&mut section, tier),
            permits: permits::permits(&mut section, tier, max_handler_timeout),
        };
        section.end();
        settings
    });
    section.end();
    for tier in Tier::ALL {
        // Whoever adds rules of another tier does not mean to lose the managed ones.
        let stands = if tier == Tier::Managed { !tiers.managed.says_sources.0 } else { !sources_named };
        if stands {
            tiers.get_mut(tier).sources = default_sources(tier, working_directory);
        }
    }
    tiers
}

fn server_commands(section: &mut Section<'_, '_>, tier: Tier) -> ServerCommands {
    if !tier.is_central() {
        return section.word("server_commands", SERVER_COMMANDS, ServerCommands::Loopback);
    }
    if let given @ Some(_) = section.peek("server_commands").cloned() {
        let message = "is for local, shared and plugin: commands of this tier always run on the server";
        section.problem("server_commands", given.as_ref(), message);
        // It is no unknown key besides.
        section.optional_word("server_commands", SERVER_COMMANDS);
    }
    ServerCommands::Allow
}

pub(super) fn tree(tiers: &PerTier<TierSettings>) -> Json {
    Tier::ALL
        .map(|tier| (tier.name().to_owned(), tier_tree(tier, tiers.get(tier))))
        .into_iter()
        .collect::<Map<_, _>>()
        .into()
}

fn tier_tree(tier: Tier, settings: &TierSettings) -> Json {
    let permits = &settings.permits;
    let sources = settings.sources.iter().map(|source| {
        let mut tree = json!({ "path": source.path, "optional": source.optional });
        if let (Some(selector), Some(table)) = (&source.selector, tree.as_object_mut()) {
            table.insert("selector".to_owned(), selector::tree(selector));
            table.insert("missing_label".to_owned(), selector.missing_label().name().into());
        }
        tree
    });
    let mut tree = json!({
        "sources": sources.collect::<Vec<_>>(),
        "mode": word_of(MODES, settings.mode),
        "on_error": word_of(ON_ERROR, settings.on_error),
        "may_allow": settings.may_allow,
        "allow_env": settings.allow_env,
        "allow_files": settings.allow_files,
        "enabled": permits.enabled,
        "handlers": permits.handlers,
        "events": permits.events,
        "http_hosts": permits.http_hosts,
        "max_timeout": permits.max_timeout.map(duration),
    });
    if let (false, Some(table)) = (tier.is_central(), tree.as_object_mut()) {
        table.insert("server_commands".to_owned(), word_of(SERVER_COMMANDS, settings.server_commands).into());
    }
    tree
}

/// The default sources: that of managed stands while this tier names none of its own, the others while no tier does.
fn default_sources(tier: Tier, working_directory: &Path) -> Vec<SourceSettings> {
    let path = match tier {
        Tier::Managed => PathBuf::from("/etc/hookd/managed"),
        Tier::Local => working_directory.join(".ling/hooks.local.json"),
        Tier::Shared => working_directory.join(".ling/hooks.json"),
        Tier::Team | Tier::Plugin => return Vec::new(),
    };
    vec![SourceSettings { path, optional: true, selector: None }]
}
