//! The rule files that a caller offers: checked, asked for where they are not known, compiled.

use std::{
    collections::{HashMap, HashSet},
    path::{Path, PathBuf},
    sync::Arc,
};

use hookd_proto::v1::{self, trigger_stream_request::Message as Came, trigger_stream_response::Message as Sent};
use hookd_rules::{
    Catalog, Fit, LabelPairs, LoadSettings, MAX_OFFERED_BYTES, MAX_OFFERED_FILE_BYTES, MAX_OFFERED_FILES, Offered,
    OfferedFile, OfferedTotal, Severity, Source, SourceState,
};
use sha2::{Digest as _, Sha256};
use tokio::{
    task::spawn_blocking,
    time::{Instant, timeout_at},
};
use tracing::info;

use super::{
    Wires,
    cache::{Cache, Compiled, Hash, Owner, Reading},
    turns::Turns,
    wire,
};
use crate::{
    evaluate::Brought,
    model::{Failed, Failure, Tier},
    rpc::status::{NotJudged, Violation},
    run::remote::{Origin, Origins},
    telemetry::call::Peer,
};

const MAX_PATH_BYTES: usize = 4096;
const MAX_FORMAT_BYTES: usize = 64;

/// Turns what callers offer into rules. One for the process.
#[derive(Debug, Default)]
pub(in crate::rpc::trigger) struct Offers {
    cache: Cache,
    /// For compiling.
    turns: Turns,
}

/// A file that is offered.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Offer {
    sha256: Arc<str>,
    hash: Hash,
    tier: Tier,
    path: PathBuf,
    format: String,
}

/// What came of all that a caller offered.
#[derive(Debug, Default)]
pub(super) struct Gathered {
    /// The rules, and what was not taken.
    pub(super) brought: Brought,
    /// Where each of the rules stands.
    pub(super) origins: Origins,
    /// The revision of the rules. Empty: no file was taken.
    pub(super) revision: String,
}

/// Checks what a caller offers.
///
/// # Errors
/// [`NotJudged::Invalid`] with everything that is wrong.
pub(super) fn parse(offered: Vec<v1::OfferedFile>) -> Result<Vec<Offer>, NotJudged> {
    let mut violations = Vec::new();
    let mut violation = |field: String, description: String| violations.push(Violation { field, description });
    if offered.len() > MAX_OFFERED_FILES {
        violation(
            "start.offered".to_owned(),
            format!("{} files, at most {MAX_OFFERED_FILES} are taken", offered.len()),
        );
    }
    let mut offers = Vec::new();
    for (place, file) in offered.into_iter().enumerate().take(MAX_OFFERED_FILES) {
        let mut wrong =
            |field: &str, description: String| violation(format!("start.offered[{place}].{field}"), description);
        let tier = match file.tier() {
            v1::Tier::Plugin => Some(Tier::Plugin),
            v1::Tier::Shared => Some(Tier::Shared),
            v1::Tier::Local => Some(Tier::Local),
            v1::Tier::Unspecified | v1::Tier::Team | v1::Tier::Managed => {
                wrong(
                    "tier",
                    "must be TIER_LOCAL, TIER_SHARED or TIER_PLUGIN: a caller can bring no others".to_owned(),
                );
                None
            }
        };
        let hash = hash_of_hex(&file.sha256);
        if hash.is_none() {
            wrong("sha256", "must be 64 lowercase hex digits".to_owned());
        }
        let path = PathBuf::from(&file.path);
        if !path.is_absolute() || file.path.len() > MAX_PATH_BYTES || file.path.chars().any(char::is_control) {
            let message =
                format!("must be an absolute path of at most {MAX_PATH_BYTES} bytes without control characters");
            wrong("path", message);
        }
        if file.format.len() > MAX_FORMAT_BYTES || file.format.chars().any(char::is_control) {
            wrong("format", format!("must have at most {MAX_FORMAT_BYTES} bytes, none of them a control character"));
        }
        if let (Some(tier), Some(hash)) = (tier, hash) {
            offers.push(Offer { sha256: file.sha256.into(), hash, tier, path, format: file.format });
        }
    }
    if violations.is_empty() { Ok(offers) } else { Err(NotJudged::Invalid(violations)) }
}

/// What is left of `offers` without the files that are sources of this hookd themselves, whole in force and for this
/// caller: on one machine a file can be both, and no hook runs twice. The path that a caller names is not looked at on the
/// disk: what it says is compared with the names of the sources' files and where these lead.
pub(super) fn not_in_force(mut offers: Vec<Offer>, peer: Peer, catalog: &Catalog, labels: &LabelPairs) -> Vec<Offer> {
    let applies =
        |source: &&Source| source.selector.as_ref().is_none_or(|selector| selector.fit(labels) == Fit::Applies);
    let is_source = |path: &Path| {
        let sources = catalog.sources.iter().filter(applies);
        let mut loaded = sources.filter(|source| source.state == SourceState::Loaded);
        loaded.any(|source| source.files.contains(path))
    };
    // The same path on another machine is another file.
    if matches!(peer, Peer::Local) {
        offers.retain(|offer| !is_source(&offer.path));
    }
    offers
}

impl Offers {
    /// The rules of what `owner` offers. What is not known yet it is asked for, and has at most half of the time up to
    /// `end` to send it.
    pub(super) async fn gather(
        &self,
        owner: &Owner,
        offers: &[Offer],
        settings: &Arc<LoadSettings>,
        wires: &mut Wires<'_>,
        end: Instant,
    ) -> Gathered {
        if offers.is_empty() {
            return Gathered::default();
        }
        let now = Instant::now();
        let half = end.saturating_duration_since(now).checked_div(2).unwrap_or_default();
        let until = now.checked_add(half).unwrap_or(end);
        let contents = self.contents(owner, offers, wires, until).await;

        let mut gathered = Gathered::default();
        let (mut seen, mut bytes, mut total) = (HashSet::new(), 0_usize, OfferedTotal::default());
        let mut taken = Vec::<(&Offer, Arc<Offered>)>::new();
        for offer in offers {
            let refuse = |why: String| {
                let failed = Failed::new(Failure::NotPermitted, format!("the offered file is not taken: {why}"));
                (Arc::new(offer.file().stand_in()), failed)
            };
            if !seen.insert((offer.tier, offer.hash)) {
                gathered.brought.refused.push(refuse("the same content was offered before it in this tier".to_owned()));
                continue;
            }
            let Some(content) = contents.get(&offer.hash) else {
                let why = "it was not sent in time, or its content is other than its hash says";
                gathered.brought.refused.push(refuse(why.to_owned()));
                continue;
            };
            bytes = bytes.saturating_add(content.len());
            if bytes > MAX_OFFERED_BYTES {
                gathered.brought.refused.push(refuse(format!("all together have more than {MAX_OFFERED_BYTES} bytes")));
                continue;
            }
            let compiled = self.compiled(owner, offer, Arc::clone(content), settings, until).await;
            match compiled.map_err(|why| why.to_string()).and_then(|offered| total.add(&offered).map(|()| offered)) {
                Ok(offered) => taken.push((offer, offered)),
                Err(why) => gathered.brought.refused.push(refuse(why)),
            }
        }
        // Stable: within a tier the order is the caller's.
        taken.sort_by_key(|(offer, _)| std::cmp::Reverse(offer.tier));
        gathered.revision = Offered::revision(taken.iter().map(|(_, offered)| &**offered));
        let rules = taken.iter().flat_map(|(offer, offered)| offered.rules.iter().map(move |rule| (offer, rule)));
        let origin = |offer: &Offer, index| Origin { sha256: Arc::clone(&offer.sha256), index };
        gathered.origins =
            rules.clone().map(|(offer, rule)| (Arc::clone(&rule.rule), origin(offer, rule.index))).collect();
        gathered.brought.rules = rules.map(|(_, rule)| Arc::clone(&rule.rule)).collect();
        gathered
    }

    /// The contents of what is offered, as far as they are known or come in time. What came is not taken from the cache
    /// again, which may have let it go meanwhile.
    async fn contents(
        &self,
        owner: &Owner,
        offers: &[Offer],
        wires: &mut Wires<'_>,
        until: Instant,
    ) -> HashMap<Hash, Arc<[u8]>> {
        let known = |offer: &Offer| Some((offer.hash, self.cache.content(owner, offer.hash)?));
        let mut contents = offers.iter().filter_map(known).collect::<HashMap<_, _>>();
        let mut unknown = Vec::<&Offer>::new();
        for offer in offers.iter().filter(|offer| !contents.contains_key(&offer.hash)) {
            if !unknown.iter().any(|there| there.hash == offer.hash) {
                unknown.push(offer);
            }
        }
        if unknown.is_empty() {
            return contents;
        }
        let need = v1::NeedFiles { sha256: unknown.iter().map(|offer| offer.sha256.to_string()).collect() };
        if timeout_at(until, wires.send(wire::response(Sent::NeedFiles(need)))).await.is_err() {
            return contents;
        }
        let files = match timeout_at(until, wires.receive()).await {
            Ok(Some(Came::Files(files))) => files.files,
            Ok(Some(Came::Start(_) | Came::CommandResult(_))) => {
                wires.hang_up();
                return contents;
            }
            Ok(None) | Err(_) => return contents,
        };
        for file in files.into_iter().take(MAX_OFFERED_FILES) {
            if file.content.len() > MAX_OFFERED_FILE_BYTES {
                continue;
            }
            // What it is called does not count, only what it is.
            let hash = Hash::from(Sha256::digest(&file.content));
            if unknown.iter().any(|offer| offer.hash == hash) {
                let content = Arc::<[u8]>::from(file.content);
                self.cache.put(owner, hash, Arc::clone(&content));
                contents.insert(hash, content);
            }
        }
        contents
    }

    async fn compiled(
        &self,
        owner: &Owner,
        offer: &Offer,
        content: Arc<[u8]>,
        settings: &Arc<LoadSettings>,
        until: Instant,
    ) -> Compiled {
        let reading = Reading {
            tier: offer.tier,
            path: offer.path.clone(),
            format: offer.format.clone(),
            settings: Arc::clone(settings),
        };
        if let Some(known) = self.cache.compiled(owner, offer.hash, &reading) {
            return known;
        }
        let Ok(Ok(turn)) = timeout_at(until, self.turns.take(owner)).await else {
            return Err("the server is busy with other files".into());
        };
        let (offer_here, settings) = (offer.clone(), Arc::clone(settings));
        let compiled = spawn_blocking(move || {
            // Held to the end, also where nobody waits for it any more.
            let _turn = turn;
            Offered::compile(&content, offer_here.file(), &settings)
        });
        let compiled: Compiled = match compiled.await {
            Ok(Ok(offered)) => Ok(Arc::new(offered)),
            Ok(Err(why)) => Err(why.into()),
            Err(_) => return Err("a fault in hookd, see its log".into()),
        };
        if let Ok(offered) = &compiled {
            log(offer, offered);
        }
        self.cache.put_compiled(owner, offer.hash, reading, compiled.clone());
        compiled
    }
}

impl Offer {
    fn file(&self) -> OfferedFile<'_> {
        OfferedFile { tier: self.tier, path: Path::new(&self.path), format: &self.format }
    }
}

/// Rules that are left out are named here, once for each content, and by `hookctl check` where the file is.
fn log(offer: &Offer, offered: &Offered) {
    let mut errors = offered.problems.iter().filter(|problem| problem.severity == Severity::Error);
    if let Some(first) = errors.next() {
        let others = errors.count();
        info!(tier = offer.tier.name(), problem = %first, others, "rules of an offered file left out");
    }
}

fn hash_of_hex(text: &str) -> Option<Hash> {
    let digit = |byte: u8| match byte {
        b'0'..=b'9' | b'a'..=b'f' => char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok()),
        _ => None,
    };
    let (pairs, rest) = text.as_bytes().as_chunks::<2>();
    let mut hash = Hash::default();
    if !rest.is_empty() || pairs.len() != hash.len() {
        return None;
    }
    for (byte, [high, low]) in hash.iter_mut().zip(pairs) {
        *byte = digit(*high)?.checked_mul(16)?.checked_add(digit(*low)?)?;
    }
    Some(hash)
}

#[cfg(test)]
mod tests {
    use hookd_rules::{MissingLabel, Operator, Requirement, Selector};

    use super::*;

    #[test]
    fn hashes_are_64_lowercase_hex_digits() {
        let hex = "00ff10".to_owned() + &"a".repeat(58);
        let hash = hash_of_hex(&hex).unwrap();
        assert_eq!(hash[..4], [0x00, 0xff, 0x10, 0xaa]);
        for wrong in
            ["a".repeat(63), "a".repeat(62), "a".repeat(66), hex.to_uppercase(), hex.replace('f', "g"), String::new()]
        {
            assert_eq!(hash_of_hex(&wrong), None, "{wrong}");
        }
    }

    #[test]
    fn a_file_that_is_a_source_for_others_alone_is_taken() {
        let operator = Operator::In(["a".to_owned()].into());
        let requirement = Requirement { key: "tenant".to_owned(), operator };
        let selector = Selector::new([requirement], MissingLabel::Skip).unwrap();
        let source = |path: &str, selector: Option<&Selector>| Source {
            tier: Tier::Shared,
            path: path.into(),
            files: [Path::new(path).join("x.json")].into(),
            state: SourceState::Loaded,
            rules: 1,
            errors: Vec::new(),
            selector: selector.cloned().map(Arc::new),
        };
        let sources = vec![source("/all", None), source("/of-a", Some(&selector))];
        let catalog = Catalog { sources, ..Catalog::default() };
        let offers = ["/all/x.json", "/of-a/x.json", "/mine.json"].map(|path| Offer {
            sha256: Arc::from(""),
            hash: Hash::default(),
            tier: Tier::Shared,
            path: path.into(),
            format: String::new(),
        });
        let taken = |peer, labels: &[(&str, &str)]| {
            let own = |(key, value): &(&str, &str)| ((*key).to_owned(), (*value).to_owned());
            let labels = labels.iter().map(own).collect::<Vec<_>>();
            let offers = not_in_force(offers.to_vec(), peer, &catalog, &labels);
            offers.into_iter().map(|offer| offer.path.display().to_string()).collect::<Vec<_>>()
        };
        assert_eq!(taken(Peer::Local, &[("tenant", "a")]), ["/mine.json"]);
        assert_eq!(taken(Peer::Local, &[("tenant", "b")]), ["/of-a/x.json", "/mine.json"]);
        assert_eq!(taken(Peer::Local, &[]), ["/of-a/x.json", "/mine.json"]);
        assert_eq!(taken(Peer::Remote(None), &[("tenant", "a")]).len(), 3);
    }

    #[test]
    fn everything_that_is_wrong_is_named() {
        let file = |tier: v1::Tier, sha256: &str, path: &str, format: &str| v1::OfferedFile {
            sha256: sha256.to_owned(),
            tier: tier.into(),
            path: path.to_owned(),
            format: format.to_owned(),
        };
        let hash = "a".repeat(64);
        assert_eq!(parse(vec![file(v1::Tier::Local, &hash, "/a", "x")]).map(|offers| offers.len()), Ok(1));
        let wrong = parse(vec![
            file(v1::Tier::Managed, &hash, "/a", ""),
            file(v1::Tier::Team, "abc", "a", "a\n"),
            v1::OfferedFile { tier: 99, ..file(v1::Tier::Local, &hash, "/a\u{1b}", "") },
        ]);
        let Err(NotJudged::Invalid(violations)) = wrong else { panic!("{wrong:?}") };
        assert_eq!(
            violations.iter().map(|violation| violation.field.as_str()).collect::<Vec<_>>(),
            [
                "start.offered[0].tier",
                "start.offered[1].tier",
                "start.offered[1].sha256",
                "start.offered[1].path",
                "start.offered[1].format",
                "start.offered[2].tier",
                "start.offered[2].path",
            ]
        );
        let many = vec![file(v1::Tier::Local, &hash, "/a", ""); MAX_OFFERED_FILES + 1];
        let Err(NotJudged::Invalid(violations)) = parse(many) else { panic!("too many") };
        assert_eq!(violations[0].description, "65 files, at most 64 are taken");
    }
}
