//! The settings and counters of a network interface that `ethtool` prints: rings, coalescing, channels and counters.
//! The doctor also writes some of the settings.
//!
//! ```text
//!   /ethtool/eth0/l           the output of `ethtool -l eth0`: a file in a tree, or formatted from netlink's reply
//!   /ethtool/eth0/l/Combined  one setting of that output: `tune` reads and writes it, by netlink or in the tree's file
//! ```
//! Rings, coalescing and channels are read from the kernel by netlink (linux/ethtool_netlink.h), since Linux 5.6. The
//! drivers' own counters are read from the output of the program `ethtool`. On older kernels, the settings are read
//! from that output too.

use std::fmt::Write as _;
use std::io::ErrorKind;
use std::path::Path;
use std::process::Command;

use crate::host::Unread;
use crate::netlink::{Family, NESTED, attribute, find, number as attribute_number};

/// Paths of the program `ethtool`. The doctor does not search `PATH`, which may contain folders that other users can
/// write.
const PROGRAMS: [&str; 3] = ["/usr/sbin/ethtool", "/sbin/ethtool", "/usr/bin/ethtool"];

/// One kind of settings: rings, coalescing or channels.
struct EthtoolSettings {
    /// The program's option that prints them; the capital letter sets them.
    option: &'static str,
    title: &'static str,
    /// Netlink's commands that read and write them.
    get: u8,
    set: u8,
}

const KINDS: [EthtoolSettings; 3] = [
    EthtoolSettings { option: "g", title: "Ring", get: 15, set: 16 },
    EthtoolSettings { option: "l", title: "Channel", get: 17, set: 18 },
    EthtoolSettings { option: "c", title: "Coalesce", get: 19, set: 20 },
];

/// A number or a switch among the settings of one kind.
struct EthtoolField {
    option: &'static str,
    /// The name in ethtool's output.
    name: &'static str,
    /// The name in ethtool's arguments.
    word: &'static str,
    /// Netlink's attributes of the maximum (`most`) and of the current value (`now`).
    most: Option<u16>,
    now: u16,
    is_switch: bool,
}

const fn known(option: &'static str, name: &'static str, word: &'static str, most: u16, now: u16) -> EthtoolField {
    EthtoolField { option, name, word, most: if most == 0 { None } else { Some(most) }, now, is_switch: false }
}

const KNOWN: [EthtoolField; 13] = [
    known("g", "RX", "rx", 2, 6),
    known("g", "RX Mini", "rx-mini", 3, 7),
    known("g", "RX Jumbo", "rx-jumbo", 4, 8),
    known("g", "TX", "tx", 5, 9),
    known("l", "RX", "rx", 2, 6),
    known("l", "TX", "tx", 3, 7),
    known("l", "Other", "other", 4, 8),
    known("l", "Combined", "combined", 5, 9),
    EthtoolField { is_switch: true, ..known("c", "Adaptive RX", "adaptive-rx", 0, 11) },
    known("c", "rx-usecs", "rx-usecs", 0, 2),
    known("c", "rx-frames", "rx-frames", 0, 3),
    known("c", "tx-usecs", "tx-usecs", 0, 6),
    known("c", "tx-frames", "tx-frames", 0, 7),
];

/// Attributes of a request: its header, and the interface's name within the header.
const HEAD: u16 = 1;
const NAME: u16 = 2;
/// Maximum bytes of an interface's name.
const NAME_BYTES_MAX: usize = 15;

/// Returns the interface's settings or counters of one kind: `g` rings, `c` coalescing, `l` channels, `S` counters.
///
/// # Errors
/// [`Unread`]: if the interface has no settings or counters of this kind, or if neither netlink nor the program can
/// report them.
pub(crate) fn query(nic: &str, option: &str) -> Result<String, Unread> {
    let Some(kind) = KINDS.iter().find(|kind| kind.option == option) else { return run_program(nic, option) };
    let Ok(mut family) = Family::open("ethtool") else { return run_program(nic, option) };
    let reply = family.request(kind.get, &head(nic)).map_err(|error| unread(nic, option, &error))?;
    Ok(printed(nic, kind, reply))
}

fn head(nic: &str) -> Vec<u8> {
    attribute(HEAD | NESTED, &attribute(NAME, &[nic.as_bytes(), b"\0"].concat()))
}

fn unread(nic: &str, option: &str, error: &std::io::Error) -> Unread {
    let what = format!("ethtool -{option} {nic}");
    match rustix::io::Errno::from_io_error(error) {
        Some(rustix::io::Errno::NODEV) => Unread::Absent(what),
        Some(rustix::io::Errno::OPNOTSUPP) => {
            Unread::Refused(what, "the interface has no such settings or counters".to_owned())
        }
        _ => Unread::Refused(what, error.to_string()),
    }
}

/// Formats netlink's reply as the program would print it.
fn printed(nic: &str, kind: &EthtoolSettings, reply: &[u8]) -> String {
    let mut text = format!("{} parameters for {nic}:\n", kind.title);
    let of_kind = || KNOWN.iter().filter(|known| known.option == kind.option);
    let value = |known: &EthtoolField, at: u16| match known.is_switch {
        true => find(reply, at).map(|state| if state.first() == Some(&1) { "on" } else { "off" }.to_owned()),
        false => attribute_number(reply, at).map(|number| number.to_string()),
    };
    let mut lines = |heading: &str, of: &dyn Fn(&EthtoolField) -> Option<u16>| {
        text.push_str(heading);
        for known in of_kind() {
            let value = of(known).and_then(|at| value(known, at));
            let _ = writeln!(text, "{}:\t{}", known.name, value.as_deref().unwrap_or("n/a"));
        }
    };
    if kind.option == "c" {
        lines("", &|known| Some(known.now));
    } else {
        lines("Pre-set maximums:\n", &|known| known.most);
        lines(&format!("{CURRENT}\n"), &|known| Some(known.now));
    }
    text
}

/// The heading above the current settings, in outputs that list the maximums first.
const CURRENT: &str = "Current hardware settings:";

/// One setting of an interface that the doctor may write.
#[derive(Clone, Copy)]
pub(crate) struct Tunable<'a> {
    pub nic: &'a str,
    known: &'static EthtoolField,
}

impl<'a> Tunable<'a> {
    /// Returns the setting at a path such as `/ethtool/eth0/l/Combined`; `None` if the path has another form.
    pub fn of(path: &'a str) -> Option<Self> {
        let (nic, rest) = path.strip_prefix("/ethtool/")?.split_once('/')?;
        let (option, name) = rest.split_once('/')?;
        let is_name = !nic.is_empty() && nic.len() <= NAME_BYTES_MAX && !nic.starts_with(['-', '.']);
        let known = KNOWN.iter().find(|known| known.option == option && known.name == name)?;
        is_name.then_some(Self { nic, known })
    }

    /// Returns the letter of the program's option that prints the setting.
    pub fn option(&self) -> &'static str {
        self.known.option
    }

    /// Returns the path of the output that contains the setting.
    pub fn text_path(&self) -> String {
        format!("/ethtool/{}/{}", self.nic, self.known.option)
    }

    /// Returns the setting's value in that output.
    pub fn value_in(&self, text: &str) -> Option<String> {
        let range = self.place(text)?;
        Some(text[range].to_owned()).filter(|value| self.takes(value))
    }

    /// Returns the output with another value of the setting.
    pub fn changed(&self, text: &str, value: &str) -> Option<String> {
        let range = self.place(text)?;
        let mut text = text.to_owned();
        text.replace_range(range, value);
        Some(text)
    }

    /// Returns the position of the setting's value in an output.
    fn place(&self, text: &str) -> Option<std::ops::Range<usize>> {
        let from = if self.known.most.is_some() { text.find(CURRENT)? } else { 0 };
        let mut at = from;
        for line in text[from..].split_inclusive('\n') {
            if let Some(rest) = line.strip_prefix(self.known.name).and_then(|rest| rest.strip_prefix(':')) {
                let value = rest.trim_start_matches([' ', '\t']);
                let start = at + line.len() - value.len();
                let length = value.find(char::is_whitespace).unwrap_or(value.len());
                return Some(start..start + length);
            }
            at += line.len();
        }
        None
    }

    /// Returns whether the setting can have this value.
    pub fn takes(&self, value: &str) -> bool {
        if self.known.is_switch { matches!(value, "on" | "off") } else { value.parse::<u32>().is_ok() }
    }

    /// Writes the setting on this machine.
    ///
    /// # Errors
    /// A message, if the value is invalid or the kernel returns an error.
    pub fn write(&self, value: &str) -> Result<(), String> {
        let kind = KINDS.iter().find(|kind| kind.option == self.known.option).expect("every setting is of a kind");
        let payload = match self.known.is_switch {
            true => vec![u8::from(value == "on")],
            false => value.parse::<u32>().map_err(|error| error.to_string())?.to_ne_bytes().to_vec(),
        };
        let mut family =
            Family::open("ethtool").map_err(|error| format!("this kernel cannot set it by netlink: {error}"))?;
        let asked = [head(self.nic), attribute(self.known.now, &payload)].concat();
        family.execute(kind.set, &asked).map_err(|error| match error.kind() {
            ErrorKind::Unsupported => "the interface's driver does not support setting it".to_owned(),
            _ => error.to_string(),
        })
    }

    /// Returns ethtool's arguments that write the setting: `-L eth0 combined 4`.
    pub fn command(&self, value: &str) -> String {
        let option = self.known.option.to_ascii_uppercase();
        format!("-{option} {} {} {value}", crate::shell::quoted(self.nic), self.known.word)
    }

    /// Returns the `sed` script that writes the setting into ethtool's output as stored in a tree.
    pub fn script(&self, value: &str) -> String {
        let from = if self.known.most.is_some() { format!("/^{CURRENT}/,$ ") } else { String::new() };
        format!("{from}s/^\\({}:[ \\t]*\\)[^ \\t]*/\\1{value}/", self.known.name)
    }
}

/// Returns ethtool's output about an interface.
fn run_program(nic: &str, option: &str) -> Result<String, Unread> {
    let command = || format!("ethtool -{option} {nic}");
    let Some(program) = PROGRAMS.into_iter().find(|path| Path::new(path).exists()) else {
        return Err(Unread::Refused(command(), "the program is not installed".to_owned()));
    };
    let refused = |why: String| Unread::Refused(command(), why);
    // The kernel allows interface names that begin with `-`, which the program would interpret as options.
    if nic.starts_with('-') {
        return Err(refused("the interface's name begins with a dash, like an option".to_owned()));
    }
    let output = Command::new(program).arg(format!("-{option}")).arg(nic).env("LC_ALL", "C").output();
    let output = output.map_err(|error| refused(error.to_string()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(refused(why.lines().next_back().unwrap_or("it failed").trim().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|_| Unread::Garbage(command(), "text"))
}

/// Returns the number after `name` at the start of a line, as in `Combined: 8`; `None` for `n/a`.
pub(crate) fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// Splits the text into the part with the maximums and the part with the current settings.
pub(crate) fn parts(text: &str) -> Option<(&str, &str)> {
    text.split_once(CURRENT)
}

/// Returns the number of queue pairs, or of receive queues if the interface has no combined queues.
fn channels(part: &str) -> Option<usize> {
    let combined = number(part, "Combined").filter(|count| *count > 0);
    combined.or_else(|| number(part, "RX")).map(|count| count as usize)
}

/// Returns the maximum number of channels.
pub(crate) fn channels_max(text: &str) -> Option<usize> {
    channels(parts(text)?.0)
}

/// Returns the current number of channels.
pub(crate) fn channels_now(text: &str) -> Option<usize> {
    channels(parts(text)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: &str = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\n\
                            Combined:\t16\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t8\n";

    #[test]
    fn channel_maximum_is_distinguished_from_the_current_setting() {
        assert_eq!((channels_max(CHANNELS), channels_now(CHANNELS)), (Some(16), Some(8)));
        let apart = CHANNELS.replace("RX:\t\tn/a", "RX:\t\t4").replace("Combined:\t16", "Combined:\tn/a");
        assert_eq!(channels_max(&apart), Some(4));
        assert_eq!((number("rx-usecs: 12\n", "rx-usecs"), number("rx-usecs-low: 3", "rx-usecs")), (Some(12), None));
        assert_eq!(channels_max("no such thing"), None);
    }

    #[test]
    fn netlink_reply_is_printed_in_ethtool_format() {
        let number = |kind, value: u32| attribute(kind, &value.to_ne_bytes());
        let reply = [number(2, 4096), number(5, 4096), number(6, 256), number(9, 512)].concat();
        let text = printed("eth0", &KINDS[0], &reply);
        let (most, now) = parts(&text).unwrap();
        assert_eq!(
            (super::number(most, "RX"), super::number(now, "RX"), super::number(now, "TX")),
            (Some(4096), Some(256), Some(512))
        );
        assert!(text.starts_with("Ring parameters for eth0:\nPre-set maximums:\n") && now.contains("RX Mini:\tn/a"));
        let reply = [number(2, 8), attribute(11, &[1])].concat();
        let text = printed("eth0", &KINDS[2], &reply);
        assert!(text.contains("\nAdaptive RX:\ton\n") && text.contains("\nrx-usecs:\t8\n"), "{text}");
    }

    #[test]
    fn ethtool_setting_is_read_and_changed_in_the_current_section_only() {
        let text = "Pre-set maximums:\nRX:\t\t4096\nCurrent hardware settings:\nRX:\t\t256\nTX: n/a\n";
        let rx = Tunable::of("/ethtool/eth0/g/RX").unwrap();
        assert_eq!(rx.value_in(text).as_deref(), Some("256"));
        assert_eq!(rx.changed(text, "512").unwrap(), text.replace("\t256", "\t512"));
        assert_eq!(Tunable::of("/ethtool/eth0/g/TX").unwrap().value_in(text), None);
        let text = "Adaptive RX: on  TX: off\nrx-usecs: 3\n";
        let adaptive = Tunable::of("/ethtool/eth0/c/Adaptive RX").unwrap();
        assert_eq!(adaptive.value_in(text).as_deref(), Some("on"));
        assert_eq!(adaptive.changed(text, "off").unwrap(), "Adaptive RX: off  TX: off\nrx-usecs: 3\n");
        assert!(rx.takes("5") && !rx.takes("5;reboot") && !adaptive.takes("1"));
        assert_eq!(
            (rx.command("5"), adaptive.command("off")),
            ("-G eth0 rx 5".into(), "-C eth0 adaptive-rx off".into())
        );
        for wrong in ["/ethtool/eth0/g/None", "/ethtool/../g/RX", "/ethtool/-x/g/RX", "/ethtool/eth0/S/RX", "/sys/a"] {
            assert!(Tunable::of(wrong).is_none(), "{wrong}");
        }
    }
}
