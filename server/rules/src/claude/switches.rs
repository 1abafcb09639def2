//! Keys beside `hooks` that switch hooks off. No file switches off anything of its own tier or of one above.
//!
//! | Key | Here |
//! | --- | --- |
//! | `disableAllHooks: true` | switches off the hooks of its own file |
//! | `allowedHttpHookUrls`, `httpHookAllowedEnvVars` | bind the http hooks of their own file |
//! | `allowManagedHooksOnly` in a managed or team file | switches off the tiers local, shared and plugin; what is neither true nor false counts as true, as that agent has it |
//! | `strictPluginOnlyCustomization` in a managed or team file, `true` or with `hooks` in its list | switches off the tiers local and shared |
//!
//! What has no effect, or less than in the agent, is named in a warning, with the setting of hookd's that has it.

use hookd_json::{Node, Tree};
use url::Url;

use crate::{
    Tier,
    file::{Context, FileDraft},
    problem::{Issues, KeyPath, Severity},
    shape::Fields,
};

/// What the switches of one file say of its own hooks.
#[derive(Debug, Default)]
pub(super) struct Switches {
    all_off: bool,
    /// The URLs that http hooks may post to. `None`: any.
    urls: Option<Vec<String>>,
    /// The variables that headers may name. `None`: any that the hook itself names.
    variables: Option<Vec<String>>,
    /// Tiers below, and the key that switches each of them off.
    tiers: Vec<(Tier, &'static str)>,
}

const MANAGED_ONLY: &str = "allowManagedHooksOnly";
const BELOW: [Tier; 3] = [Tier::Local, Tier::Shared, Tier::Plugin];
const BELOW_BUT_PLUGINS: [Tier; 2] = [Tier::Local, Tier::Shared];
const PLUGINS_ONLY: &str = "strictPluginOnlyCustomization";

impl Switches {
    pub(super) fn read(top: Fields<'_>, context: &Context<'_>, issues: &mut Issues) -> Self {
        let mut say = |severity, key: &str, message: String| {
            let Some(node) = top.node(key) else { return };
            let path = KeyPath::Key(&KeyPath::Top, key);
            match severity {
                Severity::Error => issues.error(node.place, path, message),
                Severity::Warning => issues.warning(node.place, path, message),
            }
        };
        let is_set = |key| top.node(key).is_some_and(|node| !matches!(node.value, Tree::Bool(false) | Tree::Null));
        if is_set("disableAllHooks") {
            let message = match (top.flag("disableAllHooks"), context.tier.is_central()) {
                (false, _) => "must be true or false, and has no effect",
                (true, false) => "switches off the hooks of this file, and no others",
                (true, true) => {
                    "switches off the hooks of this file, and no others: whole tiers are switched off by \
                     `tiers.<tier>.enabled` in the settings of hookd"
                }
            };
            say(Severity::Warning, "disableAllHooks", message.to_owned());
        }
        let mut tiers = Vec::new();
        for (key, off) in [(MANAGED_ONLY, &BELOW[..]), (PLUGINS_ONLY, &BELOW_BUT_PLUGINS)] {
            let is_on = match top.node(key).filter(|_| is_set(key)).map(|node| &node.value) {
                None => false,
                Some(Tree::List(items)) if key == PLUGINS_ONLY => {
                    items.iter().any(|item| item.value == Tree::String("hooks".to_owned()))
                }
                Some(_) => true,
            };
            if is_on && context.tier.is_central() && context.selector.is_some() {
                let message = "switches off whole tiers, for every caller, and the source of this file has a selector: set \
                               it in a file of a source without one";
                say(Severity::Error, key, message.to_owned());
            } else if is_on && context.tier.is_central() {
                tiers.extend(off.iter().map(|tier| (*tier, key)));
            } else if is_on {
                say(Severity::Warning, key, "has no effect: it counts in managed and team files alone".to_owned());
            }
        }
        if context.tier.is_central() {
            for (key, setting) in [("allowedHttpHookUrls", "http_hosts"), ("httpHookAllowedEnvVars", "allow_env")] {
                let message =
                    format!("binds the hooks of this file alone, those of other tiers by `tiers.<tier>.{setting}`");
                say(Severity::Warning, key, message);
            }
        }
        Self {
            all_off: top.flag("disableAllHooks"),
            urls: top.node("allowedHttpHookUrls").map(texts),
            variables: top.node("httpHookAllowedEnvVars").map(texts),
            tiers,
        }
    }

    /// Takes out what this file switches off.
    pub(super) fn apply(self, draft: &mut FileDraft) {
        draft.switches_off = self.tiers;
        if self.all_off {
            draft.rules.clear();
        }
    }

    /// Whether http hooks may post to `url`.
    pub(super) fn permits_url(&self, url: &str) -> bool {
        let matches = |pattern: &String| wildcard(&normal(pattern), url);
        self.urls.as_ref().is_none_or(|patterns| patterns.iter().any(matches))
    }

    /// Whether headers may name the variable `name`.
    pub(super) fn permits_variable(&self, name: &str) -> bool {
        self.variables.as_ref().is_none_or(|names| names.iter().any(|permitted| permitted == name))
    }
}

/// The strings of a list. What is none permits nothing.
fn texts(node: &Node) -> Vec<String> {
    let Tree::List(items) = &node.value else { return Vec::new() };
    let text = |item: &Node| match &item.value {
        Tree::String(text) => Some(text.clone()),
        _ => None,
    };
    items.iter().filter_map(text).collect()
}

/// A pattern of URLs with scheme and host in lowercase, as URLs have them.
fn normal(pattern: &str) -> String {
    if let Ok(url) = Url::parse(pattern)
        && !pattern.contains('*')
    {
        return url.into();
    }
    let Some((scheme, rest)) = pattern.split_once("://") else { return pattern.to_owned() };
    let (host, path) = rest.find('/').and_then(|at| rest.split_at_checked(at)).unwrap_or((rest, ""));
    format!("{}://{}{path}", scheme.to_lowercase(), host.to_lowercase())
}

/// Whether `text` is what `pattern` says, in which `*` stands for anything.
fn wildcard(pattern: &str, text: &str) -> bool {
    let mut parts = pattern.split('*');
    let Some(mut rest) = parts.next().and_then(|start| text.strip_prefix(start)) else { return false };
    let mut parts = parts.peekable();
    if parts.peek().is_none() {
        return rest.is_empty();
    }
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return rest.ends_with(part);
        }
        match rest.split_once(part) {
            Some((_, after)) => rest = after,
            None => return false,
        }
    }
    true
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_of_urls_bind() {
        let switches = |urls: &[&str]| Switches {
            urls: Some(urls.iter().map(|&url| url.to_owned()).collect()),
            ..Switches::default()
        };
        for (urls, url, permitted) in [
            (&["https://Hooks.example/*"][..], "https://hooks.example/a", true),
            (&["https://hooks.example/*"], "https://hooks.example.evil/a", false),
            (&["http://localhost:*"], "http://localhost:8080/x", true),
            (&["https://a.example"], "https://a.example/", true),
            (&["https://a.example"], "https://a.example/x", false),
            (&["https://*.example/x"], "https://a.b.example/x", true),
            (&["*"], "https://a.example/", true),
            (&["https://*/a*b"], "https://h/acb", true),
            (&["https://*/a*b"], "https://h/ac", false),
            (&[], "https://a.example/", false),
        ] {
            assert_eq!(switches(urls).permits_url(url), permitted, "{urls:?} {url}");
        }
        assert!(Switches::default().permits_url("https://a.example/"));
    }
}
