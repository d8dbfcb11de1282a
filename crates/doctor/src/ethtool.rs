//! What `ethtool` tells of a network interface: rings, coalescing, channels, counters.
//!
//! The kernel tells it by a socket's control calls; the program `ethtool` prints it, and so does a captured tree, which
//! has the same text in `DIR/ethtool/IFACE/g` and so on, a letter as the program's option.

use std::path::Path;
use std::process::Command;

use crate::host::Unread;

/// Where the program is. It is looked for nowhere else: `PATH` may be anybody's.
const PROGRAMS: [&str; 3] = ["/usr/sbin/ethtool", "/sbin/ethtool", "/usr/bin/ethtool"];

/// What the program prints of an interface: `g` rings, `c` coalescing, `l` channels, `S` counters.
///
/// # Errors
/// [`Unread`]: it is not installed, or the interface has nothing of the kind.
pub(crate) fn ask(nic: &str, option: &str) -> Result<String, Unread> {
    let told = || format!("ethtool -{option} {nic}");
    let Some(program) = PROGRAMS.into_iter().find(|path| Path::new(path).exists()) else {
        return Err(Unread::Refused(told(), "the program is not installed".to_owned()));
    };
    let refused = |why: String| Unread::Refused(told(), why);
    // The kernel allows interfaces of such names, and the program would take them for options.
    if nic.starts_with('-') {
        return Err(refused("the interface's name begins as an option does".to_owned()));
    }
    let output = Command::new(program).arg(format!("-{option}")).arg(nic).env("LC_ALL", "C").output();
    let output = output.map_err(|error| refused(error.to_string()))?;
    if !output.status.success() {
        let why = String::from_utf8_lossy(&output.stderr);
        return Err(refused(why.lines().next_back().unwrap_or("it failed").trim().to_owned()));
    }
    String::from_utf8(output.stdout).map_err(|_| Unread::Garbage(told(), "text"))
}

/// A number by its name, which begins a line: `Combined: 8`. `n/a` is none.
pub(crate) fn number(text: &str, name: &str) -> Option<u64> {
    text.lines().find_map(|line| line.trim().strip_prefix(name)?.strip_prefix(':')?.trim().parse().ok())
}

/// The part of the maximums, and that of the current settings.
pub(crate) fn parts(text: &str) -> Option<(&str, &str)> {
    text.split_once("Current hardware settings:")
}

/// Queue pairs, or receive queues where they are apart.
fn channels(part: &str) -> Option<usize> {
    let combined = number(part, "Combined").filter(|count| *count > 0);
    combined.or_else(|| number(part, "RX")).map(|count| count as usize)
}

/// How many channels there may be.
pub(crate) fn channels_max(text: &str) -> Option<usize> {
    channels(parts(text)?.0)
}

/// How many there are.
pub(crate) fn channels_now(text: &str) -> Option<usize> {
    channels(parts(text)?.1)
}

#[cfg(test)]
mod tests {
    use super::*;

    const CHANNELS: &str = "Channel parameters for eth0:\nPre-set maximums:\nRX:\t\tn/a\nTX:\t\tn/a\nOther:\t\tn/a\n\
                            Combined:\t16\nCurrent hardware settings:\nRX:\t\tn/a\nTX:\t\tn/a\nCombined:\t8\n";

    #[test]
    fn a_maximum_is_not_taken_for_what_is_set() {
        assert_eq!((channels_max(CHANNELS), channels_now(CHANNELS)), (Some(16), Some(8)));
        let apart = CHANNELS.replace("RX:\t\tn/a", "RX:\t\t4").replace("Combined:\t16", "Combined:\tn/a");
        assert_eq!(channels_max(&apart), Some(4));
        assert_eq!((number("rx-usecs: 12\n", "rx-usecs"), number("rx-usecs-low: 3", "rx-usecs")), (Some(12), None));
        assert_eq!(channels_max("no such thing"), None);
    }
}
