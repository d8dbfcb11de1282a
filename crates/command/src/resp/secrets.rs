//! Secret arguments of requests: passwords, and what must be hidden with them.
//!
//! [`SecretArgs`] is the only place that knows which arguments are secret. `MONITOR`, the slow log and every other list
//! of arguments call it for each argument. As in Redis, they show [`REDACTED`] in place of a secret.
//!
//! ```text
//!   AUTH (…) …                      all arguments
//!   HELLO 3 AUTH (…) (…)            the two words after AUTH
//!   ACL SETUSER (…) …               all arguments; ACL DRYRUN user REQUEST: those of the request
//!   CONFIG SET requirepass (…) …    the value of each secret or unknown setting
//!   MIGRATE … AUTH (…) AUTH2 (…) (…)
//!   COMMAND GETKEYS REQUEST         those of the request
//!   an unknown command (…) …        all arguments: its name may be that of a command above, mistyped
//! ```
//! The name of an unknown command may be a secret too, which was pasted into a prompt. Callers therefore list no
//! request of an unknown command, and none that was refused before its execution.

use super::catalog::{self, CommandSpec};
use super::config_hints;
use crate::metrics::{Command, SLOW_LINE_BYTES_MAX};
use arrayvec::ArrayVec;

/// The text that is shown in place of a secret, that of Redis.
pub(super) const REDACTED: &[u8] = b"(redacted)";

/// The number of arguments of `MIGRATE` before its options.
const MIGRATE_PLACES: u8 = 5;

/// The settings whose values are secret. The server supports only the first one; the others are those of Redis and
/// Valkey, which a client may send all the same.
pub(super) const SECRET_SETTINGS: [&str; 7] = [
    "requirepass",
    "masterauth",
    "masteruser",
    "primaryauth",
    "primaryuser",
    "tls-key-file-pass",
    "tls-client-key-file-pass",
];

/// The settings whose values are public: all others that `CONFIG SET` knows.
const PUBLIC_SETTINGS: [&str; 40] = [
    "appendonly",
    "bind",
    "busy-reply-threshold",
    "client-output-buffer-limit",
    "commandlog-execution-slower-than",
    "commandlog-slow-execution-max-len",
    "databases",
    "dir",
    "hz",
    "io-threads",
    "latency-monitor-threshold",
    "latency-tracking",
    "latency-tracking-info-percentiles",
    "lua-time-limit",
    "maxclients",
    "maxmemory",
    "maxmemory-policy",
    "notify-keyspace-events",
    "port",
    "proto-max-bulk-len",
    "protected-mode",
    "save",
    "slowlog-log-slower-than",
    "slowlog-max-len",
    "tcp-keepalive",
    "timeout",
    "tls-auth-clients",
    "tls-auth-clients-user",
    "tls-ca-cert-file",
    "tls-cert-file",
    "tls-ciphers",
    "tls-ciphersuites",
    "tls-cluster",
    "tls-key-file",
    "tls-port",
    "tls-prefer-server-ciphers",
    "tls-protocols",
    "tls-replication",
    "tls-session-caching",
    "tracking-table-max-keys",
];

fn is_secret_setting(name: &[u8]) -> bool {
    SECRET_SETTINGS.iter().any(|secret| name.eq_ignore_ascii_case(secret.as_bytes()))
}

/// Returns true if `name` is the name of a setting, public or secret.
pub(super) fn is_known_setting(name: &[u8]) -> bool {
    let is = |public: &str| name.eq_ignore_ascii_case(public.as_bytes());
    is_secret_setting(name) || PUBLIC_SETTINGS.into_iter().any(is) || config_hints::names().any(|(_, hint)| is(hint))
}

/// Decides which arguments of one request are secret. The caller passes the arguments in their order.
#[derive(Clone, Copy, Debug)]
pub(super) struct SecretArgs(State);

/// The meaning of the next argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    /// This argument and all later ones are public.
    Public,
    /// This argument and all later ones are secret.
    Secret,
    /// The subcommand of `ACL`.
    AclPart,
    /// The subcommand of `CONFIG`.
    ConfigPart,
    /// The subcommand of `COMMAND`.
    CommandPart,
    /// The name of a setting in `CONFIG SET`.
    Setting,
    /// The value of a setting in `CONFIG SET`.
    SettingValue { is_secret: bool },
    /// The version or an option of `HELLO`.
    HelloOption,
    /// The word that follows the option `SETNAME` of `HELLO`.
    HelloName,
    /// One of `left` words that follow the option `AUTH` of `HELLO`.
    HelloSecret { left: u8 },
    /// One of `left` arguments of `MIGRATE` before its options.
    MigratePlace { left: u8 },
    /// An option of `MIGRATE`.
    MigrateOption,
    /// One of `left` words that follow the option `AUTH` or `AUTH2` of `MIGRATE`.
    MigrateSecret { left: u8 },
    /// One of `left` arguments before the name of another request.
    BeforeRequest { left: u8 },
    /// The name of another request, whose arguments follow.
    RequestName,
}

impl SecretArgs {
    /// Returns the rules for the arguments of the command `name`.
    #[inline]
    pub(super) fn of(name: &[u8]) -> Self {
        if name.eq_ignore_ascii_case(b"migrate") {
            return Self(State::MigratePlace { left: MIGRATE_PLACES });
        }
        Self(catalog::find(name).map_or(State::Secret, |entry| first_state(entry.name)))
    }

    /// Returns true if no argument of the command is ever secret.
    #[inline]
    pub(super) fn has_none(entry: &CommandSpec) -> bool {
        // Commands with a kind of their own access keys.
        entry.kind != Command::Other || first_state(entry.name) == State::Public
    }

    /// Returns true if the next argument, `arg`, is secret.
    #[inline]
    pub(super) fn hides(&mut self, arg: &[u8]) -> bool {
        if self.0 == State::Public {
            return false;
        }
        let (is_secret, next) = self.0.step(arg);
        self.0 = next;
        is_secret
    }

    /// Returns the next argument as it may be shown.
    #[inline]
    pub(super) fn shown<'a>(&mut self, arg: &'a [u8]) -> &'a [u8] {
        if self.hides(arg) { REDACTED } else { arg }
    }
}

fn first_state(name: &'static str) -> State {
    match name {
        "acl" => State::AclPart,
        "auth" => State::Secret,
        "command" => State::CommandPart,
        "config" => State::ConfigPart,
        "hello" => State::HelloOption,
        _ => State::Public,
    }
}

impl State {
    /// Returns true if the argument `arg` is secret, and the meaning of the argument after it.
    #[cold]
    fn step(self, arg: &[u8]) -> (bool, Self) {
        let is = |word: &str| arg.eq_ignore_ascii_case(word.as_bytes());
        match self {
            Self::Public => (false, Self::Public),
            Self::Secret => (true, Self::Secret),
            // As in Redis, the name of the user is hidden, too: a client that forgets it sends a rule in its place.
            Self::AclPart if is("setuser") => (false, Self::Secret),
            Self::AclPart if is("dryrun") => (false, Self::BeforeRequest { left: 1 }),
            Self::AclPart => (false, Self::Public),
            Self::ConfigPart if is("set") => (false, Self::Setting),
            Self::ConfigPart => (false, Self::Public),
            Self::CommandPart if is("getkeys") || is("getkeysandflags") => (false, Self::RequestName),
            Self::CommandPart => (false, Self::Public),
            Self::Setting => {
                let is_known = is_known_setting(arg);
                (!is_known, Self::SettingValue { is_secret: !is_known || is_secret_setting(arg) })
            }
            Self::SettingValue { is_secret } => (is_secret, Self::Setting),
            Self::HelloOption if is("auth") => (false, Self::HelloSecret { left: 2 }),
            Self::HelloOption if is("setname") => (false, Self::HelloName),
            Self::HelloOption if arg.iter().all(u8::is_ascii_digit) => (false, Self::HelloOption),
            // A mistyped option: a password may follow.
            Self::HelloOption => (false, Self::Secret),
            Self::HelloName => (false, Self::HelloOption),
            Self::HelloSecret { left: 2.. } => (true, Self::HelloSecret { left: 1 }),
            Self::HelloSecret { .. } => (true, Self::HelloOption),
            Self::MigratePlace { left: 2.. } => (false, self.one_less()),
            Self::MigratePlace { .. } => (false, Self::MigrateOption),
            Self::MigrateOption if is("auth") => (false, Self::MigrateSecret { left: 1 }),
            Self::MigrateOption if is("auth2") => (false, Self::MigrateSecret { left: 2 }),
            Self::MigrateOption if is("keys") => (false, Self::Public),
            Self::MigrateOption => (false, Self::MigrateOption),
            Self::MigrateSecret { left: 2.. } => (true, Self::MigrateSecret { left: 1 }),
            Self::MigrateSecret { .. } => (true, Self::MigrateOption),
            Self::BeforeRequest { left: 2.. } => (false, self.one_less()),
            Self::BeforeRequest { .. } => (false, Self::RequestName),
            Self::RequestName => (false, SecretArgs::of(arg).0),
        }
    }

    fn one_less(self) -> Self {
        match self {
            Self::MigratePlace { left } => Self::MigratePlace { left: left - 1 },
            Self::BeforeRequest { left } => Self::BeforeRequest { left: left - 1 },
            other => other,
        }
    }
}

/// The beginning of a request as one line, as the slow log shows it.
pub(super) type ShownLine = ArrayVec<u8, SLOW_LINE_BYTES_MAX>;

/// Returns the words of a request, separated by spaces, with [`REDACTED`] in place of secrets.
#[cold]
pub(super) fn shown_line<'a>(name: &[u8], args: impl Iterator<Item = &'a [u8]>) -> ShownLine {
    let (mut line, mut secrets) = (ShownLine::new(), SecretArgs::of(name));
    let mut put = |word: &[u8]| {
        for byte in word.iter().take(line.remaining_capacity()) {
            // These bytes would end the line.
            line.push(if matches!(byte, 0 | b'\r' | b'\n') { b'.' } else { *byte });
        }
        !line.is_full()
    };
    let mut has_room = put(name);
    for arg in args {
        has_room = has_room && put(b" ") && put(secrets.shown(arg));
        if !has_room {
            break;
        }
    }
    line
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(line: &str) -> String {
        let mut words = line.split(' ').map(str::as_bytes);
        let name = words.next().unwrap();
        let mut secrets = SecretArgs::of(name);
        let words = words.map(|word| String::from_utf8_lossy(secrets.shown(word)).into_owned());
        [String::from_utf8_lossy(name).into_owned()].into_iter().chain(words).collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn secret_argument_is_hidden_wherever_it_is_in_a_request() {
        // Each line has its secrets in capitals of the form S1. Without `*`, they are hidden, and nothing else is.
        for line in [
            "auth S1",
            "AUTH S1 S2",
            "hello",
            "hello 3",
            "hello 3 setname n AUTH S1 S2 setname m",
            "HELLO 2 auth S1",
            "hello auth S1 S2",
            "hello 3 auth S1 S2 auth S3 S4",
            "hello 3 setname auth authx S1 S2",
            "acl setuser S1 S2 S3",
            "ACL SetUser S1",
            "acl getuser bob",
            "acl whoami",
            "acl dryrun bob get k",
            "acl dryrun bob auth S1 S2",
            "acl dryrun bob acl setuser S1 S2",
            "acl dryrun bob nosuch S1 S2",
            "config get requirepass",
            "config set requirepass S1",
            "config set maxmemory 1gb REQUIREPASS S1 timeout 3 masterauth S2",
            "config set masteruser S1 masterauth S2 tls-key-file-pass S3 tls-client-key-file-pass S4",
            "config set primaryauth S1 primaryuser S2",
            "config set S1 S2 timeout 5",
            "config set requirepass S1 S2 S3",
            "config set maxmemory 1 requirepass",
            "migrate 10.0.0.1 6379 auth 0 10 copy AUTH S1 replace",
            "migrate 10.0.0.1 6379 k 0 10 auth2 S1 S2 keys auth2 b",
            "command getkeys auth S1 S2",
            "command getkeysandflags config set requirepass S1",
            "command docs auth",
            "set auth user",
            "get requirepass",
            "auht S1 S2",
            "sentinel S1 S2 S3 S4",
        ] {
            let is_secret = |word: &&str| word.len() == 2 && word.starts_with('S');
            let wanted = line.split(' ').map(|word| if is_secret(&word) { "(redacted)" } else { word });
            assert_eq!(shown(line), wanted.collect::<Vec<_>>().join(" "));
        }
    }

    #[test]
    fn command_with_secrets_is_counted_among_the_other_commands() {
        for name in ["acl", "auth", "command", "config", "hello"] {
            assert!(!SecretArgs::has_none(catalog::entry(name)), "{name}");
        }
    }

    #[test]
    fn line_of_the_slow_log_is_cut_and_holds_no_line_end() {
        let words = |words: &'static [&str]| words.iter().map(|word| word.as_bytes());
        let line = shown_line(b"AUTH", words(&["user", "pass"]));
        assert_eq!(line.as_slice(), b"AUTH (redacted) (redacted)");
        let line = shown_line(b"CONFIG", words(&["SET", "timeout", "1\r\n2", "requirepass", "secret"]));
        assert_eq!(line.as_slice(), &b"CONFIG SET timeout 1..2 requirepass (redacted)"[..]);
        let line = shown_line(b"HELLO", std::iter::repeat_n(&b"123456789"[..], 9));
        assert_eq!((line.len(), &line[..16]), (SLOW_LINE_BYTES_MAX, &b"HELLO 123456789 "[..]));
    }
}
