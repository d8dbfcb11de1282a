//! The TLS flags of other tools.

use std::path::PathBuf;

use super::flags::Flags;
use link::tls::{TlsSettings, Versions};

/// Reads memtier_benchmark's flags; without `--tls`, connections are not encrypted.
pub fn of_memtier(flags: &mut Flags, notes: &mut Vec<String>) -> Option<TlsSettings> {
    const REST: [&str; 6] = ["--cert", "--key", "--cacert", "--tls-skip-verify", "--tls-protocols", "--sni"];
    if !flags.has("--tls") {
        for name in REST {
            if flags.has(name) {
                flags.fault(name, "connections are encrypted only with --tls", "pass --tls too, or remove this flag");
            }
        }
        return None;
    }
    let mut settings = TlsSettings {
        ca: file(flags, "--cacert"),
        certificate: file(flags, "--cert"),
        key: file(flags, "--key"),
        server_name: flags.text("--sni").map(str::to_owned),
        insecure: flags.has("--tls-skip-verify"),
        versions: versions(flags, "--tls-protocols", notes),
        ..TlsSettings::default()
    };
    unverified(&mut settings, "--cacert", notes);
    if !settings.insecure && settings.server_name.is_none() {
        notes.push("--tls: the server's name is verified; pass --sni if it differs from the host name".to_owned());
    }
    Some(settings)
}

/// Reads the flags of asbench and of the Java client's benchmark.
pub fn of_aerospike(flags: &mut Flags, name: Option<String>, notes: &mut Vec<String>) -> Option<TlsSettings> {
    const REFUSED: [(&str, &str, &str); 8] = [
        ("--tls-capath", "a directory of CAs is not supported", "put the CAs into one file and pass --tls-cafile"),
        (
            "--tls-keyfile-password",
            "an encrypted key is not supported",
            "decrypt it: openssl pkey -in KEY -out OPEN.key",
        ),
        ("--tls-crl-check", "certificate revocation lists are not supported", "remove the flag"),
        ("--tls-crl-check-all", "certificate revocation lists are not supported", "remove the flag"),
        ("--tls-cert-blacklist", "certificate revocation lists are not supported", "remove the flag"),
        ("-tr", "certificate revocation lists are not supported", "remove the flag"),
        ("--tls-login-only", "RESP authenticates on the same connection", "remove the flag"),
        ("-tlsLoginOnly", "RESP authenticates on the same connection", "remove the flag"),
    ];
    for (flag, what, remedy) in REFUSED {
        if flags.has(flag) {
            flags.fault(flag, what, remedy);
        }
    }
    if !flags.has("-tls") && !flags.has("-te") {
        return None;
    }
    for flag in ["-tlsCiphers", "--tls-cipher-suite"] {
        if flags.has(flag) {
            notes.push(format!("{flag} has no effect: the server chooses among all ciphers that are considered safe"));
        }
    }
    if flags.has("--tls-log-session-info") {
        notes.push("--tls-log-session-info has no effect: results always include version and cipher".to_owned());
    }
    let flag = if flags.has("-tp") { "-tp" } else { "--tls-protocols" };
    let mut settings = TlsSettings {
        ca: file(flags, "--tls-cafile"),
        certificate: file(flags, "--tls-certfile"),
        key: file(flags, "--tls-keyfile"),
        server_name: flags.text("--tls-name").map(str::to_owned).or(name),
        insecure: flags.has("-te"),
        versions: versions(flags, flag, notes),
        ..TlsSettings::default()
    };
    unverified(&mut settings, "--tls-cafile", notes);
    Some(settings)
}

fn file(flags: &Flags, name: &str) -> Option<PathBuf> {
    flags.text(name).map(PathBuf::from)
}

/// Disables the verification of the server; no CA is needed then.
fn unverified(settings: &mut TlsSettings, flag: &str, notes: &mut Vec<String>) {
    if settings.insecure && settings.ca.take().is_some() {
        notes.push(format!("{flag} has no effect: any certificate is accepted"));
    }
}

/// Parses versions as OpenSSL and the JVM write them: `TLSv1.2,TLSv1.3`, `-all +TLSv1.2`. Older versions are not
/// supported.
fn versions(flags: &mut Flags, name: &str, notes: &mut Vec<String>) -> Versions {
    let Some(text) = flags.text(name).map(str::to_owned) else { return Versions::Both };
    let words = text.split([',', ' ']).map(|word| word.trim_start_matches('+').to_ascii_lowercase());
    let words: Vec<String> = words.filter(|word| !word.is_empty() && !word.starts_with('-')).collect();
    let spoken = |version: &str| words.iter().any(|word| word == "all" || word.strip_prefix("tlsv") == Some(version));
    let older = words.iter().any(|word| ["sslv2", "sslv3", "tlsv1", "tlsv1.0", "tlsv1.1"].contains(&word.as_str()));
    let versions = match (spoken("1.2"), spoken("1.3")) {
        (true, true) => Versions::Both,
        (true, false) => Versions::Tls12,
        (false, true) => Versions::Tls13,
        (false, false) => {
            flags.fault(name, format!("'{text}' contains no supported TLS version"), "write TLSv1.2 or TLSv1.3");
            return Versions::Both;
        }
    };
    if older {
        notes.push(format!("{name}: versions before 1.2 are not supported and are ignored"));
    }
    versions
}

#[cfg(test)]
mod tests {
    use super::super::aerospike::Aerospike;
    use super::super::flags::words;
    use super::super::memtier;
    use super::*;

    fn of_memtier(text: &str) -> (Option<TlsSettings>, Vec<String>) {
        let mapped = memtier::read(&words(text)).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        (mapped.workload.tls, mapped.notes)
    }

    fn of_aerospike(text: &str) -> (Option<TlsSettings>, Vec<String>) {
        let read = Aerospike::read(&words(text), None, 8).unwrap_or_else(|faults| panic!("{text}: {faults:?}"));
        (read.mapped.workload.tls, read.mapped.notes)
    }

    #[test]
    fn a_tools_flags_mean_the_same_files_names_and_versions() {
        assert_eq!(of_memtier("-p 6379").0, None);
        let (tls, notes) = of_memtier("--tls --cert c --key k --cacert a --sni s --tls-protocols tlsv1.1,tlsv1.3");
        let expected = TlsSettings {
            ca: Some("a".into()),
            certificate: Some("c".into()),
            key: Some("k".into()),
            server_name: Some("s".into()),
            versions: Versions::Tls13,
            ..TlsSettings::default()
        };
        assert_eq!(tls.as_ref(), Some(&expected));
        assert!(notes.iter().any(|note| note.contains("before 1.2")), "{notes:?}");
        let (tls, notes) = of_memtier("--tls --tls-skip-verify --cacert a");
        assert_eq!(tls, Some(TlsSettings { insecure: true, ..TlsSettings::default() }));
        assert!(notes.iter().any(|note| note.starts_with("--cacert has no effect")), "{notes:?}");
        let asbench =
            "--tls-enable --tls-cafile a --tls-certfile c --tls-keyfile k --tls-name s --tls-protocols=TLSv1.3";
        assert_eq!(of_aerospike(asbench).0, Some(expected));
        let java = of_aerospike("-h h1:cache.example:4333 -tls -tp TLSv1.2 -tlsCiphers X -w RU,50").0;
        let expected = TlsSettings {
            server_name: Some("cache.example".into()),
            versions: Versions::Tls12,
            ..TlsSettings::default()
        };
        assert_eq!(java, Some(expected));
        assert!(of_aerospike("-te -w RU,50").0.is_some_and(|tls| tls.insecure));
        let read = Aerospike::read(&words("-h h1:cache.example:4333 -tls"), None, 8).unwrap();
        assert_eq!(read.mapped.workload.targets[0].address, "h1:4333");
    }

    #[test]
    fn unsupported_or_invalid_flag_is_rejected_with_remedy() {
        for (text, part) in [
            ("--cert c", "--cert: connections are encrypted only with --tls; pass --tls too"),
            ("--tls --tls-protocols sslv3", "--tls-protocols: 'sslv3' contains no supported TLS version; write"),
            ("--tls --key k", "--key: there is a key, but no certificate"),
        ] {
            let faults = memtier::read(&words(text)).unwrap_err();
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(part)), "{text}: {faults:?}");
        }
        for (text, part) in [
            (
                "--tls-enable --tls-capath d",
                "--tls-capath: a directory of CAs is not supported; put the CAs into one file",
            ),
            ("--tls-enable --tls-crl-check", "--tls-crl-check: certificate revocation lists are not supported"),
            ("-tls -tlsLoginOnly", "-tlsLoginOnly: RESP authenticates on the same connection"),
            ("-h a:x:1,b:y:2 -tls", "-h: several hosts with TLS names"),
        ] {
            let faults = Aerospike::read(&words(text), None, 8).unwrap_err();
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(part)), "{text}: {faults:?}");
        }
    }
}
