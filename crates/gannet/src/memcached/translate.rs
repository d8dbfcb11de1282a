//! Translates memcached's flags to settings.

use std::path::PathBuf;

use server::config::file::Origins;
use server::config::host::Host;
use server::config::kinds::FilePaths;
use server::config::table::setting;
use server::config::{Origin, Settings};
use server::start::WORKERS_MAX;

use super::atoi::number;
use super::getopt::{self, Word};
use super::process::Process;
use super::refusal::{Refusal, code};
use super::suboptions::{self, TlsOption, Use};
use super::{flags, listen};

/// memcached's default port.
const PORT: i64 = 11_211;
const MEMORY_MIB: i64 = 64;
const CONNECTIONS: i64 = 1024;
const CONNECTIONS_MAX: i64 = 1_000_000;
const WORKERS: u64 = 4;
const ITEM_BYTES: i64 = 1 << 20;
/// The smallest memory of a store, in MiB.
const MEMORY_MIB_MIN: i64 = 16;
const ITEM_BYTES_MIN: i64 = 1 << 10;
const ITEM_BYTES_MAX: i64 = 1 << 30;
/// The number of segments of a small memory whose items move to flash.
const FLASH_SEGMENTS_WANTED: i64 = 128;
const SEGMENT_KIB_MAX: i64 = 1 << 10;
/// Time that the server waits for requests in flight when it ends; memcached itself ends at once.
const STOP_TIMEOUT: &str = "1s";

/// The result of a command line.
#[derive(Debug)]
pub enum CommandLine {
    /// Print this text and exit.
    Print(String),
    /// Run the server.
    Serve(Box<Translation>),
}

/// The configuration with which the server is started.
#[derive(Debug)]
pub struct Translation {
    /// The settings.
    pub settings: Settings,
    /// The flag by which each setting was set.
    pub origins: Origins,
    /// The flags that change this process.
    pub process: Process,
    /// Warnings, such as flags without effect, one sentence each.
    pub warnings: Vec<String>,
}

/// Translates `args`.
///
/// # Errors
/// All faults, each with memcached's exit code for it; at least one.
pub fn translate(args: Vec<String>, host: &Host) -> Result<CommandLine, Vec<Refusal>> {
    let mut reading = PartialCommandLine::new(host);
    for word in getopt::read(args) {
        match word {
            Word::Flag(flag, value) => {
                let printed = match flag.letter {
                    'h' => flags::help(),
                    'i' => flags::license(),
                    'V' => flags::version(),
                    letter => {
                        reading.flag(letter, value.unwrap_or_default());
                        continue;
                    }
                };
                return if reading.faults.is_empty() { Ok(CommandLine::Print(printed)) } else { Err(reading.faults) };
            }
            Word::Operand(text) => reading.warnings.push(format!("{text:?} does not belong to a flag and is ignored")),
            Word::Fault(what) => reading.faults.push((code::FAILED, what)),
        }
    }
    reading.finish()
}

/// The part of the command line that has been read so far.
struct PartialCommandLine {
    settings: Settings,
    origins: Origins,
    process: Process,
    warnings: Vec<String>,
    faults: Vec<Refusal>,
    port: i64,
    /// The value of `-p`.
    port_text: String,
    listen: Vec<String>,
    socket: Option<String>,
    socket_is_used: bool,
    memory_mib: i64,
    item_bytes: i64,
    /// The protocol that `-B` selects.
    protocol: Option<String>,
    /// True if `-U` requests UDP.
    udp: bool,
    udp_required: bool,
    /// True if `-Z` requests TLS.
    has_tls: bool,
    /// The values of `ext_path`, as values of `store.flash`.
    flash: Vec<String>,
}

impl PartialCommandLine {
    fn new(host: &Host) -> Self {
        let mut reading = Self {
            settings: Settings::default(),
            origins: Origins::new(),
            process: Process::default(),
            warnings: Vec::new(),
            faults: Vec::new(),
            port: PORT,
            port_text: PORT.to_string(),
            listen: Vec::new(),
            socket: None,
            socket_is_used: false,
            memory_mib: MEMORY_MIB,
            item_bytes: ITEM_BYTES,
            protocol: None,
            udp: false,
            udp_required: false,
            has_tls: false,
            flash: Vec::new(),
        };
        for (path, text) in [
            ("listen.admin", "none"),
            ("listen.ipv6_only", "true"),
            // memcached too serves other hosts without a password. The server logs a warning.
            ("listen.unprotected", "true"),
            ("limits.login_timeout", "0s"),
            ("limits.maxconns", CONNECTIONS.to_string().as_str()),
            ("limits.stop_timeout", STOP_TIMEOUT),
            ("threads.workers", host.parallelism().clamp(1, WORKERS).to_string().as_str()),
            ("log.level", "warn"),
        ] {
            let setting = setting(path).expect("the path is in the table of settings");
            setting.set(&mut reading.settings, &[text]).expect("the value is valid for the setting");
        }
        reading
    }

    /// Sets the setting at `path` to the value of `texts`, given by the flag `letter`.
    fn set(&mut self, letter: char, path: &'static str, texts: &[&str]) {
        let setting = setting(path).expect("the path is in the table of settings");
        match setting.set(&mut self.settings, texts) {
            Ok(()) => {
                self.origins.insert(setting.path, Origin::Letter(letter));
            }
            Err(wrongs) => self.faults.extend(
                wrongs.into_iter().map(|wrong| (code::USAGE, format!("-{letter}: {}; {}", wrong.what, wrong.remedy))),
            ),
        }
    }

    fn refuse(&mut self, code: u8, what: impl Into<String>) {
        self.faults.push((code, what.into()));
    }

    /// Parses a number as memcached does. Text after the digits is ignored, with a warning.
    fn number(&mut self, letter: char, text: &str) -> i64 {
        let (value, whole) = number(text);
        if !whole {
            self.warnings.push(format!("-{letter}: {text:?} is interpreted as {value}"));
        }
        value
    }

    /// Parses a number that must be above 0.
    fn positive(&mut self, letter: char, text: &str) -> Option<i64> {
        let value = self.number(letter, text);
        if value <= 0 {
            self.refuse(code::FAILED, format!("-{letter} is {value}; write a number above 0"));
        }
        (value > 0).then_some(value)
    }

    fn flag(&mut self, letter: char, value: String) {
        match letter {
            'p' => {
                self.port = number(&value).0;
                self.port_text = value;
            }
            'U' => self.udp = self.number(letter, &value) != 0,
            flags::NO_LETTER => self.udp_required = true,
            's' => self.socket = Some(value),
            'a' => self.unix_mode(&value),
            'A' => self.set(letter, "commands.shutdown", &["true"]),
            'l' => self.listen.push(value),
            'd' => self.process.daemon = true,
            'r' => self.process.core_files = true,
            'u' => self.process.user = Some(value),
            'm' => self.memory_mib = self.number(letter, &value),
            'c' => self.connections(&value),
            'k' => self.set(letter, "store.lock", &["true"]),
            'v' => self.process.verbosity += 1,
            'P' => self.process.pid_file = Some(PathBuf::from(value)),
            't' => self.workers(&value),
            'R' => self.requests_a_visit(&value),
            'C' => self.set(letter, "commands.cas", &["false"]),
            'b' => self.backlog(&value),
            'B' => self.protocol(&value),
            'I' => self.item_bytes = self.size(&value),
            'M' => self.set(letter, "store.evict", &["false"]),
            'F' => self.set(letter, "commands.flush_all", &["false"]),
            'X' => self.set(letter, "commands.dump", &["false"]),
            'W' => self.set(letter, "commands.watch", &["false"]),
            'D' => self.prefixes(&value),
            'Y' => self.set(letter, "listen.auth_file", &[&value]),
            'o' => self.suboptions(&value),
            'e' => self.set(letter, "store.file", &[&value]),
            'Z' => self.has_tls = true,
            'L' => {}
            'f' | 'n' | 'N' => self.ignored(letter, &value),
            _ => {
                let flag = flags::by_letter(letter).expect("a flag of the table");
                let what = flag.what.strip_prefix("Refused: ").expect("a refused flag has a text");
                self.refuse(code::USAGE, format!("-{letter}: {} remove the flag", what.replace('.', ";")));
            }
        }
    }

    fn unix_mode(&mut self, text: &str) {
        let digits: String = text.chars().take_while(|c| ('0'..='7').contains(c)).collect();
        let mode = u32::from_str_radix(&digits, 8).unwrap_or(0) & 0o777;
        if digits.len() != text.len() || digits.is_empty() {
            self.warnings.push(format!("-a: {text:?} is interpreted as {mode:o}"));
        }
        self.set('a', "listen.unix_mode", &[&format!("{mode:04o}")]);
    }

    fn connections(&mut self, text: &str) {
        let Some(connections) = self.positive('c', text) else { return };
        if connections > CONNECTIONS_MAX {
            let what = format!("{connections} connections exceed the maximum of {CONNECTIONS_MAX}");
            self.refuse(code::SYSTEM, format!("-c: {what}; lower -c"));
        } else {
            self.set('c', "limits.maxconns", &[&connections.to_string()]);
        }
    }

    fn workers(&mut self, text: &str) {
        if let Some(wanted) = self.positive('t', text) {
            let workers = wanted.min(WORKERS_MAX as i64);
            if workers < wanted {
                self.warnings.push(format!("-t: the maximum is {workers} threads; the server starts {workers}"));
            }
            self.set('t', "threads.workers", &[&workers.to_string()]);
        }
    }

    fn requests_a_visit(&mut self, text: &str) {
        // memcached refuses only 0; with a negative number it never limits the requests.
        let wanted = self.number('R', text);
        let most = command::visit::progress::OPS_A_BATCH as i64;
        match wanted {
            0 => return self.refuse(code::FAILED, "-R is 0; write a number above 0"),
            1.. if wanted <= most => {}
            _ => self.warnings.push(format!("-R: the maximum is {most} requests; the server uses {most}")),
        }
        let requests = if (1..=most).contains(&wanted) { wanted } else { most };
        self.set('R', "limits.requests_a_visit", &[&requests.to_string()]);
    }

    /// Reads the separator of `-D`. Only the first character of a longer text is used.
    fn prefixes(&mut self, text: &str) {
        let Some(first) = text.chars().next() else {
            return self.refuse(code::FAILED, "-D: the character is missing; write one, as in -D :");
        };
        self.set('D', "commands.prefix_delimiter", &[first.encode_utf8(&mut [0; 4])]);
        self.set('D', "commands.prefix_stats", &["true"]);
    }

    fn backlog(&mut self, text: &str) {
        let wanted = self.number('b', text);
        self.set('b', "listen.backlog", &[&wanted.clamp(1, 65_535).to_string()]);
    }

    fn protocol(&mut self, text: &str) {
        match text {
            "auto" | "ascii" => self.protocol = Some(text.to_owned()),
            "binary" => self.refuse(code::USAGE, "-B: the binary protocol is not supported; write -B auto or -B ascii"),
            _ => self.refuse(code::USAGE, format!("-B: unknown protocol {text:?}; write auto or ascii")),
        }
    }

    /// Parses a size in bytes, optionally with the suffix k or m for 1024 or 1024 squared.
    fn size(&mut self, text: &str) -> i64 {
        let (digits, unit) = match text.as_bytes().last() {
            Some(b'k' | b'K') => (&text[..text.len() - 1], 1 << 10),
            Some(b'm' | b'M') => (&text[..text.len() - 1], 1 << 20),
            _ => (text, 1),
        };
        self.number('I', digits) * unit
    }

    fn ignored(&mut self, letter: char, text: &str) {
        let wrong = match letter {
            'f' => text.parse::<f64>().map_or(true, |factor| factor <= 1.0).then_some("1"),
            _ => (number(text).0 <= 0).then_some("0"),
        };
        match wrong {
            Some(least) => self.refuse(code::FAILED, format!("-{letter} is {text:?}; write a number above {least}")),
            None => self.no_effect(&format!("-{letter}")),
        }
    }

    fn no_effect(&mut self, what: &str) {
        self.warnings.push(format!("{what} has no effect here; see docs/memcached.md"));
    }

    fn suboptions(&mut self, text: &str) {
        for found in suboptions::read(text) {
            let (option, value) = match found {
                Ok(found) => found,
                Err(what) => {
                    self.refuse(code::FAILED, what);
                    continue;
                }
            };
            if let Err(what) = option.check(value) {
                self.refuse(code::FAILED, what);
                continue;
            }
            match option.use_ {
                Use::AsIs(_) => {}
                Use::Ignored(_) => self.no_effect(&format!("-o {}", option.name)),
                Use::Different(_, how) => {
                    self.warnings.push(format!("-o {} has no effect here: {how}", option.name));
                }
                Use::ExtPath => {
                    if let Ok((path, mib)) = suboptions::ext_path(value.unwrap_or_default()) {
                        self.flash.push(format!("{path}:{mib}MiB"));
                    }
                }
                Use::IdleTimeout => {
                    let seconds = number(value.unwrap_or_default()).0;
                    self.set('o', "limits.idle_timeout", &[&format!("{seconds}s")]);
                }
                Use::Tls(option) => tls_option(self, option, value.unwrap_or_default()),
                Use::Refused(what) => {
                    let line = format!("-o {}: this build does not have {what}; remove the option", option.name);
                    self.refuse(code::USAGE, line);
                }
            }
        }
    }

    /// Performs the checks that need all flags, and returns the result.
    fn finish(mut self) -> Result<CommandLine, Vec<Refusal>> {
        self.sizes();
        self.addresses();
        udp(&mut self);
        tls(&mut self);
        flash(&mut self);
        if self.settings.auth_file.0.is_some() && self.protocol.as_deref().is_some_and(|name| name != "ascii") {
            self.refuse(code::USAGE, "-Y requires text clients, but -B allows others; write -B ascii");
        }
        let level = ["warn", "info", "debug", "trace"][usize::from(self.process.verbosity.min(3))];
        if self.process.verbosity > 0 {
            self.set('v', "log.level", &[level]);
        }
        if !self.faults.is_empty() {
            return Err(self.faults);
        }
        let Self { settings, origins, process, warnings, .. } = self;
        Ok(CommandLine::Serve(Box::new(Translation { settings, origins, process, warnings })))
    }

    fn sizes(&mut self) {
        let (item_bytes, memory_bytes) = (self.item_bytes, self.memory_mib << 20);
        if item_bytes < ITEM_BYTES_MIN {
            return self
                .refuse(code::USAGE, format!("-I: an item of {item_bytes} bytes is too small; write 1k or more"));
        }
        if self.memory_mib <= 0 {
            return self.refuse(code::USAGE, "-m: the memory is no number of MiB above 0; write it as in -m 1024");
        }
        if item_bytes > memory_bytes / 2 {
            let what = format!("an item of {item_bytes} bytes exceeds half of {} MiB", self.memory_mib);
            return self.refuse(code::USAGE, format!("-I: {what}; lower -I or raise -m"));
        }
        if item_bytes > ITEM_BYTES_MAX {
            return self
                .refuse(code::USAGE, format!("-I: an item of {item_bytes} bytes is too large; write 1024m or less"));
        }
        let mib = self.memory_mib.max(MEMORY_MIB_MIN);
        if mib > self.memory_mib {
            self.warnings.push(format!("-m: the minimum is {MEMORY_MIB_MIN} MiB, which is used"));
        }
        self.set('m', "store.memory", &[&format!("{mib}MiB")]);
        self.set('I', "store.item_max", &[&format!("{item_bytes}B")]);
    }

    fn addresses(&mut self) {
        if let Some(path) = self.socket.take() {
            self.socket_is_used = true;
            return self.set('s', "listen.memcached", &[&format!("unix:{path}")]);
        }
        let is_whole = number(&self.port_text).1;
        if self.port == 0 && !is_whole {
            let what = format!("-p: {:?} is not a port; write a number from 1 to 65535, or -s FILE", self.port_text);
            return self.refuse(code::USAGE, what);
        }
        if self.port == 0 {
            return self.refuse(code::USAGE, "-p 0 disables the only listener; write a port, or -s FILE");
        }
        if self.port > i64::from(u16::MAX) {
            return self.refuse(code::USAGE, format!("-p: the port {} is too high; write one up to 65535", self.port));
        }
        if !is_whole {
            self.warnings.push(format!("-p: {:?} is interpreted as {}", self.port_text, self.port));
        }
        match listen::addresses(&self.listen, self.port, self.has_tls) {
            Ok(found) => {
                let texts: Vec<String> = found.iter().map(ToString::to_string).collect();
                let texts: Vec<&str> = texts.iter().map(String::as_str).collect();
                self.set(if self.listen.is_empty() { 'p' } else { 'l' }, "listen.memcached", &texts);
            }
            Err(refusal) => self.faults.push(refusal),
        }
    }
}

/// Sets the places of flash. Only items up to an eighth of a segment move to flash. The segments of a small memory are
/// therefore larger than by default.
fn flash(reading: &mut PartialCommandLine) {
    let places = std::mem::take(&mut reading.flash);
    if places.is_empty() {
        return;
    }
    reading.set('o', "store.flash", &places.iter().map(String::as_str).collect::<Vec<_>>());
    let memory_kib = reading.memory_mib.max(MEMORY_MIB_MIN) << 10;
    let segment_kib = 1 << (memory_kib / FLASH_SEGMENTS_WANTED).min(SEGMENT_KIB_MAX).ilog2();
    reading.set('o', "store.segment", &[&format!("{segment_kib}KiB")]);
}

/// Applies an option of TLS.
fn tls_option(reading: &mut PartialCommandLine, option: TlsOption, value: &str) {
    match option {
        TlsOption::Chain => reading.set('o', "tls.cert", &[value]),
        TlsOption::Key => reading.set('o', "tls.key", &[value]),
        TlsOption::KeyFormat => {}
        TlsOption::CaCert => reading.set('o', "tls.client_ca", &[value]),
        TlsOption::VerifyMode => {
            let mode = ["no", "optional", "required", "required"][number(value).0.clamp(0, 3) as usize];
            reading.set('o', "tls.client_auth", &[mode]);
        }
        TlsOption::MinVersion => {
            let version = number(value).0;
            if version < 2 {
                let what = "-o ssl_min_version: versions below TLS 1.2 are not secure, and not supported";
                reading.warnings.push(format!("{what}; the lowest is TLS 1.2"));
            }
            reading.set('o', "tls.versions", &[if version == 3 { "1.3" } else { "1.2-1.3" }]);
        }
        TlsOption::Ciphers => {
            let is_known = |name: &&str| {
                setting("tls.ciphers").is_some_and(|it| it.set(&mut Settings::default(), &[name]).is_ok())
            };
            let (known, unknown): (Vec<&str>, Vec<&str>) = value.split(':').partition(is_known);
            if !unknown.is_empty() {
                let what = format!("-o ssl_ciphers: {} are no names of supported cipher suites", unknown.join(":"));
                let rest = if known.is_empty() { "all secure ones are allowed" } else { "the others are allowed" };
                reading.warnings.push(format!("{what}; {rest}"));
            }
            reading.set('o', "tls.ciphers", &known);
        }
    }
}

/// Checks the options of TLS together.
fn tls(reading: &mut PartialCommandLine) {
    let has_certificate = !reading.settings.tls_cert.0.is_empty();
    if reading.has_tls && !has_certificate {
        let remedy = "name a PEM file with the certificate and its chain, as in -o ssl_chain_cert=FILE,ssl_key=FILE";
        reading.refuse(code::USAGE, format!("-Z: there is no certificate; {remedy}"));
    } else if !reading.has_tls && has_certificate {
        reading.warnings.push("-o ssl_chain_cert has no effect without -Z".to_owned());
        reading.settings.tls_cert = FilePaths::default();
    }
    if reading.has_tls && reading.socket_is_used {
        reading.warnings.push("-Z: a Unix socket never uses TLS".to_owned());
    }
}

fn udp(reading: &mut PartialCommandLine) {
    let what = "-U: UDP is not supported, because replies could be sent to forged addresses";
    match (reading.udp, reading.udp_required) {
        (false, _) => {}
        (true, false) => reading.warnings.push(format!("{what}; only TCP clients are served")),
        (true, true) => reading.refuse(code::USAGE, format!("{what}; write -U 0, or remove --udp-required")),
    }
}

#[cfg(test)]
mod tests;
