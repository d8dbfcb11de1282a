//! Certificates of the process.

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};
use x509_parser::pem::Pem;

pub(super) const CHECKS: &[Check] = &[Check {
    id: "tls.expiry",
    reads: "/proc/PID/cmdline, the configuration file that it names, and the certificates that these name",
    mechanism: "After a certificate has expired, clients refuse the server. All of them connect again and again, and \
                each attempt costs a handshake.",
    remedy: "issue the certificate again and replace its files; Gannet uses them within a second",
    expect: "clients go on without an interruption; no change in latency",
    needs: Needs::Nothing,
    undo: "none is needed",
    source: "RFC 5280, section 4.1.2.5",
    probe: expiry,
}];

/// The number of days before the end of a certificate from which it is reported, and from which it is urgent.
const DAYS_WARN: i64 = 30;
const DAYS_BAD: i64 = 7;

/// Arguments, and words of configuration files of Redis and Valkey, that name a certificate.
const ARGUMENTS: [&str; 2] = ["--tls-cert", "--tls-cert-file"];
const DIRECTIVE: &str = "tls-cert-file";
/// The part of memcached's option `-o` that names a certificate.
const MEMCACHED: &str = "ssl_chain_cert=";

/// Returns the paths of the certificates in a command line, and those of the configuration files in it.
fn named(arguments: &[&str]) -> (Vec<String>, Vec<String>) {
    let (mut certificates, mut files) = (Vec::new(), Vec::new());
    let mut rest = arguments.iter();
    while let Some(argument) = rest.next() {
        if ARGUMENTS.contains(argument) {
            certificates.extend(rest.next().map(|path| (*path).to_owned()));
        } else if let Some(path) = ARGUMENTS.iter().find_map(|name| argument.strip_prefix(name)?.strip_prefix('=')) {
            certificates.push(path.to_owned());
        } else if argument.contains(MEMCACHED) {
            certificates.extend(argument.split(',').filter_map(|part| Some(part.split_once(MEMCACHED)?.1.to_owned())));
        } else if argument.ends_with(".toml") || argument.ends_with(".conf") {
            files.push((*argument).to_owned());
        }
    }
    (certificates, files)
}

/// Returns the paths of the certificates in a configuration file: of Gannet, or of Redis and Valkey.
fn named_in(path: &str, text: &str) -> Result<Vec<String>, Unread> {
    if path.ends_with(".conf") {
        let lines = text.lines().filter_map(|line| line.trim().strip_prefix(DIRECTIVE)?.split_whitespace().next());
        return Ok(lines.map(|word| word.trim_matches('"').to_owned()).collect());
    }
    let table: toml::Table = text.parse().map_err(|_| Unread::Garbage(path.to_owned(), "settings in TOML"))?;
    let cert = table.get("tls").and_then(|tls| tls.get("cert"));
    let list = match cert {
        Some(toml::Value::Array(list)) => list.clone(),
        Some(one) => vec![one.clone()],
        None => Vec::new(),
    };
    Ok(list.iter().filter_map(|path| path.as_str().map(str::to_owned)).collect())
}

/// Returns the number of whole days until the first certificate in a file expires; negative after that.
fn days_left(path: &str, text: &str, now_secs: i64) -> Result<i64, Unread> {
    let garbage = || Unread::Garbage(path.to_owned(), "certificate in PEM form");
    let ends = Pem::iter_from_buffer(text.as_bytes()).filter_map(Result::ok).filter_map(|pem| {
        let certificate = pem.parse_x509().ok()?;
        Some(certificate.validity().not_after.timestamp())
    });
    let end = ends.min().ok_or_else(garbage)?;
    Ok((end - now_secs).div_euclid(24 * 60 * 60))
}

fn expiry(host: &Host) -> Probed {
    let line = host.read(&host.process("cmdline")?)?;
    let arguments: Vec<&str> = line.split('\0').filter(|argument| !argument.is_empty()).collect();
    let (mut paths, files) = named(&arguments);
    for file in files {
        paths.extend(named_in(&file, &host.read(&absolute(file.clone())?)?)?);
    }
    let now_secs = std::time::SystemTime::UNIX_EPOCH.elapsed().map_or(0, |since| since.as_secs() as i64);
    let mut soonest: Option<(i64, String)> = None;
    for path in paths {
        let path = absolute(path)?;
        let left = days_left(&path, &host.read(&path)?, now_secs)?;
        soonest = soonest.filter(|(days, _)| *days <= left).or(Some((left, path)));
    }
    let Some((days, path)) = soonest else { return Err(Unread::Beside("the process is given no certificate")) };
    let value = match days {
        ..0 => format!("{path} expired {} days ago", -days),
        _ => format!("{path} expires in {days} days"),
    };
    Ok(if days < DAYS_BAD { ProbeResult::bad(value) } else { ProbeResult::warn_if(days < DAYS_WARN, value) })
}

/// Returns the path if it is absolute. Others are below the folder of the process, which only it knows for sure.
fn absolute(path: String) -> Result<String, Unread> {
    if path.starts_with('/') {
        return Ok(path);
    }
    Err(Unread::Refused(path, "its path is relative to the folder of the process".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn certificates_are_found_in_arguments_and_files_of_all_servers() {
        let found = |line: &str| named(&line.split(' ').collect::<Vec<_>>());
        let one = |path: &str| vec![path.to_owned()];
        assert_eq!(found("gannet serve --tls-cert /a --tls-key /k"), (one("/a"), vec![]));
        assert_eq!(found("gannet serve --tls-cert=/a /etc/g.toml"), (one("/a"), one("/etc/g.toml")));
        assert_eq!(found("redis-server /etc/r.conf --tls-cert-file /a"), (one("/a"), one("/etc/r.conf")));
        assert_eq!(found("memcached -Z -o ssl_key=/k,ssl_chain_cert=/a"), (one("/a"), vec![]));
        assert_eq!(found("gannet serve --tls-cert"), (vec![], vec![]));
        let files =
            [("g.toml", "[tls]\ncert = [\"/a\"]"), ("g.toml", "[tls]\ncert = \"/a\""), ("r.conf", "tls-cert-file /a")];
        for (path, text) in files {
            assert_eq!(named_in(path, text), Ok(one("/a")), "{text}");
        }
        assert_eq!(named_in("g.toml", "[store]\n"), Ok(vec![]));
        assert!(named_in("g.toml", "not toml").is_err());
    }
}
