//! What other tools' flags say of TLS.

use std::path::PathBuf;

use super::flags::Flags;
use link::tls::{TlsSettings, Versions};

/// memtier_benchmark's: nothing is secured without `--tls`.
pub fn of_memtier(flags: &mut Flags, notes: &mut Vec<String>) -> Option<TlsSettings> {
    const REST: [&str; 6] = ["--cert", "--key", "--cacert", "--tls-skip-verify", "--tls-protocols", "--sni"];
    if !flags.has("--tls") {
        for name in REST {
            if flags.has(name) {
                flags.fault(name, "nothing is secured without --tls", "give --tls too, or leave it away");
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
        notes.push("--tls: the server has to prove its name too; give it by --sni if it is not the host's".to_owned());
    }
    Some(settings)
}

/// asbench's and those of the Java client's benchmark.
pub fn of_aerospike(flags: &mut Flags, name: Option<String>, notes: &mut Vec<String>) -> Option<TlsSettings> {
    const REFUSED: [(&str, &str, &str); 8] = [
        ("--tls-capath", "a folder of CAs is not read", "put them into one file, and give --tls-cafile"),
        ("--tls-keyfile-password", "a locked key is not read", "write it open: openssl pkey -in KEY -out OPEN.key"),
        ("--tls-crl-check", "lists of revoked certificates are not read", "leave it away"),
        ("--tls-crl-check-all", "lists of revoked certificates are not read", "leave it away"),
        ("--tls-cert-blacklist", "lists of revoked certificates are not read", "leave it away"),
        ("-tr", "lists of revoked certificates are not read", "leave it away"),
        ("--tls-login-only", "RESP logs in on the connection that it uses", "leave it away"),
        ("-tlsLoginOnly", "RESP logs in on the connection that it uses", "leave it away"),
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
            notes.push(format!("{flag} changes nothing: the server chooses of all ciphers that are held to be safe"));
        }
    }
    if flags.has("--tls-log-session-info") {
        notes.push("--tls-log-session-info changes nothing: results name version and cipher always".to_owned());
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

/// Of a server that is not verified no CA is wanted.
fn unverified(settings: &mut TlsSettings, flag: &str, notes: &mut Vec<String>) {
    if settings.insecure && settings.ca.take().is_some() {
        notes.push(format!("{flag} changes nothing: any certificate is taken"));
    }
}

/// Versions as OpenSSL and the JVM name them: `TLSv1.2,TLSv1.3`, `-all +TLSv1.2`. Older ones are not spoken.
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
            flags.fault(name, format!("'{text}' names no version that is spoken here"), "write TLSv1.2 or TLSv1.3");
            return Versions::Both;
        }
    };
    if older {
        notes.push(format!("{name}: versions before 1.2 are not spoken, and left out"));
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
        assert!(notes.iter().any(|note| note.starts_with("--cacert changes nothing")), "{notes:?}");
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
    fn what_has_no_equal_is_refused_with_its_remedy() {
        for (text, part) in [
            ("--cert c", "--cert: nothing is secured without --tls; give --tls too"),
            ("--tls --tls-protocols sslv3", "--tls-protocols: 'sslv3' names no version that is spoken here; write"),
            ("--tls --key k", "--key: there is a key, and no certificate"),
        ] {
            let faults = memtier::read(&words(text)).unwrap_err();
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(part)), "{text}: {faults:?}");
        }
        for (text, part) in [
            ("--tls-enable --tls-capath d", "--tls-capath: a folder of CAs is not read; put them into one file"),
            ("--tls-enable --tls-crl-check", "--tls-crl-check: lists of revoked certificates are not read"),
            ("-tls -tlsLoginOnly", "-tlsLoginOnly: RESP logs in on the connection that it uses"),
            ("-h a:x:1,b:y:2 -tls", "-h: hosts with several TLS names"),
        ] {
            let faults = Aerospike::read(&words(text), None, 8).unwrap_err();
            assert!(faults.iter().any(|fault| fault.to_string().starts_with(part)), "{text}: {faults:?}");
        }
    }
}
