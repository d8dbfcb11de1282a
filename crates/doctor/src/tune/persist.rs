//! What was applied, as files that set it again when the host starts. They are printed, never installed; the boot
//! loader's line is nobody's but the administrator's.

use std::fmt::Write as _;

use super::Setting;
use crate::ethtool::Tunable;
use crate::shell::quoted;

/// What keeps settings over a start of the host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kept {
    /// A file for `/etc/sysctl.d/`: of settings below /proc/sys alone.
    Sysctl,
    /// A unit that runs once.
    Systemd,
    /// A profile of tuned.
    Tuned,
}

impl Kept {
    /// Every one, with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("sysctl.d", Self::Sysctl), ("systemd", Self::Systemd), ("tuned", Self::Tuned)];
}

/// The name of a setting below /proc/sys, as sysctl has it.
fn sysctl_name(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/proc/sys/")?;
    // A part with a dot in it, as of an interface, makes the other spelling necessary.
    Some(if rest.contains('.') { rest.to_owned() } else { rest.replace('/', ".") })
}

/// A value of which no line, no quote and no expansion can come.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,.+-_/@:".contains(&byte))
}

/// The file, with where it belongs in its first line.
pub fn persist(settings: &[&Setting], kept: Kept) -> String {
    let (mut text, mut others) = (String::new(), String::new());
    let mut sysfs = String::new();
    text.push_str(match kept {
        Kept::Sysctl => "# /etc/sysctl.d/90-gannet.conf; then: sysctl --system\n",
        Kept::Systemd => {
            "# /etc/systemd/system/gannet-tune.service; then: systemctl enable gannet-tune\n[Unit]\n\
             Description=Settings of this host for gannet\nBefore=gannet.service\n\n[Service]\nType=oneshot\n\
             RemainAfterExit=yes\n"
        }
        Kept::Tuned => {
            "# /etc/tuned/gannet/tuned.conf; then: tuned-adm profile gannet\n[main]\nsummary=Settings of this host for \
             gannet\n"
        }
    });
    for setting in settings {
        let Setting { path, value } = setting;
        if !is_plain(path) || !is_plain(value) {
            let _ = writeln!(others, "# left out, since its value is no plain text: {}", path.escape_debug());
            continue;
        }
        let _ = match (kept, sysctl_name(path)) {
            (Kept::Sysctl, Some(name)) => writeln!(text, "{name} = {value}"),
            (Kept::Systemd, _) if Tunable::of(path).is_some_and(|tunable| tunable.takes(value)) => {
                let command = Tunable::of(path).map(|tunable| tunable.command(value)).unwrap_or_default();
                writeln!(text, "ExecStart=/usr/sbin/ethtool {command}")
            }
            (Kept::Systemd, _) => {
                let line = format!("printf '%%s\\n' {} > {}", quoted(value), quoted(path));
                writeln!(text, "ExecStart=/bin/sh -c \"{}\"", line.replace('\\', "\\\\"))
            }
            (Kept::Tuned, Some(name)) => writeln!(sysfs, "sysctl {name}={value}"),
            (Kept::Tuned, None) if path.starts_with("/sys/") => writeln!(sysfs, "sysfs {path}={value}"),
            (Kept::Sysctl | Kept::Tuned, None) => {
                writeln!(others, "# {path} = {value}: not by this file; see --as systemd")
            }
        };
    }
    if kept == Kept::Tuned {
        for (section, start) in [("sysctl", "sysctl "), ("sysfs", "sysfs ")] {
            let lines: Vec<&str> = sysfs.lines().filter_map(|line| line.strip_prefix(start)).collect();
            if !lines.is_empty() {
                let _ = writeln!(text, "\n[{section}]\n{}", lines.join("\n"));
            }
        }
    }
    text.push_str(&others);
    if kept == Kept::Systemd {
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_no_plain_text_stands_in_no_file() {
        let setting = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned() };
        let plain = setting("/proc/sys/vm/swappiness", "1");
        let wild = setting("/sys/block/x\nExecStart=/bin/true/queue", "1");
        let huge = setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
        let irq = setting("/proc/irq/9/smp_affinity_list", "0-1");
        let ring = setting("/ethtool/eth0/g/RX", "512");
        let all = [&plain, &wild, &huge, &irq, &ring];
        let text = persist(&all, Kept::Sysctl);
        assert!(text.contains("\nvm.swappiness = 1\n") && text.contains("# /sys/kernel/mm/transparent"), "{text}");
        let text = persist(&all, Kept::Systemd);
        assert_eq!(text.lines().filter(|line| line.starts_with("ExecStart=")).count(), 4, "{text}");
        assert!(text.contains("\nExecStart=/usr/sbin/ethtool -G eth0 rx 512\n"), "{text}");
        assert!(text.contains("printf '%%s\\\\n' madvise > /sys/kernel/mm"), "{text}");
        let text = persist(&all, Kept::Tuned);
        assert!(text.contains("[sysctl]\nvm.swappiness=1\n") && text.contains("[sysfs]\n/sys/kernel/mm"), "{text}");
        assert_eq!(sysctl_name("/proc/sys/net/ipv4/conf/eth0.1/rp_filter").unwrap(), "net/ipv4/conf/eth0.1/rp_filter");
    }
}
