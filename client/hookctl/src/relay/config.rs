//! Where hookd is and what to do without it: the command line, then a file that only its owner can write, then the
//! environment.

use std::{
    ffi::OsString,
    path::{Path, PathBuf},
    str::FromStr,
    time::Duration,
};

use hookd_client::{Address, Credentials, variables};
use hookd_json::{Kind, Value};
use hookd_rules::Format;

use crate::{
    args::{OnUnavailable, Origin, RelayArgs, addresses_of_environment, by_option, over, variables_set},
    owned::read_owned,
    relay::home::home,
};

/// The file of the organisation, which counts before the person's.
const OF_THE_MACHINE: &str = "/etc/hookd/relay.yaml";
/// The file of a person, in their home.
const OF_THE_PERSON: &str = ".config/hookd/relay.yaml";
const KEYS: &str = "`address`, `token_file`, `ca_file`, `client_cert_file`, `client_key_file`, `on_unavailable`, \
                    `deadline`, `offer`, `home`";
const ADDRESS: &str = "an address such as `127.0.0.1:50051`";
/// Variables that say whom this system trusts.
const SYSTEM_TRUST: [&str; 2] = ["SSL_CERT_FILE", "SSL_CERT_DIR"];

/// What holds for one call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Config {
    /// Where hookd listens, at least one.
    pub(crate) addresses: Vec<Address>,
    pub(crate) credentials: Credentials,
    /// Variables that name files of credentials, which do not count.
    pub(crate) ignored_variables: Vec<&'static str>,
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
    credentials: Credentials,
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
    /// What holds for a call with `args`. `variable` is the environment.
    ///
    /// A repository's settings can set variables for the hooks of an agent, so the environment counts only where neither
    /// the command line nor a file says where hookd is, and says nothing else: no token is sent to an address of the
    /// environment, no file of the environment's choice is sent to hookd, and hookd is known by nothing that stands there.
    ///
    /// # Errors
    /// One line: a file that is not as it must be, an address that is none, or credentials without an address.
    pub(crate) fn of(args: &RelayArgs, variable: impl Fn(&str) -> Option<OsString>) -> Result<Self, String> {
        let file = FromFile::find(args.config.as_deref())?;
        let named = args.credentials.named();
        if let Some((option, path)) = by_option(&named).find(|(_, path)| !path.is_absolute()) {
            // The current folder is the repository.
            return Err(format!("`{option}` is `{}`, expected an absolute path", path.display()));
        }
        let credentials = over(named, file.credentials);
        let addresses = match (&args.address, file.addresses) {
            (Some(addresses), _) => addresses.0.clone(),
            (None, Some(addresses)) => addresses,
            (None, None) => {
                if let Some((_, path)) = by_option(&credentials).next() {
                    return Err(format!(
                        "{} is named, but not where hookd is: name the address beside it, since a repository can set {}",
                        path.display(),
                        variables::ADDRESS
                    ));
                }
                let list = variable(variables::ADDRESS).and_then(|list| list.into_string().ok());
                addresses_of_environment(list.as_deref())?
            }
        };
        let is_set = |name: &&str| variable(name).is_some_and(|value| !value.is_empty());
        if credentials.ca_file.is_none()
            && let Some(address) = addresses.iter().find(|address| address.is_tls())
            && let Some(name) = SYSTEM_TRUST.iter().find(|name| is_set(name))
        {
            return Err(format!(
                "{name} would say by whom hookd at `{address}` is known, and a repository can set that: name `ca_file` in \
                 relay.yaml, or `--ca-file`"
            ));
        }
        let deadline = match (args.deadline, file.deadline) {
            (Some(time), _) => Deadline::Exactly(time),
            (None, Some(time)) => Deadline::AtMost(time),
            (None, None) => Deadline::DEFAULT,
        };
        Ok(Self {
            addresses,
            credentials,
            ignored_variables: variables_set(&variable),
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
            credentials: Credentials::default(),
            ignored_variables: Vec::new(),
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
        // Mostly one that is being written, or for which there was no room: the environment would say where hookd is.
        if text.trim().is_empty() {
            return Err("it is empty, write a comment if that is meant".to_owned());
        }
        let all = match Format::Yaml.value(text).map_err(|error| error.to_string())? {
            Value::Null => return Ok(Self::default()),
            Value::Object(all) => all,
            other => return Err(format!("it is {}, expected an object with {KEYS}", Kind::of(&other).noun())),
        };
        let mut file = Self::default();
        for (key, value) in all {
            match key.as_str() {
                "address" => file.addresses = Some(addresses(&value)?),
                "token_file" => file.credentials.token_file = Some(absolute(&key, &value)?),
                "ca_file" => file.credentials.ca_file = Some(absolute(&key, &value)?),
                "client_cert_file" => file.credentials.client_cert_file = Some(absolute(&key, &value)?),
                "client_key_file" => file.credentials.client_key_file = Some(absolute(&key, &value)?),
                "on_unavailable" => file.on_unavailable = Some(word(&key, &value)?),
                "deadline" => {
                    let time = text_of(&key, &value, "a time such as `10s`")?;
                    file.deadline = Some(crate::args::timeout(time).map_err(|why| format!("`deadline`: {why}"))?)
                }
                "offer" => file.offer = Some(list(&key, &value)?),
                "home" => file.home = Some(absolute(&key, &value)?),
                _ => return Err(format!("unknown key `{key}`, expected {KEYS}")),
            }
        }
        Ok(file)
    }
}

fn addresses(value: &Value) -> Result<Vec<Address>, String> {
    let texts = match value {
        Value::Array(items) => {
            items.iter().map(|item| text_of("address", item, ADDRESS)).collect::<Result<Vec<_>, _>>()?
        }
        one => vec![text_of("address", one, ADDRESS)?],
    };
    Address::parse_list(&texts.join(",")).map_err(|error| format!("`address`: {error}"))
}

fn list<T: FromStr<Err = String>>(key: &str, value: &Value) -> Result<Vec<T>, String> {
    match value {
        Value::Array(items) => items.iter().map(|item| word(key, item)).collect(),
        other => Err(format!("`{key}` is {}, expected a list such as `[project]`", Kind::of(other).noun())),
    }
}

fn word<T: FromStr<Err = String>>(key: &str, value: &Value) -> Result<T, String> {
    text_of(key, value, "a string")?.parse().map_err(|why| format!("`{key}`: {why}"))
}

fn absolute(key: &str, value: &Value) -> Result<PathBuf, String> {
    let path = PathBuf::from(text_of(key, value, "an absolute path")?);
    if path.is_absolute() {
        Ok(path)
    } else {
        Err(format!("`{key}` is `{}`, expected an absolute path", path.display()))
    }
}

fn text_of<'v>(key: &str, value: &'v Value, expected: &str) -> Result<&'v str, String> {
    value.as_str().ok_or_else(|| format!("`{key}` is {}, expected {expected}", Kind::of(value).noun()))
}

#[cfg(test)]
mod tests {
    use clap::Parser as _;

    use super::*;
    use crate::args::RelayOnly;

    fn at(list: &str) -> Option<Vec<Address>> {
        Some(Address::parse_list(list).unwrap())
    }

    #[test]
    fn a_file_says_what_it_says_and_nothing_else() {
        assert_eq!(FromFile::parse("# nothing yet\n"), Ok(FromFile::default()));
        let whole = "address: unix:/run/hookd.sock\ntoken_file: /t\nca_file: /a\nclient_cert_file: /c\nclient_key_file: /k\non_unavailable: allow\ndeadline: 10s\noffer: [project, user, plugins]\n\
                     home: /home/me\n";
        let expected = FromFile {
            addresses: at("unix:/run/hookd.sock"),
            credentials: Credentials {
                token_file: Some("/t".into()),
                ca_file: Some("/a".into()),
                client_cert_file: Some("/c".into()),
                client_key_file: Some("/k".into()),
                server_name: None,
            },
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
            ("- a", &*format!("it is an array, expected an object with {KEYS}")),
            ("adress: a:1", &*format!("unknown key `adress`, expected {KEYS}")),
            ("token_file: t", "`token_file` is `t`, expected an absolute path"),
            ("", "it is empty, write a comment if that is meant"),
            (" \n", "it is empty, write a comment if that is meant"),
            ("ca_file: [ /a ]", "`ca_file` is an array, expected an absolute path"),
            ("address: a:1\naddress: b:1", "duplicate key `address` at line 2 column 1"),
            (
                "address: nowhere",
                "`address`: `nowhere` is not an address, expected `host:port`, `http://host:port`, `https://host:port` or \
                 `unix:/path`",
            ),
            (
                "address: []",
                "`address`: no address given, expected `host:port`, `http://host:port`, `https://host:port` or `unix:/path`",
            ),
            ("address: 5", "`address` is a number, expected an address such as `127.0.0.1:50051`"),
            ("on_unavailable: maybe", "`on_unavailable`: `maybe` is not known, expected `block` or `allow`"),
            ("on_unavailable: true", "`on_unavailable` is a boolean, expected a string"),
            ("deadline: 10", "`deadline` is a number, expected a time such as `10s`"),
            ("deadline: soon", "`deadline`: expected number at 0, expected such as `30s` or `500ms`"),
            ("offer: project", "`offer` is a string, expected a list such as `[project]`"),
            ("offer: [ all ]", "`offer`: `all` is not known, expected `project`, `user` or `plugins`"),
            ("home: me", "`home` is `me`, expected an absolute path"),
        ];
        for (text, expected) in cases {
            assert_eq!(FromFile::parse(text), Err(expected.to_owned()), "{text}");
        }
    }

    /// What holds with this file, these arguments and these variables.
    fn config(file: &str, arguments: &[&str], variables: &[(&str, &str)]) -> Result<Config, String> {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("relay.yaml");
        std::fs::write(&path, file).unwrap();
        let own = ["relay", "--agent", "claude-code", "--config", path.to_str().unwrap()];
        let args = RelayOnly::try_parse_from(own.iter().chain(arguments)).unwrap().relay;
        Config::of(&args, |name| variables.iter().find(|(set, _)| *set == name).map(|(_, value)| value.into()))
    }

    #[test]
    fn credentials_are_nothing_that_a_repository_can_say() {
        let token = |file: &str| Credentials { token_file: Some(file.into()), ..Credentials::default() };
        let hostile = [
            ("HOOKD_ADDRESS", "https://evil:1"),
            ("HOOKD_TOKEN_FILE", "/secret"),
            ("HOOKD_CA_FILE", "/repo/ca"),
            ("HOOKD_CLIENT_CERT_FILE", ""),
        ];
        for (file, arguments, address, credentials) in [
            ("address: https://h:1\ntoken_file: /t", &[][..], "https://h:1", token("/t")),
            ("address: https://h:1\ntoken_file: /t", &["--token-file", "/u"], "https://h:1", token("/u")),
            ("token_file: /t", &["--address", "unix:/s"], "unix:/s", token("/t")),
            ("# nothing", &["--address", "unix:/s", "--token-file", "/u"], "unix:/s", token("/u")),
            ("# nothing", &[], "https://evil:1", Credentials::default()),
        ] {
            let found = config(file, arguments, &hostile).unwrap();
            assert_eq!((Some(found.addresses), found.credentials), (at(address), credentials), "{file} {arguments:?}");
            assert_eq!(found.ignored_variables, ["HOOKD_TOKEN_FILE", "HOOKD_CA_FILE"]);
        }
        let beside =
            "/t is named, but not where hookd is: name the address beside it, since a repository can set HOOKD_ADDRESS";
        for (file, arguments, variables, why) in [
            ("token_file: /t", &[][..], &hostile[..], beside),
            ("# nothing", &["--ca-file", "/t"], &[], beside),
            (
                "# nothing",
                &["--address", "unix:/s", "--token-file", "t"],
                &[],
                "`--token-file` is `t`, expected an absolute path",
            ),
            (
                "address: https://h:1",
                &[],
                &[("SSL_CERT_FILE", "/repo/ca")],
                "SSL_CERT_FILE would say by whom hookd at `https://h:1` is known, and a repository can set that: name \
                 `ca_file` in relay.yaml, or `--ca-file`",
            ),
        ] {
            assert_eq!(config(file, arguments, variables), Err(why.to_owned()), "{file} {arguments:?}");
        }
        let known = config("address: https://h:1\nca_file: /a", &[], &[("SSL_CERT_FILE", "/repo/ca")]).unwrap();
        assert_eq!(known.credentials.ca_file, Some("/a".into()));
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
