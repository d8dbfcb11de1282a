//! Tests of the TLS settings, of their files, and of the names and texts of failures.

use super::*;
use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use std::path::PathBuf;

/// A folder that is deleted when the test ends.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("gannet-tls-{name}-{}", std::process::id()));
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    fn file(&self, name: &str, text: &str) -> PathBuf {
        let path = self.0.join(name);
        std::fs::write(&path, text).unwrap();
        path
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Creates a CA and a certificate that the CA signs. Returns the PEM texts of the CA's certificate, the signed
/// certificate and its key.
fn made() -> [String; 3] {
    let mut params = CertificateParams::new(Vec::new()).unwrap();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let ca = CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec!["client".to_owned()]).unwrap().signed_by(&key, &ca).unwrap();
    [ca.pem(), certificate.pem(), key.serialize_pem()]
}

fn told(settings: &TlsSettings) -> String {
    match TlsClient::new(settings) {
        Ok(_) => String::new(),
        Err(faults) => faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n"),
    }
}

#[test]
fn each_unusable_tls_file_is_named_with_remedy() {
    let folder = Folder::new("files");
    let [ca, certificate, key] = made();
    let bundle = folder.file("bundle.pem", &format!("{certificate}{key}"));
    let (ca, certificate) = (folder.file("ca.pem", &ca), folder.file("c.pem", &certificate));
    let key = folder.file("c.key", &key);
    let other = folder.file("other.key", &KeyPair::generate().unwrap().serialize_pem());
    let text = folder.file("text", "hello\n");
    let locked = "-----BEGIN ENCRYPTED PRIVATE KEY-----\nAAAA\n-----END ENCRYPTED PRIVATE KEY-----\n";
    let locked = folder.file("locked.key", locked);
    let good = TlsSettings {
        ca: Some(ca),
        certificate: Some(certificate.clone()),
        key: Some(key.clone()),
        ..TlsSettings::default()
    };
    assert_eq!(told(&good), "");
    let client = TlsClient::new(&good).unwrap();
    let again: TlsClient = serde_json::from_str(&serde_json::to_string(&client).unwrap()).unwrap();
    assert_eq!(again, client, "another host creates an equal client from the same files");
    assert_eq!(told(&TlsSettings { certificate: Some(bundle), key: None, ..good.clone() }), "", "the key beside it");
    let away = Some(folder.0.join("away.pem"));
    for (settings, parts) in [
        (TlsSettings { ca: away, ..good.clone() }, ["tls.ca: '", "cannot open the file"]),
        (
            TlsSettings { ca: Some(text.clone()), ..good.clone() },
            ["contains no certificate in PEM form; convert it to PEM", "ca"],
        ),
        (TlsSettings { ca: Some(key), ..good.clone() }, ["contains no certificate in PEM form", "tls.ca"]),
        (TlsSettings { key: None, ..good.clone() }, ["contains no private key in PEM form", "--tls-key client.key"]),
        (TlsSettings { key: Some(text), ..good.clone() }, ["contains no private key in PEM form", "tls.key"]),
        (
            TlsSettings { key: Some(locked), ..good.clone() },
            ["is protected by a passphrase; remove the passphrase", "openssl pkey"],
        ),
        (
            TlsSettings { key: Some(other), ..good.clone() },
            ["cannot use the certificate", "pass the key that belongs to"],
        ),
        (TlsSettings { certificate: None, ..good.clone() }, ["no certificate", "tls.key"]),
        (TlsSettings { insecure: true, ..good.clone() }, ["the CA has no effect", "tls.insecure"]),
        (TlsSettings { server_name: Some("a b".into()), ..good }, ["'a b' is not a valid server name", "server_name"]),
    ] {
        let told = told(&settings);
        assert!(parts.iter().all(|part| told.contains(part)), "{parts:?}: {told}");
    }
}

#[test]
fn tls_server_name_defaults_to_target_host() {
    let client = |settings: &TlsSettings| TlsClient::new(settings).unwrap();
    let insecure = TlsSettings { insecure: true, ..TlsSettings::default() };
    let name = |settings: &TlsSettings, target: &str| {
        let name = client(settings).server_name(&target.parse().unwrap());
        name.map(|name| name.map(|name| name.to_str().into_owned()))
    };
    assert_eq!(name(&insecure, "cache.example:6380"), Ok(Some("cache.example".to_owned())));
    assert_eq!(name(&insecure, "[::1]:6380"), Ok(Some("::1".to_owned())));
    assert_eq!(name(&insecure, "unix:/run/x"), Ok(None));
    let named = TlsSettings { server_name: Some("other.example".to_owned()), ..insecure.clone() };
    assert_eq!(name(&named, "127.0.0.1:1"), Ok(Some("other.example".to_owned())));
    assert!(name(&insecure, "a b:1").unwrap_err().contains("--tls-server-name"));
}

#[test]
fn each_tls_failure_has_its_own_name_and_remedy() {
    use rustls::{AlertDescription as Alert, CertificateError as Bad, Error};
    let plain = TlsSettings::default();
    let own = TlsSettings { certificate: Some("mine.pem".into()), ca: Some("ca.pem".into()), ..TlsSettings::default() };
    let at = |seconds| UnixTime::since_unix_epoch(std::time::Duration::from_secs(seconds));
    let expired = Bad::ExpiredContext { time: at(86_400 * 10), not_after: at(86_400 * 3) };
    let early = Bad::NotValidYetContext { time: at(0), not_before: at(86_400 * 3) };
    for (error, settings, name, part) in [
        (Error::InvalidCertificate(expired), &plain, "tls-certificate-expired", "expired 7 days ago; renew it there"),
        (Error::InvalidCertificate(early), &plain, "tls-certificate-early", "only in 3 days; set this host's clock"),
        (Error::InvalidCertificate(Bad::UnknownIssuer), &plain, "tls-unknown-ca", "none of this system's CAs"),
        (Error::InvalidCertificate(Bad::UnknownIssuer), &own, "tls-unknown-ca", "no CA in ca.pem has signed"),
        (Error::InvalidCertificate(Bad::BadSignature), &own, "tls-unknown-ca", "no CA in ca.pem has signed"),
        (
            Error::AlertReceived(Alert::CertificateRequired),
            &plain,
            "tls-certificate-wanted",
            "--tls-cert and --tls-key",
        ),
        (Error::AlertReceived(Alert::UnknownCA), &own, "tls-certificate-refused", "the certificate in mine.pem"),
        (Error::AlertReceived(Alert::ProtocolVersion), &plain, "tls-version", "does not support TLS 1.2,1.3"),
        (Error::AlertReceived(Alert::InternalError), &plain, "tls-refused", "see its log"),
    ] {
        let failure = Failure::of(&error, settings);
        assert_eq!(failure.name, name, "{error}");
        assert!(failure.what.contains(part), "{part}: {}", failure.what);
        let wrapped = std::io::Error::from(failure.clone());
        assert_eq!((Failure::in_error(&wrapped), wrapped.to_string()), (Some(&failure), failure.what.clone()));
    }
    let other = Failure::not_spoken(b"ERROR\r\n").what;
    assert!(other.contains("\"ERROR\\r\\n\"") && other.contains("this port does not use TLS"), "{other}");
}
