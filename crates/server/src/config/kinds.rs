//! Types of setting values: addresses, log levels, CPU lists, the reactor, socket modes, files.

use std::fmt;
use std::net::SocketAddr;
use std::path::PathBuf;

use base::units::{ByteSize, TimeSpan};
use command::config::PasswordHash;
use command::keyspace::graph_commits::GraphSync;
use command::push::notify::KeyEvents;
use io::affinity::{read_cpus, show_cpus};
use segment::IndexPlace;
use tls::{ClientAuth, UserFrom, Versions};

use super::value::{Shape, Value, Words, Wrong, one_of};

/// The maximum number of addresses of one listener list.
pub const ENDPOINTS_MAX: usize = 32;
/// The maximum length of the path of a Unix socket, in bytes, without the final zero byte that the kernel requires.
pub const UNIX_PATH_LEN_MAX: usize = 107;

/// The shortest and the longest interval of commits of graphs.
const GRAPH_SYNC_MIN: TimeSpan = TimeSpan(1_000_000);
const GRAPH_SYNC_MAX: TimeSpan = TimeSpan::secs(3600);

/// The word that stands for no address of a protocol.
const NO_LISTENER: &str = "none";

/// The address of a listener.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum ListenAddress {
    /// An IP address and a port.
    Tcp(SocketAddr),
    /// An IP address and a port whose connections use TLS.
    Tls(SocketAddr),
    /// A Unix stream socket.
    Unix(PathBuf),
}

impl fmt::Display for ListenAddress {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Tcp(address) => write!(f, "{address}"),
            Self::Tls(address) => write!(f, "tls:{address}"),
            Self::Unix(path) => write!(f, "unix:{}", path.display()),
        }
    }
}

impl ListenAddress {
    /// Returns the IP address and the port; `None` for a Unix socket.
    pub fn ip(&self) -> Option<SocketAddr> {
        match self {
            Self::Tcp(address) | Self::Tls(address) => Some(*address),
            Self::Unix(_) => None,
        }
    }
}

/// Parses an IP address and a port; `localhost` is 127.0.0.1.
fn tcp_address(text: &str) -> Result<SocketAddr, Wrong> {
    let spelled = text.strip_prefix("localhost:").map(|port| format!("127.0.0.1:{port}"));
    spelled.as_deref().unwrap_or(text).parse().map_err(|_| {
        let remedy = match text.rsplit_once(':') {
            None if text.parse::<std::net::Ipv4Addr>().is_ok() => format!("add a port, as in {text}:11211"),
            Some(("" | "*", port)) if port.parse::<u16>().is_ok() => {
                format!("write 0.0.0.0:{port} for all IPv4 addresses, [::]:{port} for all IPv6 addresses")
            }
            _ => "write an IP address and a port, as in 127.0.0.1:11211 or [::1]:11211".to_owned(),
        };
        Wrong::new(format!("{text:?} is not an address to listen on"), remedy)
    })
}

impl std::str::FromStr for ListenAddress {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Self, Wrong> {
        if let Some(address) = text.strip_prefix("tls:") {
            return tcp_address(address).map(Self::Tls);
        }
        let Some(path) = text.strip_prefix("unix:") else {
            return tcp_address(text).map(Self::Tcp).map_err(|wrong| {
                let hint = if text.starts_with('/') { format!("write unix:{text}") } else { wrong.remedy };
                Wrong::new(wrong.what, hint)
            });
        };
        if path.is_empty() || path.len() > UNIX_PATH_LEN_MAX || path.contains('\0') {
            let what = format!(
                "the path of a Unix socket has 1 to {UNIX_PATH_LEN_MAX} bytes, but this one has {}",
                path.len()
            );
            return Err(Wrong::new(what, "write a short path, as in unix:/run/gannet.sock"));
        }
        Ok(Self::Unix(PathBuf::from(path)))
    }
}

impl Value for Vec<ListenAddress> {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = if text == NO_LISTENER { Vec::new() } else { vec![text.parse()?] };
        Ok(())
    }

    fn show(&self) -> String {
        self.entries().join(", ")
    }

    fn shape(&self) -> Shape {
        Shape::List
    }

    fn placeholder(&self) -> &'static str {
        "ADDR|tls:ADDR|unix:PATH|none"
    }

    fn entries(&self) -> Vec<String> {
        self.iter().map(ListenAddress::to_string).collect()
    }

    fn read_all(&mut self, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        if texts.contains(&NO_LISTENER) {
            if texts.len() > 1 {
                let what = format!("{NO_LISTENER:?} stands beside addresses");
                return Err(vec![Wrong::new(what, "remove it, or the addresses")]);
            }
            self.clear();
            return Ok(());
        }
        if texts.len() > ENDPOINTS_MAX {
            let what = format!("{} addresses are given, but at most {ENDPOINTS_MAX} are allowed", texts.len());
            return Err(vec![Wrong::new(what, "listen on 0.0.0.0 or [::] instead of on each address")]);
        }
        let (mut endpoints, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            match text.parse::<ListenAddress>() {
                Ok(endpoint) if endpoints.iter().any(|other| is_same(&endpoint, other)) => {
                    faults.push(Wrong::new(format!("{endpoint} is listed twice"), "remove one of them"));
                }
                Ok(endpoint) => endpoints.push(endpoint),
                Err(wrong) => faults.push(wrong),
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        *self = endpoints;
        Ok(())
    }
}

/// Returns true if two listeners cannot both exist, because they have the same address. Port 0 requests any free port
/// from the kernel, so it may be listed more than once.
pub(super) fn is_same(one: &ListenAddress, other: &ListenAddress) -> bool {
    match (one.ip(), other.ip()) {
        (Some(address), Some(other)) => address == other && address.port() != 0,
        _ => one == other,
    }
}

/// The address of the admin port.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum AdminAddress {
    /// No admin port.
    #[default]
    None,
    /// The address at which the admin port serves HTTP.
    At(SocketAddr),
    /// The address at which the admin port serves HTTPS.
    Tls(SocketAddr),
}

impl AdminAddress {
    /// Returns the address; `None` if there is no admin port.
    pub const fn ip(self) -> Option<SocketAddr> {
        match self {
            Self::None => None,
            Self::At(address) | Self::Tls(address) => Some(address),
        }
    }

    /// Returns true if the admin port uses TLS.
    pub const fn is_tls(self) -> bool {
        matches!(self, Self::Tls(_))
    }
}

impl Value for AdminAddress {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = match text {
            "none" => Self::None,
            _ if text.starts_with("unix:") => {
                let what = "the admin port speaks HTTP over TCP";
                return Err(Wrong::new(what, "write an address, as in 127.0.0.1:9555, or \"none\""));
            }
            _ => {
                let (address, is_tls) = text.strip_prefix("tls:").map_or((text, false), |address| (address, true));
                let address = tcp_address(address).map_err(|wrong| {
                    Wrong::new(wrong.what, format!("{}, or \"none\"", wrong.remedy.replace("11211", "9555")))
                })?;
                if is_tls { Self::Tls(address) } else { Self::At(address) }
            }
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::At(address) => address.to_string(),
            Self::Tls(address) => format!("tls:{address}"),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "ADDR|tls:ADDR|none"
    }
}

/// The level of detail of the log.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum LogLevel {
    /// Logs nothing.
    Off,
    /// Logs events that stop the server or lose data.
    Error,
    /// Also logs events that need an operator's attention.
    Warn,
    /// Also logs starts, stops and changes of settings.
    #[default]
    Info,
    /// Also logs connections and background work.
    Debug,
    /// Logs all events.
    Trace,
}

const LOG_LEVELS: [(&str, LogLevel); 6] = [
    ("off", LogLevel::Off),
    ("error", LogLevel::Error),
    ("warn", LogLevel::Warn),
    ("info", LogLevel::Info),
    ("debug", LogLevel::Debug),
    ("trace", LogLevel::Trace),
];

/// The form of the log's lines.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum LogFormat {
    /// Text for readers.
    #[default]
    Text,
    /// One JSON object for each line, for programs.
    Json,
}

const LOG_FORMATS: [(&str, LogFormat); 2] = [("text", LogFormat::Text), ("json", LogFormat::Json)];

/// The way in which workers wait for sockets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum IoChoice {
    /// The server selects the reactor that is faster for its number of connections (docs/decisions/0003-io-uring.md).
    #[default]
    Auto,
    /// Workers wait with epoll.
    Epoll,
    /// Workers wait with io_uring. If the kernel refuses io_uring, they use epoll after a warning.
    Uring,
}

const IO_CHOICES: [(&str, IoChoice); 3] =
    [("auto", IoChoice::Auto), ("epoll", IoChoice::Epoll), ("uring", IoChoice::Uring)];

const CLIENT_AUTHS: [(&str, ClientAuth); 3] =
    [("no", ClientAuth::No), ("optional", ClientAuth::Optional), ("required", ClientAuth::Required)];

const USER_FROMS: [(&str, UserFrom); 3] =
    [("none", UserFrom::None), ("cn", UserFrom::CommonName), ("san-uri", UserFrom::SanUri)];

const TLS_VERSIONS: [(&str, Versions); 3] =
    [("1.2-1.3", Versions::Both), ("1.2", Versions::Tls12), ("1.3", Versions::Tls13)];

const PASSWORD_HASHES: [(&str, PasswordHash); 2] =
    [("argon2id", PasswordHash::Argon2id), ("sha256", PasswordHash::Sha256)];

const INDEX_PLACES: [(&str, IndexPlace); 2] = [("file", IndexPlace::File), ("dram", IndexPlace::Dram)];

/// Returns the word that stands for `value` in the list `words`.
fn word_of<T: PartialEq>(value: &T, words: &[(&'static str, T)]) -> String {
    let found = words.iter().find(|(_, candidate)| candidate == value);
    found.expect("every value of a closed set has its word").0.to_owned()
}

/// Implements [`Value`] for a closed set of words. The parameters are the type, its words and the placeholder.
macro_rules! words {
    ($kind:ident, $words:ident, $placeholder:literal) => {
        impl Value for $kind {
            fn read(&mut self, text: &str) -> Result<(), Wrong> {
                *self = one_of(text, &$words)?;
                Ok(())
            }

            fn show(&self) -> String {
                word_of(self, &$words)
            }

            fn shape(&self) -> Shape {
                Shape::Text
            }

            fn placeholder(&self) -> &'static str {
                $placeholder
            }
        }
    };
}

impl Value for GraphSync {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = match text {
            "never" => Self::Never,
            "always" => Self::Always,
            _ => {
                let mut interval = TimeSpan(0);
                let remedy = "write never, always, or an interval, as in 100ms";
                interval.read(text).map_err(|_| Wrong::new(format!("\"{text}\" is no time of commits"), remedy))?;
                if !(GRAPH_SYNC_MIN..=GRAPH_SYNC_MAX).contains(&interval) {
                    let what = format!("an interval of {interval} is not between 1ms and 1h");
                    return Err(Wrong::new(what, remedy));
                }
                Self::Every(interval)
            }
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::Never => "never".to_owned(),
            Self::Always => "always".to_owned(),
            Self::Every(interval) => interval.to_string(),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "never|always|DURATION"
    }
}

words!(LogLevel, LOG_LEVELS, "LEVEL");
words!(LogFormat, LOG_FORMATS, "text|json");
words!(IoChoice, IO_CHOICES, "auto|epoll|uring");
words!(PasswordHash, PASSWORD_HASHES, "argon2id|sha256");
words!(IndexPlace, INDEX_PLACES, "file|dram");
words!(ClientAuth, CLIENT_AUTHS, "no|optional|required");
words!(UserFrom, USER_FROMS, "none|cn|san-uri");
words!(Versions, TLS_VERSIONS, "1.2-1.3|1.2|1.3");

/// The CPUs that the workers run on.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Pin {
    /// Workers are not pinned; the kernel's scheduler selects their CPUs.
    #[default]
    None,
    /// A plan for this host, made by the program that starts the server, selects the CPUs. Without a plan this is the
    /// same as [`Pin::None`].
    Auto,
    /// Worker n runs on the n-th CPU of the list, which is never empty. Each CPU occurs once, in the given order.
    Cpus(Vec<usize>),
}

impl Value for Pin {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = match text {
            "none" => Self::None,
            "auto" => Self::Auto,
            list => Self::Cpus(
                read_cpus(list)
                    .map_err(|refused| Wrong::new(refused.what, format!("{}, \"auto\" or \"none\"", refused.remedy)))?,
            ),
        };
        Ok(())
    }

    fn show(&self) -> String {
        match self {
            Self::None => "none".to_owned(),
            Self::Auto => "auto".to_owned(),
            Self::Cpus(cpus) => show_cpus(cpus),
        }
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "none|auto|CPULIST"
    }
}

/// The permission bits of a Unix socket's file.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UnixMode(pub u32);

impl Value for UnixMode {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        let bits = u32::from_str_radix(text, 8).ok().filter(|bits| *bits <= 0o777 && text.len() >= 3);
        *self = Self(bits.ok_or_else(|| {
            Wrong::new(format!("{text:?} is not a file mode"), "write three octal digits, as in \"700\" or \"0770\"")
        })?);
        Ok(())
    }

    fn show(&self) -> String {
        format!("{:04o}", self.0)
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "MODE"
    }
}

/// The path of a file, or no file.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePath(pub Option<PathBuf>);

impl Value for FilePath {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        if text.is_empty() || text.contains('\0') {
            return Err(Wrong::new(format!("{text:?} is not the name of a file"), "write a path, or \"none\""));
        }
        *self = Self((text != "none").then(|| PathBuf::from(text)));
        Ok(())
    }

    fn show(&self) -> String {
        self.0.as_ref().map_or("none".to_owned(), |path| path.display().to_string())
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "PATH"
    }
}

/// The maximum number of devices of one tier.
pub const FLASH_DEVICES_MAX: usize = 16;

/// A file or a block device, and the size of its used part.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FlashPlace {
    /// The path of the file or device.
    pub path: PathBuf,
    /// The size of the used part, from the beginning.
    pub size: ByteSize,
}

impl fmt::Display for FlashPlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}", self.path.display(), self.size)
    }
}

impl std::str::FromStr for FlashPlace {
    type Err = Wrong;

    fn from_str(text: &str) -> Result<Self, Wrong> {
        let remedy = "write a path and a size, as in /var/lib/gannet.flash:100GiB";
        let Some((path, size)) = text.rsplit_once(':').filter(|(path, _)| !path.is_empty() && !path.contains('\0'))
        else {
            return Err(Wrong::new(format!("{text:?} is not a file with a size"), remedy));
        };
        let mut bytes = ByteSize(0);
        bytes.read(size)?;
        Ok(Self { path: PathBuf::from(path), size: bytes })
    }
}

/// The devices and files of a second tier.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FlashPlaces(pub Vec<FlashPlace>);

impl Value for FlashPlaces {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        self.read_all(&[text]).map_err(|mut wrong| wrong.remove(0))
    }

    fn show(&self) -> String {
        self.entries().join(", ")
    }

    fn shape(&self) -> Shape {
        Shape::List
    }

    fn placeholder(&self) -> &'static str {
        "PATH:SIZE"
    }

    fn entries(&self) -> Vec<String> {
        self.0.iter().map(FlashPlace::to_string).collect()
    }

    fn read_all(&mut self, texts: &[&str]) -> Result<(), Vec<Wrong>> {
        let (mut places, mut faults) = (Vec::<FlashPlace>::new(), Vec::new());
        for text in texts {
            match text.parse::<FlashPlace>() {
                Ok(place) if places.iter().any(|there| there.path == place.path) => {
                    faults.push(Wrong::new(format!("{} is listed twice", place.path.display()), "remove one of them"));
                }
                Ok(place) => places.push(place),
                Err(wrong) => faults.push(wrong),
            }
        }
        if places.len() > FLASH_DEVICES_MAX {
            let what = format!("{} devices are named, but at most {FLASH_DEVICES_MAX} are allowed", places.len());
            faults.push(Wrong::new(what, "combine several into one device, for example with mdadm"));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        self.0 = places;
        Ok(())
    }
}

/// A list of files, in the order of their use.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct FilePaths(pub Vec<String>);

impl Words for FilePaths {
    const PLACEHOLDER: &'static str = "PATH";

    fn words(&self) -> &[String] {
        &self.0
    }

    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>> {
        let wrong = |text: &&&str| text.is_empty() || text.contains('\0');
        match texts.iter().find(wrong) {
            Some(text) => Err(vec![Wrong::new(format!("{text:?} is not the name of a file"), "write a path")]),
            None => Ok(Self(texts.iter().map(|text| (*text).to_owned()).collect())),
        }
    }
}

/// A list of cipher suites, best first.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CipherNames(pub Vec<String>);

impl Words for CipherNames {
    const PLACEHOLDER: &'static str = "NAME";

    fn words(&self) -> &[String] {
        &self.0
    }

    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>> {
        let settings = |text: &&str| tls::TlsSettings { ciphers: vec![(*text).to_owned()], ..Default::default() };
        let faults = texts.iter().filter_map(|text| settings(text).cipher_fault());
        let faults: Vec<Wrong> = faults.map(|fault| Wrong::new(fault.what, fault.remedy)).collect();
        if faults.is_empty() { Ok(Self(texts.iter().map(|text| (*text).to_owned()).collect())) } else { Err(faults) }
    }
}

/// A list of names of Redis commands, in lower case.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CommandNames(pub Vec<String>);

impl Words for CommandNames {
    const PLACEHOLDER: &'static str = "COMMAND";

    fn words(&self) -> &[String] {
        &self.0
    }

    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>> {
        let known = || command::resp::catalog::COMMANDS.iter().map(|entry| entry.name);
        let (mut names, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            let name = text.to_ascii_lowercase();
            if !known().any(|known| known == name) {
                let remedy = match base::nearest::nearest(&name, known()) {
                    Some(near) => format!("did you mean \"{near}\"?"),
                    None => "remove it: unsupported commands are refused in any case".to_owned(),
                };
                faults.push(Wrong::new(format!("{text:?} is not a supported Redis command"), remedy));
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        Ok(Self(names))
    }
}

/// The maximum number of host names of the admin port.
pub const HOST_NAMES_MAX: usize = 64;
/// The maximum length of a host name, in bytes.
const HOST_NAME_BYTES_MAX: usize = 253;

/// A list of host names, in lower case and without a final dot.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HostNames(pub Vec<String>);

impl Words for HostNames {
    const PLACEHOLDER: &'static str = "NAME";

    fn words(&self) -> &[String] {
        &self.0
    }

    fn of(texts: &[&str]) -> Result<Self, Vec<Wrong>> {
        if texts.len() > HOST_NAMES_MAX {
            let what = format!("{} names are given, but at most {HOST_NAMES_MAX} are allowed", texts.len());
            return Err(vec![Wrong::new(what, "connect to the IP address instead, which is always accepted")]);
        }
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_');
        let is_label = |label: &str| !label.is_empty() && label.bytes().all(letter);
        let (mut names, mut faults) = (Vec::new(), Vec::new());
        for text in texts {
            let name = text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase();
            if name.len() > HOST_NAME_BYTES_MAX || !name.split('.').all(is_label) {
                let remedy = "write a name without a scheme and a port, as in \"cache1.example\"";
                faults.push(Wrong::new(format!("{text:?} is not a host name"), remedy));
            } else if !names.contains(&name) {
                names.push(name);
            }
        }
        if faults.is_empty() { Ok(Self(names)) } else { Err(faults) }
    }
}

/// The delimiter after a key's prefix: one ASCII character that a key can contain.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delimiter(pub u8);

impl Value for Delimiter {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        *self = match text.as_bytes() {
            [byte] if byte.is_ascii_graphic() => Self(*byte),
            _ => return Err(Wrong::new(format!("{text:?} is not one character"), "write one, as in \":\"")),
        };
        Ok(())
    }

    fn show(&self) -> String {
        char::from(self.0).to_string()
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "CHAR"
    }
}

impl Value for KeyEvents {
    fn read(&mut self, text: &str) -> Result<(), Wrong> {
        let letters = if text == "none" { "" } else { text };
        *self = Self::of(letters.as_bytes()).ok_or_else(|| {
            let what = format!("{text:?} has a letter other than KEg$lshzxetdmnA");
            Wrong::new(what, "write K or E or both and the events to publish, as in \"KEA\" or \"Ex\", or \"none\"")
        })?;
        Ok(())
    }

    fn show(&self) -> String {
        if self.0 == 0 { "none".to_owned() } else { self.letters() }
    }

    fn shape(&self) -> Shape {
        Shape::Text
    }

    fn placeholder(&self) -> &'static str {
        "LETTERS"
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn round_trip<V: Value + Default + PartialEq + fmt::Debug>(text: &str) -> V {
        let (mut value, mut again) = (V::default(), V::default());
        value.read(text).unwrap();
        again.read(&value.show()).unwrap();
        assert_eq!(value, again);
        value
    }

    fn remedy<V: Value + Default>(text: &str) -> String {
        V::default().read(text).unwrap_err().remedy
    }

    #[test]
    fn addresses_of_every_family_read_back() {
        round_trip::<Vec<ListenAddress>>("127.0.0.1:11211");
        round_trip::<Vec<ListenAddress>>("[::]:0");
        round_trip::<FlashPlaces>("/dev/nvme1n1:100GiB");
        assert_eq!(round_trip::<FlashPlaces>("/a:b:1MiB").0[0].path, PathBuf::from("/a:b"));
        round_trip::<Vec<ListenAddress>>("unix:/run/gannet.sock");
        assert_eq!(round_trip::<Vec<ListenAddress>>("localhost:7"), [ListenAddress::Tcp(([127, 0, 0, 1], 7).into())]);
        assert_eq!(round_trip::<AdminAddress>("none"), AdminAddress::None);
        round_trip::<AdminAddress>("127.0.0.1:9555");
    }

    #[test]
    fn invalid_address_error_suggests_a_valid_address() {
        assert!(remedy::<Vec<ListenAddress>>("10.0.0.1").contains("10.0.0.1:11211"));
        assert!(remedy::<Vec<ListenAddress>>("*:11300").contains("0.0.0.0:11300"));
        assert!(remedy::<Vec<ListenAddress>>(":11300").contains("0.0.0.0:11300"));
        assert!(remedy::<Vec<ListenAddress>>("/run/x.sock").contains("unix:/run/x.sock"));
        assert!(remedy::<Vec<ListenAddress>>("10.0.0.1:99999").contains("127.0.0.1:11211"));
        assert!(remedy::<AdminAddress>("unix:/x").contains("127.0.0.1:9555"));
        let long = format!("unix:/{}", "x".repeat(UNIX_PATH_LEN_MAX));
        assert!(long.parse::<ListenAddress>().unwrap_err().what.contains("108"));
    }

    #[test]
    fn duplicate_address_is_refused_unless_its_port_is_zero() {
        let mut endpoints = Vec::<ListenAddress>::new();
        assert!(endpoints.read_all(&["127.0.0.1:1", "127.0.0.1:1"]).is_err());
        endpoints.read_all(&["127.0.0.1:0", "127.0.0.1:0"]).unwrap();
        assert_eq!(endpoints.len(), 2);
        assert_eq!(endpoints.read_all(&["x", "y", "127.0.0.1:3"]).unwrap_err().len(), 2);
        assert!(endpoints.read_all(&["127.0.0.1:0"; ENDPOINTS_MAX + 1]).is_err());
    }

    #[test]
    fn cpu_lists_preserve_their_order_and_refuse_invalid_cpus() {
        assert_eq!(round_trip::<Pin>("8,0-3"), Pin::Cpus(vec![8, 0, 1, 2, 3]));
        assert_eq!(Pin::Cpus(vec![8, 0, 1, 2, 3, 5, 6]).show(), "8,0-3,5,6");
        for bad in ["", "3-1", "1,1", "0-", "x", "1024", "-1", "0-3,2"] {
            assert!(remedy::<Pin>(bad).contains("0-3,8"), "{bad}");
        }
        assert_eq!(round_trip::<Pin>("auto"), Pin::Auto);
    }

    #[test]
    fn reactors_are_parsed_by_name() {
        for word in ["auto", "epoll", "uring"] {
            assert_eq!(round_trip::<IoChoice>(word).show(), word);
        }
        assert!(remedy::<IoChoice>("epol").contains("\"epoll\""));
        for word in ["file", "dram"] {
            assert_eq!(round_trip::<IndexPlace>(word).show(), word);
        }
        assert!(remedy::<IndexPlace>("ram").contains("\"dram\""));
    }

    #[test]
    fn host_names_have_neither_scheme_nor_port() {
        assert_eq!(round_trip::<HostNames>("Cache1.Example.").0, ["cache1.example"]);
        for bad in ["", ".", "a..b", "http://a", "a:9555", "*.example", "[::1]", "a/b", "a b", &"x".repeat(254)] {
            assert!(remedy::<HostNames>(bad).contains("cache1.example"), "{bad}");
        }
        assert!(HostNames::of(&["a"; HOST_NAMES_MAX + 1]).is_err());
        assert_eq!(HostNames::of(&["a", "A"]).unwrap().0, ["a"]);
    }

    #[test]
    fn modes_are_octal() {
        assert_eq!(round_trip::<UnixMode>("0770"), UnixMode(0o770));
        for bad in ["7", "999", "1777", "rwx"] {
            assert!(remedy::<UnixMode>(bad).contains("octal"), "{bad}");
        }
    }

    #[test]
    fn key_events_are_letters_or_none() {
        let mut setting = KeyEvents(5);
        assert!(setting.read("none").is_ok() && setting.0 == 0 && setting.show() == "none");
        assert!(setting.read("x y").unwrap_err().remedy.contains("KEA"));
    }
}
