//! `gannet user token`: makes a signed token for gRPC clients, and the key that signs it.

use std::fs::{File, OpenOptions};
use std::io::{ErrorKind, Write};
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};
use std::time::SystemTime;

use base::units::TimeSpan;
use clap::{Arg, ArgAction, ArgMatches, Command};
use command::clients::tokens::{Claims, Grant, ID_BYTES_MAX, KeyError, TokenKey, TokenKind, TokenRole, permissions};

use super::password;
use crate::{Failure, print, warn};

const KEY: &str = "key";
const ROLE: &str = "role";
const CACHE: &str = "cache";
const ITEMS: &str = "prefix";
const TOPICS: &str = "topics";
const EXPIRES: &str = "expires";
const ID: &str = "id";

/// The subcommand's arguments.
pub fn command() -> Command {
    let option = |name: &'static str, value: &'static str, help: &'static str| {
        Arg::new(name).long(name).value_name(value).help(help)
    };
    Command::new("token")
        .about("Make a signed token for gRPC clients, and print it")
        .arg(
            option(KEY, "FILE", "The file of listen.token_key; it is created if it does not exist")
                .required(true)
                .value_parser(clap::value_parser!(PathBuf)),
        )
        .arg(
            option(ROLE, "ROLE", "Rights: everything, or to read, to write or both, of items and topics")
                .value_parser(["admin", "readwrite", "read", "write"])
                .default_value("admin"),
        )
        .arg(option(CACHE, "NAME", "Permit access to this cache only"))
        .arg(option(ITEMS, "PREFIX", "Permit keys with this prefix only, and topics only if --topics is given"))
        .arg(option(TOPICS, "PREFIX", "Permit topics with this prefix only, and keys only if --prefix is given"))
        .arg(
            option(EXPIRES, "TIME", "Validity, as in 12h or 30d; \"never\" for a token without end")
                .default_value("365d"),
        )
        .arg(option(ID, "ID", "Identity that messages show as their publisher"))
        .arg(Arg::new("quiet").long("quiet").action(ArgAction::SetTrue).help("Print the token alone"))
        .after_help(
            "Examples:\n  gannet user token --key /etc/gannet/token.key\n  \
             gannet user token --key /etc/gannet/token.key --role read --cache shop --expires 12h\n  \
             gannet serve --grpc 127.0.0.1:7000 --token-key /etc/gannet/token.key",
        )
}

/// Runs the subcommand.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let text = |name: &str| matches.get_one::<String>(name).map(String::as_str);
    let path = matches.get_one::<PathBuf>(KEY).expect("it is required");
    let valid_secs = valid_secs(text(EXPIRES).unwrap_or_default())?;
    let id = text(ID).unwrap_or_default();
    if id.len() > ID_BYTES_MAX {
        return Err(usage(format!("--id is longer than {ID_BYTES_MAX} bytes; use a shorter one")));
    }
    let role = match text(ROLE) {
        Some("readwrite") => Some(TokenRole::ReadWrite),
        Some("read") => Some(TokenRole::Read),
        Some("write") => Some(TokenRole::Write),
        _ => None,
    };
    let (cache, items, topics) = (text(CACHE), text(ITEMS), text(TOPICS));
    if role.is_none() && (cache.is_some() || items.is_some() || topics.is_some()) {
        let text = "an admin token permits everything; give --role readwrite, read or write to limit it";
        return Err(usage(text.to_owned()));
    }
    let permissions = match role {
        None => permissions(None),
        Some(role) => {
            let grant =
                |prefix: Option<&str>| Grant { role, cache: cache.map(Into::into), prefix: prefix.map(Into::into) };
            let of_items = (items.is_some() || topics.is_none()).then(|| grant(items));
            let of_topics = (topics.is_some() || items.is_none()).then(|| grant(topics));
            permissions(Some((of_items, of_topics)))
        }
    };
    let (key, is_new) = load_or_create(path)?;
    let now = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default().as_secs();
    let claims = Claims {
        id: id.to_owned(),
        issuer: Vec::new(),
        issued_secs: now,
        expires_secs: if valid_secs == 0 { 0 } else { now + valid_secs },
        valid_secs,
        kind: TokenKind::Access,
        permissions,
    };
    let token = key.sign(&claims).ok_or_else(|| usage("the prefixes are too long; use shorter ones".to_owned()))?;
    print(&format!("{token}\n"))?;
    if is_new && !matches.get_flag("quiet") {
        warn(&format!("gannet: {} is a new key; start the server with --token-key {}", path.display(), path.display()));
    }
    Ok(())
}

fn usage(text: String) -> Failure {
    Failure::Usage(vec![text])
}

/// Parses a time in seconds; 0 for `never`.
fn valid_secs(text: &str) -> Result<u64, Failure> {
    if text == "never" {
        return Ok(0);
    }
    match text.parse::<TimeSpan>().map(|time| time.0 / 1_000_000_000) {
        Ok(secs @ 1..) => Ok(secs),
        _ => Err(usage(format!("--expires {text}: give a time of at least a second, as in 12h or 30d, or \"never\""))),
    }
}

/// Reads the key, or creates a random one in a file that only its owner can read. Returns true if it is new.
fn load_or_create(path: &Path) -> Result<(TokenKey, bool), Failure> {
    let failed = |text: String| Failure::Failed(vec![text]);
    match TokenKey::load(path) {
        Ok(key) => return Ok((key, false)),
        Err(KeyError::Read(error)) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(failed(format!("{}: {error}", path.display()))),
    }
    let secret = [password::generate(), password::generate()].concat();
    let create = |path: &Path| -> std::io::Result<File> {
        OpenOptions::new().write(true).create_new(true).mode(0o600).open(path)
    };
    let written = create(path).and_then(|mut file| {
        file.write_all(secret.as_bytes())?;
        file.write_all(b"\n")?;
        file.sync_all()
    });
    written.map_err(|error| failed(format!("cannot create the key {}: {error}", path.display())))?;
    let key = TokenKey::load(path).map_err(|error| failed(format!("{}: {error}", path.display())))?;
    Ok((key, true))
}
