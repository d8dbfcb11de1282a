//! Parses sources and targets of a copy.
//!
//! ```text
//!   memcached://HOST[:PORT]      redis://[[USER]:PASSWORD@]HOST[:PORT][/DB]      FILE.rdb      HOST:PORT (memcached)
//!   memcached://unix:PATH        redis://unix:PATH[?db=DB]
//!   memcacheds://, rediss://     the same over TLS, not over a unix socket
//! ```

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use link::Address;

const FORMS: &str = "write memcached://HOST:PORT, redis://HOST:PORT/DB or the path of a file that ends in .rdb";

/// User and password for a server.
#[derive(Clone, PartialEq, Eq)]
pub struct Login {
    /// The user; empty if only a password is needed.
    pub user: String,
    /// The password.
    pub password: String,
}

impl fmt::Debug for Login {
    /// Omits the password, because debug output may be printed.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Login({:?})", self.user)
    }
}

/// The protocol of a server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// The memcached protocol.
    Memcached,
    /// RESP.
    Redis,
}

/// The address of a server, with its protocol and login.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ServerAddress {
    /// Protocol of the server.
    pub protocol: Protocol,
    /// Address on which the server listens.
    pub target: Address,
    /// User and password, if the server requires them.
    pub login: Option<Login>,
    /// The database of a server that speaks RESP.
    pub db: u32,
    /// True if connections use TLS.
    pub is_secured: bool,
}

/// A source or target of keys. Its text form contains no password.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum CopyEndpoint {
    /// A server.
    Server(ServerAddress),
    /// A file saved by Redis or Valkey.
    File(PathBuf),
}

impl fmt::Display for ServerAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let secured = if self.is_secured { "s" } else { "" };
        match (self.protocol, &self.target) {
            (Protocol::Memcached, target) => write!(f, "memcached{secured}://{target}"),
            (Protocol::Redis, target) if self.db == 0 => write!(f, "redis{secured}://{target}"),
            (Protocol::Redis, target @ Address::Tcp(_)) => write!(f, "redis{secured}://{target}/{}", self.db),
            (Protocol::Redis, target @ Address::Unix(_)) => write!(f, "redis://{target}?db={}", self.db),
        }
    }
}

impl fmt::Display for CopyEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Server(server) => server.fmt(f),
            Self::File(path) => path.display().fmt(f),
        }
    }
}

impl FromStr for CopyEndpoint {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let Some((scheme, rest)) = text.split_once("://") else {
            if text.ends_with(".rdb") || text.contains('/') && !text.starts_with("unix:") {
                return Ok(Self::File(text.into()));
            }
            let target = text.parse().map_err(|_| format!("{text:?} is not a source or target; {FORMS}"))?;
            return Ok(Self::Server(ServerAddress {
                protocol: Protocol::Memcached,
                target,
                login: None,
                db: 0,
                is_secured: false,
            }));
        };
        let is_secured = matches!(scheme, "memcacheds" | "rediss" | "valkeys");
        let (protocol, port) = match scheme {
            "memcached" | "memcache" | "memcacheds" => (Protocol::Memcached, 11211),
            "redis" | "valkey" | "resp" | "rediss" | "valkeys" => (Protocol::Redis, 6379),
            "file" => return Ok(Self::File(rest.into())),
            _ => return Err(format!("{scheme}:// is not supported; {FORMS}")),
        };
        let named = server(protocol, rest, port).and_then(|server| match (&server.target, is_secured) {
            (Address::Unix(_), true) => Err("TLS over a unix socket is not supported".to_owned()),
            _ => Ok(ServerAddress { is_secured, ..server }),
        });
        named.map(Self::Server).map_err(|fault| format!("{}: {fault}; {FORMS}", masked(text)))
    }
}

/// Returns whether the text of an address names a database.
pub fn names_db(text: &str) -> bool {
    let rest = text.split_once("://").map_or(text, |(_, rest)| rest);
    let rest = rest.rsplit_once('@').map_or(rest, |(_, rest)| rest);
    rest.contains("?db=") || !rest.starts_with("unix:") && rest.split_once('/').is_some_and(|(_, db)| !db.is_empty())
}

/// Returns `text` with a possible password masked.
fn masked(text: &str) -> String {
    match (text.find("://"), text.rfind('@')) {
        (Some(scheme), Some(at)) if scheme + 3 < at => format!("{}...{}", &text[..scheme + 3], &text[at..]),
        _ => text.to_owned(),
    }
}

fn server(protocol: Protocol, rest: &str, port: u16) -> Result<ServerAddress, String> {
    let (rest, query) = rest.split_once('?').map_or((rest, None), |(rest, query)| (rest, Some(query)));
    let (login, rest) = match rest.rsplit_once('@') {
        Some((login, rest)) => (Some(self::login(login)?), rest),
        None => (None, rest),
    };
    let mut db = match query {
        Some(query) => Some(query.strip_prefix("db=").ok_or_else(|| format!("?{query} is not supported"))?),
        None => None,
    };
    let target = if rest.starts_with("unix:") {
        rest.parse::<Address>().map_err(|error| error.to_string())?
    } else {
        let (host, path) = rest.split_once('/').map_or((rest, ""), |(host, path)| (host, path));
        if !path.is_empty() && db.replace(path).is_some() {
            return Err("the database is specified twice".to_owned());
        }
        let has_port = host.rsplit_once(':').is_some_and(|(name, _)| !name.contains(':') || name.ends_with(']'));
        let address = if has_port { host.to_owned() } else { format!("{host}:{port}") };
        address.parse::<Address>().map_err(|error| error.to_string())?
    };
    if db.is_some() && protocol == Protocol::Memcached {
        return Err("memcached has no databases".to_owned());
    }
    let db = db.unwrap_or("0");
    let db = db.parse::<u32>().map_err(|_| format!("{db:?} is not a database number"))?;
    Ok(ServerAddress { protocol, target, login, db, is_secured: false })
}

/// Parses `USER:PASSWORD` or `PASSWORD`, with `%XX` for characters that a URL cannot contain.
fn login(text: &str) -> Result<Login, String> {
    let (user, password) = text.split_once(':').unwrap_or(("", text));
    match (unescaped(user), unescaped(password)) {
        (Some(user), Some(password)) => Ok(Login { user, password }),
        _ => Err("a % in the user or password is not followed by two hexadecimal digits, or the result is not UTF-8"
            .to_owned()),
    }
}

fn unescaped(text: &str) -> Option<String> {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text.as_bytes();
    while let [first, behind @ ..] = rest {
        let (byte, behind) = match (first, behind) {
            (b'%', [high, low, behind @ ..]) => {
                let digit = |byte: &u8| char::from(*byte).to_digit(16).map(|digit| digit as u8);
                (digit(high)? << 4 | digit(low)?, behind)
            }
            (b'%', _) => return None,
            _ => (*first, behind),
        };
        bytes.push(byte);
        rest = behind;
    }
    String::from_utf8(bytes).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        text.parse::<CopyEndpoint>().unwrap_or_else(|error| panic!("{text}: {error}")).to_string()
    }

    #[test]
    fn every_form_is_read_and_none_shows_its_password() {
        for (text, expected) in [
            ("127.0.0.1:11211", "memcached://127.0.0.1:11211"),
            ("memcached://cache", "memcached://cache:11211"),
            ("memcached://u:secret@cache:7", "memcached://cache:7"),
            ("memcached://unix:/run/m.sock", "memcached://unix:/run/m.sock"),
            ("redis://h", "redis://h:6379"),
            ("redis://[::1]", "redis://[::1]:6379"),
            ("redis://[::1]:7/3", "redis://[::1]:7/3"),
            ("redis://:secret@h:7/0", "redis://h:7"),
            ("redis://unix:/run/r.sock?db=2", "redis://unix:/run/r.sock?db=2"),
            ("rediss://:secret@h/2", "rediss://h:6379/2"),
            ("memcacheds://h:7", "memcacheds://h:7"),
            ("dump.rdb", "dump.rdb"),
            ("/var/lib/redis/dump", "/var/lib/redis/dump"),
        ] {
            assert_eq!(shown(text), expected);
            assert_eq!(shown(&shown(text)), expected, "the text form parses to the same value");
        }
        for (text, is_named) in [
            ("redis://h", false),
            ("redis://h/", false),
            ("redis://h/0", true),
            ("redis://u:a/b@h", false),
            ("redis://u:a/b@h:7/2", true),
            ("redis://unix:/run/r.sock", false),
            ("redis://unix:/run/r.sock?db=2", true),
        ] {
            assert_eq!(names_db(text), is_named, "{text}");
        }
        let Ok(CopyEndpoint::Server(server)) = "redis://bo:a%40b:c@h".parse() else { panic!("a server") };
        assert_eq!(server.login, Some(Login { user: "bo".into(), password: "a@b:c".into() }));
        assert!(!format!("{server:?}").contains("a@b"));
    }

    #[test]
    fn invalid_endpoint_is_rejected_with_forms_and_without_password() {
        for text in [
            "",
            "cache",
            "ftp://h",
            "redis://h:x",
            "redis://:hush@h/x",
            "memcached://h/1",
            "redis://h/1?db=2",
            "redis://%zz@h",
            "rediss://unix:/run/r.sock",
        ] {
            let error = text.parse::<CopyEndpoint>().unwrap_err();
            assert!(error.contains("write memcached://HOST:PORT") && !error.contains("hush"), "{text}: {error}");
        }
    }
}
