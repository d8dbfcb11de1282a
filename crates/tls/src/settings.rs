//! The settings of a server's TLS, as users write them.

use std::fmt;
use std::path::{Path, PathBuf};

use rustls::crypto::ring::cipher_suite as suite;
use rustls::version::{TLS12, TLS13};
use rustls::{SupportedCipherSuite, SupportedProtocolVersion};

/// The files of one certificate.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFiles {
    /// A PEM file with the certificate and the chain to its CA.
    pub chain: PathBuf,
    /// A PEM file with the certificate's key.
    pub key: PathBuf,
}

/// The certificates that clients need.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ClientAuth {
    /// No certificate is requested.
    #[default]
    No,
    /// A certificate is requested. It is verified if the client has one.
    Optional,
    /// A connection without a valid certificate is refused.
    Required,
}

/// The part of a client's certificate that names its user.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum UserFrom {
    /// Certificates name no users.
    #[default]
    None,
    /// The common name of the subject.
    CommonName,
    /// A URI of the subject's alternative names. If there are several, the first that is the name of a user.
    SanUri,
}

/// The allowed versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Versions {
    /// TLS 1.2 and 1.3; the highest that the client supports is used.
    #[default]
    Both,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl Versions {
    pub(crate) fn protocols(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Both => vec![&TLS13, &TLS12],
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

/// The settings of a server's TLS.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsSettings {
    /// The certificates. A client that names no host, or an unknown one, gets the first that it supports.
    pub certificates: Vec<CertificateFiles>,
    /// A PEM file with the CAs of client certificates.
    pub client_ca: Option<PathBuf>,
    /// The certificates that clients need.
    pub client_auth: ClientAuth,
    /// The part of a client's certificate that names its user.
    pub user_from: UserFrom,
    /// The allowed versions.
    pub versions: Versions,
    /// The allowed cipher suites, best first. Empty: all that the library considers secure.
    pub ciphers: Vec<String>,
    /// True if a client can resume an earlier session, which costs a fraction of a full handshake.
    pub resumption: bool,
}

impl TlsSettings {
    /// Returns the paths of all files.
    pub fn paths(&self) -> impl Iterator<Item = &Path> {
        let pairs = self.certificates.iter().flat_map(|files| [&files.chain, &files.key]);
        pairs.chain(&self.client_ca).map(PathBuf::as_path)
    }

    /// Returns the error of the list of cipher suites, if it has one.
    pub fn cipher_fault(&self) -> Option<SettingError> {
        suites(&self.ciphers).err()
    }
}

/// A setting that cannot be used. Displayed as `tls.cert: description; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The key of the setting in its table.
    pub setting: &'static str,
    /// Description of the error.
    pub what: String,
    /// Remedy for the error.
    pub remedy: String,
}

impl SettingError {
    pub(crate) fn new(setting: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { setting, what: what.into(), remedy: remedy.into() }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "tls.{}: {}; {}", self.setting, self.what, self.remedy)
    }
}

impl std::error::Error for SettingError {}

/// Each supported cipher suite, with its name in RFCs and its name in OpenSSL.
const SUITES: [(&str, &str, SupportedCipherSuite); 9] = [
    ("TLS_AES_128_GCM_SHA256", "TLS_AES_128_GCM_SHA256", suite::TLS13_AES_128_GCM_SHA256),
    ("TLS_AES_256_GCM_SHA384", "TLS_AES_256_GCM_SHA384", suite::TLS13_AES_256_GCM_SHA384),
    ("TLS_CHACHA20_POLY1305_SHA256", "TLS_CHACHA20_POLY1305_SHA256", suite::TLS13_CHACHA20_POLY1305_SHA256),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-ECDSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_ECDSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-ECDSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_ECDSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-ECDSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_ECDSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256",
        "ECDHE-RSA-AES128-GCM-SHA256",
        suite::TLS_ECDHE_RSA_WITH_AES_128_GCM_SHA256,
    ),
    (
        "TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384",
        "ECDHE-RSA-AES256-GCM-SHA384",
        suite::TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384,
    ),
    (
        "TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256",
        "ECDHE-RSA-CHACHA20-POLY1305",
        suite::TLS_ECDHE_RSA_WITH_CHACHA20_POLY1305_SHA256,
    ),
];

/// Returns the names of all supported cipher suites, as RFCs write them.
pub fn cipher_names() -> impl Iterator<Item = &'static str> {
    SUITES.iter().map(|(name, _, _)| *name)
}

/// Returns the suites with these names, in RFCs or in OpenSSL. Without names: the AES suites first with 128-bit keys,
/// which are the fastest on processors with AES instructions.
///
/// # Errors
/// If a name is unknown.
pub(crate) fn suites(names: &[String]) -> Result<Vec<SupportedCipherSuite>, SettingError> {
    if names.is_empty() {
        return Ok(SUITES.iter().map(|(_, _, suite)| *suite).collect());
    }
    let of = |name: &String| {
        let found = SUITES
            .iter()
            .find(|(rfc, openssl, _)| rfc.eq_ignore_ascii_case(name) || openssl.eq_ignore_ascii_case(name));
        found.map(|(_, _, suite)| *suite).ok_or_else(|| {
            let all = cipher_names().collect::<Vec<_>>().join(", ");
            let what = format!("'{name}' is not a supported cipher suite");
            SettingError::new("ciphers", what, format!("write names of {all}"))
        })
    };
    names.iter().map(of).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn suites_have_names_of_rfcs_and_of_openssl() {
        let named = |name: &str| suites(&[name.to_owned()]);
        assert_eq!(named("ECDHE-RSA-AES128-GCM-SHA256").unwrap()[0], SUITES[6].2);
        assert_eq!(named("tls_aes_128_gcm_sha256").unwrap()[0], SUITES[0].2);
        let error = named("RC4-MD5").unwrap_err().to_string();
        assert!(error.starts_with("tls.ciphers: 'RC4-MD5' is not") && error.contains("TLS_AES_256"), "{error}");
        assert_eq!(suites(&[]).unwrap().len(), cipher_names().count());
    }
}
