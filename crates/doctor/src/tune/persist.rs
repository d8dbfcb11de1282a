//! Formats configuration files that set the applied settings again at each boot. The doctor never installs them, and
//! never changes the kernel's command line.

use std::fmt::Write as _;

use super::Setting;
use crate::ethtool::Tunable;
use crate::shell::quoted;

/// The kind of configuration file that repeats settings at boot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PersistForm {
    /// A file for `/etc/sysctl.d/`: only for settings below /proc/sys.
    Sysctl,
    /// A systemd unit that runs once at boot.
    Systemd,
    /// A profile of tuned.
    Tuned,
}

impl PersistForm {
    /// All variants, each with its name.
    pub const ALL: [(&'static str, Self); 3] =
        [("sysctl.d", Self::Sysctl), ("systemd", Self::Systemd), ("tuned", Self::Tuned)];
}

/// Returns the sysctl name of a setting below /proc/sys.
fn sysctl_name(path: &str) -> Option<String> {
    let rest = path.strip_prefix("/proc/sys/")?;
    // If a path component contains a dot, as interface names may, the name must be written with slashes.
    Some(if rest.contains('.') { rest.to_owned() } else { rest.replace('/', ".") })
}

/// Returns whether a text contains no line end, no quote and nothing that a shell expands.
fn is_plain(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_alphanumeric() || b" ,.+-_/@:".contains(&byte))
}

/// Returns the file's text. Its first line is a comment with the path at which to install it.
pub fn persist(settings: &[&Setting], kept: PersistForm) -> String {
    let (mut text, mut others) = (String::new(), String::new());
    let mut sysfs = String::new();
    text.push_str(match kept {
        PersistForm::Sysctl => "# /etc/sysctl.d/90-gannet.conf; then: sysctl --system\n",
        PersistForm::Systemd => {
            "# /etc/systemd/system/gannet-tune.service; then: systemctl enable gannet-tune\n[Unit]\n\
             Description=Settings of this host for gannet\nBefore=gannet.service\n\n[Service]\nType=oneshot\n\
             RemainAfterExit=yes\n"
        }
        PersistForm::Tuned => {
            "# /etc/tuned/gannet/tuned.conf; then: tuned-adm profile gannet\n[main]\nsummary=Settings of this host for \
             gannet\n"
        }
    });
    for setting in settings {
        let Setting { path, value } = setting;
        if !is_plain(path) || !is_plain(value) {
            let _ = writeln!(others, "# left out, because its value is not plain text: {}", path.escape_debug());
            continue;
        }
        let _ = match (kept, sysctl_name(path)) {
            (PersistForm::Sysctl, Some(name)) => writeln!(text, "{name} = {value}"),
            (PersistForm::Systemd, _) if Tunable::of(path).is_some_and(|tunable| tunable.takes(value)) => {
                let command = Tunable::of(path).map(|tunable| tunable.command(value)).unwrap_or_default();
                writeln!(text, "ExecStart=/usr/sbin/ethtool {command}")
            }
            (PersistForm::Systemd, _) => {
                let line = format!("printf '%%s\\n' {} > {}", quoted(value), quoted(path));
                writeln!(text, "ExecStart=/bin/sh -c \"{}\"", line.replace('\\', "\\\\"))
            }
            (PersistForm::Tuned, Some(name)) => writeln!(sysfs, "sysctl {name}={value}"),
            (PersistForm::Tuned, None) if path.starts_with("/sys/") => writeln!(sysfs, "sysfs {path}={value}"),
            (PersistForm::Sysctl | PersistForm::Tuned, None) => {
                writeln!(others, "# {path} = {value}: not possible in this file; see --as systemd")
            }
        };
    }
    if kept == PersistForm::Tuned {
        for (section, start) in [("sysctl", "sysctl "), ("sysfs", "sysfs ")] {
            let lines: Vec<&str> = sysfs.lines().filter_map(|line| line.strip_prefix(start)).collect();
            if !lines.is_empty() {
                let _ = writeln!(text, "\n[{section}]\n{}", lines.join("\n"));
            }
        }
    }
    text.push_str(&others);
    if kept == PersistForm::Systemd {
        text.push_str("\n[Install]\nWantedBy=multi-user.target\n");
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_with_control_characters_are_not_written_to_persisted_files() {
        let setting = |path: &str, value: &str| Setting { path: path.to_owned(), value: value.to_owned() };
        let plain = setting("/proc/sys/vm/swappiness", "1");
        let wild = setting("/sys/block/x\nExecStart=/bin/true/queue", "1");
        let huge = setting("/sys/kernel/mm/transparent_hugepage/enabled", "madvise");
        let irq = setting("/proc/irq/9/smp_affinity_list", "0-1");
        let ring = setting("/ethtool/eth0/g/RX", "512");
        let all = [&plain, &wild, &huge, &irq, &ring];
        let text = persist(&all, PersistForm::Sysctl);
        assert!(text.contains("\nvm.swappiness = 1\n") && text.contains("# /sys/kernel/mm/transparent"), "{text}");
        let text = persist(&all, PersistForm::Systemd);
        assert_eq!(text.lines().filter(|line| line.starts_with("ExecStart=")).count(), 4, "{text}");
        assert!(text.contains("\nExecStart=/usr/sbin/ethtool -G eth0 rx 512\n"), "{text}");
        assert!(text.contains("printf '%%s\\\\n' madvise > /sys/kernel/mm"), "{text}");
        let text = persist(&all, PersistForm::Tuned);
        assert!(text.contains("[sysctl]\nvm.swappiness=1\n") && text.contains("[sysfs]\n/sys/kernel/mm"), "{text}");
        assert_eq!(sysctl_name("/proc/sys/net/ipv4/conf/eth0.1/rp_filter").unwrap(), "net/ipv4/conf/eth0.1/rp_filter");
    }
}
