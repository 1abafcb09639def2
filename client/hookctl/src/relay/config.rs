//! Where hookd is and what to do without it: the command line, then a file that only its owner can write, then the
//! environment.

use std::{
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use hookd_client::Address;
use hookd_json::{Kind, Value};
use hookd_rules::Format;

use crate::{
    args::{OnUnavailable, Origin, RelayArgs, addresses_of_environment},
    relay::{home::home, owned::read_owned},
};

/// The file of the organisation, which counts before the person's.
const OF_THE_MACHINE: &str = "/etc/hookd/relay.yaml";
/// The file of a person, in their home.
const OF_THE_PERSON: &str = ".config/hookd/relay.yaml";
const KEYS: &str = "`address`, `on_unavailable`, `deadline`, `offer`, `home`";

/// What holds for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where hookd listens, at least one.
    pub(crate) addresses: Vec<Address>,
    pub(crate) on_unavailable: OnUnavailable,
    /// How long the whole call may take.
    pub(crate) deadline: Deadline,
    /// Which of the agent's own hook files it leaves to hookd.
    pub(crate) offer: Vec<Origin>,
    /// Where the person's own files are, where the file says so.
    named_home: Option<PathBuf>,
}

/// How long a call may take.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Deadline {
    /// So long, whatever the agent does by default: whoever says it on a command line knows what limit stands beside it.
    Exactly(Duration),
    /// So long, but never longer than the agent waits by default, less what [`Deadline::of`] keeps of it.
    AtMost(Duration),
}

/// As a file says it; `None` where it does not.
#[derive(Debug, Default, PartialEq, Eq)]
struct FromFile {
    addresses: Option<Vec<Address>>,
    on_unavailable: Option<OnUnavailable>,
    deadline: Option<Duration>,
    offer: Option<Vec<Origin>>,
    home: Option<PathBuf>,
}

impl Deadline {
    /// Unless something else is said: as long as hookd gives a call that does not say.
    const DEFAULT: Self = Self::AtMost(Duration::from_secs(30));

    /// The time for a hook that the agent gives `limit`: at most four fifths of it, so that the answer is there before
    /// the agent takes the hook for dead, which nearly every agent takes for an allow.
    pub(crate) fn of(self, limit: Duration) -> Duration {
        let kept = limit.checked_div(5).unwrap_or_default();
        match self {
            Self::Exactly(time) => time,
            Self::AtMost(time) => time.min(limit.saturating_sub(kept)),
        }
    }
}

impl Config {
    /// What holds for a call with `args`. `from_environment` is `HOOKD_ADDRESS`.
    ///
    /// A repository's settings can set variables for the hooks of an agent, so the environment counts only where neither
    /// the command line nor a file says where hookd is, and says nothing else.
    ///
    /// # Errors
    /// One line: a file that is not as it must be, or an address that is none.
    pub(crate) fn of(args: &RelayArgs, from_environment: Option<&str>) -> Result<Self, String> {
        let file = FromFile::find(args.config.as_deref())?;
        let addresses = match (&args.address, file.addresses) {
            (Some(addresses), _) => addresses.0.clone(),
            (None, Some(addresses)) => addresses,
            (None, None) => addresses_of_environment(from_environment)?,
        };
        let deadline = match (args.deadline, file.deadline) {
            (Some(time), _) => Deadline::Exactly(time),
            (None, Some(time)) => Deadline::AtMost(time),
            (None, None) => Deadline::DEFAULT,
        };
        Ok(Self {
            addresses,
            on_unavailable: args.on_unavailable.or(file.on_unavailable).unwrap_or(OnUnavailable::Block),
            deadline,
            offer: if args.offer.is_empty() { file.offer.unwrap_or_default() } else { args.offer.clone() },
            named_home: file.home,
        })
    }

    /// Where the person's own files are, as far as that is known. Looked up only where somebody wants to know it.
    pub(crate) fn home(&self) -> Option<PathBuf> {
        self.named_home.clone().or_else(home)
    }

    /// What holds where nothing can be read: nothing is known but that it blocks.
    pub(crate) fn broken(args: &RelayArgs) -> Self {
        Self {
            addresses: Vec::new(),
            on_unavailable: OnUnavailable::Block,
            deadline: args.deadline.map_or(Deadline::DEFAULT, Deadline::Exactly),
            offer: Vec::new(),
            named_home: None,
        }
    }
}

/// The person's home, as the file says it or as the system does.
///
/// # Errors
/// One line: the file is not as it must be.
pub(crate) fn home_of(config: Option<&Path>) -> Result<Option<PathBuf>, String> {
    Ok(FromFile::find(config)?.home.or_else(home))
}

/// A file says where hookd listens, so that nothing in the environment does.
///
/// # Errors
/// One line: the file is not as it must be.
pub(crate) fn names_addresses() -> Result<bool, String> {
    Ok(FromFile::find(None)?.addresses.is_some())
}

impl FromFile {
    /// The named file; else the first that is there.
    fn find(named: Option<&Path>) -> Result<Self, String> {
        if let Some(path) = named {
            return Self::read(path)?.ok_or_else(|| format!("{} is not there", path.display()));
        }
        if let Some(file) = Self::read(Path::new(OF_THE_MACHINE))? {
            return Ok(file);
        }
        let of_the_person = home().map(|home| Self::read(&home.join(OF_THE_PERSON))).transpose()?;
        Ok(of_the_person.flatten().unwrap_or_default())
    }

    fn read(path: &Path) -> Result<Option<Self>, String> {
        let Some(read) = read_owned(path)? else { return Ok(None) };
        let text = str::from_utf8(&read.bytes).map_err(|_| format!("{} is not UTF-8", path.display()))?;
        Self::parse(text).map(Some).map_err(|why| format!("{}: {why}", path.display()))
    }

    fn parse(text: &str) -> Result<Self, String> {
        let all = match Format::Yaml.value(text).map_err(|error| error.to_string())? {
            Value::Null => return Ok(Self::default()),
            Value::Object(all) => all,
            other => return Err(format!("it is {}, expected an object with {KEYS}", Kind::of(&other).noun())),
        };
        let mut file = Self::default();
        for (key, value) in all {
            match key.as_str() {
                "address" => file.addresses = Some(addresses(&value)?),
                "on_unavailable" => file.on_unavailable = Some(word(&key, &value)?),
                "deadline" => {
                    file.deadline =
                        Some(crate::args::timeout(text_of(&key, &value)?).map_err(|why| format!("`deadline`: {why}"))?)
                }
                "offer" => file.offer = Some(list(&key, &value)?),
                "home" => file.home = Some(folder(&key, &value)?),
                _ => return Err(format!("unknown key `{key}`, expected {KEYS}")),
            }
        }
        Ok(file)
    }
}

fn addresses(value: &Value) -> Result<Vec<Address>, String> {
    let texts = match value {
        Value::Array(items) => items.iter().map(|item| text_of("address", item)).collect::<Result<Vec<_>, _>>()?,
        one => vec![text_of("address", one)?],
    };
    Address::parse_list(&texts.join(",")).map_err(|error| format!("`address`: {error}"))
}

fn list<T: FromStr<Err = String>>(key: &str, value: &Value) -> Result<Vec<T>, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| word(key, item)).collect(),
        other => Err(format!("`{key}` is {}, expected a list", Kind::of(other).noun())),
    }
}

fn word<T: FromStr<Err = String>>(key: &str, value: &Value) -> Result<T, String> {
    text_of(key, value)?.parse().map_err(|why| format!("`{key}`: {why}"))
}

fn folder(key: &str, value: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(text_of(key, value)?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!("`{key}` is `{}`, expected an absolute path", path.display()))
    }
}

fn text_of<'v>(key: &str, value: &'v Value) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("`{key}` is {}, expected a string", Kind::of(value).noun()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(list: &str) -> Option<Vec<Address>> {
        Some(Address::parse_list(list).unwrap())
    }

    #[test]
    fn a_file_says_what_it_says_and_nothing_else() {
        assert_eq!(FromFile::parse(""), Ok(FromFile::default()));
        assert_eq!(FromFile::parse("# nothing yet\n"), Ok(FromFile::default()));
        let whole = "address: unix:/run/hookd.sock\non_unavailable: allow\ndeadline: 10s\noffer: [project, user, plugins]\n\
                     home: /home/me\n";
        let expected = FromFile {
            addresses: at("unix:/run/hookd.sock"),
            on_unavailable: Some(OnUnavailable::Allow),
            deadline: Some(Duration::from_secs(10)),
            offer: Some(vec![Origin::Project, Origin::User, Origin::Plugins]),
            home: Some("/home/me".into()),
        };
        assert_eq!(FromFile::parse(whole), Ok(expected));
        let several = FromFile { addresses: at("a:1,b:2,c:3"), ..FromFile::default() };
        assert_eq!(FromFile::parse("address: [ 'a:1,b:2', 'c:3' ]"), Ok(several));
    }

    #[test]
    fn what_a_file_must_not_say_is_named() {
        let cases = [
            ("- a", "it is an array, expected an object with `address`, `on_unavailable`, `deadline`, `offer`, `home`"),
            ("adress: a:1", "unknown key `adress`, expected `address`, `on_unavailable`, `deadline`, `offer`, `home`"),
            ("address: a:1\naddress: b:1", "duplicate key `address` at line 2 column 1"),
            (
                "address: nowhere",
                "`address`: `nowhere` is not an address, expected `host:port`, `http://host:port` or `unix:/path`",
            ),
            ("address: []", "`address`: no address given, expected `host:port`, `http://host:port` or `unix:/path`"),
            ("address: 5", "`address` is a number, expected a string"),
            ("on_unavailable: maybe", "`on_unavailable`: `maybe` is not known, expected `block` or `allow`"),
            ("on_unavailable: true", "`on_unavailable` is a boolean, expected a string"),
            ("deadline: 10", "`deadline` is a number, expected a string"),
            ("deadline: soon", "`deadline`: expected number at 0, expected such as `30s` or `500ms`"),
            ("offer: project", "`offer` is a string, expected a list"),
            ("offer: [ all ]", "`offer`: `all` is not known, expected `project`, `user` or `plugins`"),
            ("home: me", "`home` is `me`, expected an absolute path"),
        ];
        for (text, expected) in cases {
            assert_eq!(FromFile::parse(text), Err(expected.to_owned()), "{text}");
        }
    }

    #[test]
    fn the_answer_is_there_before_the_agent_gives_up() {
        let seconds = Duration::from_secs_f64;
        let cases = [
            (Deadline::DEFAULT, seconds(600.0), seconds(30.0)),
            (Deadline::DEFAULT, seconds(30.0), seconds(24.0)),
            (Deadline::DEFAULT, seconds(1.5), seconds(1.2)),
            (Deadline::AtMost(seconds(300.0)), seconds(60.0), seconds(48.0)),
            (Deadline::AtMost(seconds(1.0)), seconds(60.0), seconds(1.0)),
            (Deadline::Exactly(seconds(100.0)), seconds(60.0), seconds(100.0)),
        ];
        for (deadline, limit, expected) in cases {
            assert_eq!(deadline.of(limit), expected, "{deadline:?} {limit:?}");
        }
    }
}
