//! The TLS settings as users write them.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;

use rustls::SupportedProtocolVersion;
use rustls::pki_types::ServerName;
use rustls::version::{TLS12, TLS13};
use serde::{Deserialize, Serialize};

/// TLS options of a run.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct TlsSettings {
    /// A PEM file with the certificates of CAs that the server is verified with; by default the system's CAs.
    pub ca: Option<PathBuf>,
    /// A PEM file with the client's certificate and the chain to its CA.
    pub certificate: Option<PathBuf>,
    /// A PEM file with the certificate's key; by default the certificate's file contains it.
    pub key: Option<PathBuf>,
    /// The name that is requested, and that the server's certificate must have; by default the host of its address.
    pub server_name: Option<String>,
    /// True to accept any certificate: the server's identity is unknown.
    pub insecure: bool,
    /// The allowed versions.
    pub versions: Versions,
    /// True if a reopened connection resumes an earlier session, if the server allows it.
    pub resume: bool,
    /// True to agree on HTTP/2 in the handshake (ALPN). It follows from the protocol, so no user writes it.
    #[serde(default)]
    pub http2: bool,
}

impl Default for TlsSettings {
    /// Verifies a server by the system's CAs and by the host name in its address.
    fn default() -> Self {
        Self {
            ca: None,
            certificate: None,
            key: None,
            server_name: None,
            insecure: false,
            versions: Versions::Both,
            resume: true,
            http2: false,
        }
    }
}

/// A setting that cannot be used. Displayed as `tls.ca: description; remedy`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SettingError {
    /// The field of [`TlsSettings`]; empty if the error belongs to no field.
    pub field: &'static str,
    /// Description of the error.
    pub what: String,
    /// Remedy for the error.
    pub remedy: String,
}

impl SettingError {
    pub(super) fn new(field: &'static str, what: impl Into<String>, remedy: impl Into<String>) -> Self {
        Self { field, what: what.into(), remedy: remedy.into() }
    }

    /// Returns the setting's full name for messages: `section`, a dot and the field.
    pub fn path(&self, section: &str) -> String {
        if self.field.is_empty() { section.to_owned() } else { format!("{section}.{}", self.field) }
    }
}

impl fmt::Display for SettingError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}; {}", self.path("tls"), self.what, self.remedy)
    }
}

impl std::error::Error for SettingError {}

/// The allowed versions of TLS.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Versions {
    /// TLS 1.2 and 1.3. The server chooses.
    #[default]
    Both,
    /// TLS 1.2 only.
    Tls12,
    /// TLS 1.3 only.
    Tls13,
}

impl FromStr for Versions {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (mut v12, mut v13) = (false, false);
        for word in text.split(',') {
            match word.trim() {
                "1.2" => v12 = true,
                "1.3" => v13 = true,
                other => {
                    return Err(format!("TLS version '{other}' is not supported; write 1.2, 1.3 or 1.2,1.3"));
                }
            }
        }
        Ok(match (v12, v13) {
            (true, false) => Self::Tls12,
            (false, true) => Self::Tls13,
            _ => Self::Both,
        })
    }
}

impl Versions {
    /// Returns the text form.
    pub const fn text(self) -> &'static str {
        match self {
            Self::Both => "1.2,1.3",
            Self::Tls12 => "1.2",
            Self::Tls13 => "1.3",
        }
    }

    pub(super) fn protocols(self) -> Vec<&'static SupportedProtocolVersion> {
        match self {
            Self::Both => vec![&TLS13, &TLS12],
            Self::Tls12 => vec![&TLS12],
            Self::Tls13 => vec![&TLS13],
        }
    }
}

impl TlsSettings {
    /// Returns settings that are invalid or contradict each other, without reading the files.
    pub fn faults(&self) -> Vec<SettingError> {
        let mut faults = Vec::new();
        let mut fault = |field: &'static str, what: String, remedy: &str| {
            faults.push(SettingError::new(field, what, remedy));
        };
        if self.key.is_some() && self.certificate.is_none() {
            fault("key", "there is a key, but no certificate".into(), "pass the certificate too");
        }
        if self.insecure && self.ca.is_some() {
            let what = "any certificate is accepted, so the CA has no effect".into();
            fault("insecure", what, "remove this setting to verify the server by its CA, or remove the CA");
        }
        if let Some(name) = &self.server_name
            && ServerName::try_from(name.as_str()).is_err()
        {
            fault(
                "server_name",
                format!("'{name}' is not a valid server name"),
                "write a host name, such as cache.example",
            );
        }
        faults
    }

    /// Describes how the server is verified.
    pub fn words(&self) -> String {
        let by = match (&self.ca, self.insecure) {
            (_, true) => return "the server is NOT verified: any certificate is accepted".to_owned(),
            (Some(path), false) => format!("the CA in {}", path.display()),
            (None, false) => "the system's CAs".to_owned(),
        };
        let name = self.server_name.as_ref().map_or(String::new(), |name| format!(" as {name}"));
        let own = if self.certificate.is_some() { ", the client is authenticated by a certificate" } else { "" };
        format!("the server is verified{name} by {by}{own}")
    }
}
