//! Figures of the connections: the time to open them, and their TLS parameters.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latencies;
use crate::measure::TlsUse;
use link::tls::TlsSettings;

/// Connections of the whole run, including the first ones.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// Time from the attempt to the first request, including handshake and greeting.
    pub time: Latencies,
    /// The part of this time taken by the TLS handshake; empty without TLS.
    pub handshake: Latencies,
    /// The TLS versions and ciphers of the connections; empty without TLS.
    pub tls: Vec<TlsSessions>,
}

/// Connections with the same TLS version and cipher.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSessions {
    /// The protocol and its version, such as `TLS 1.3`.
    pub version: String,
    /// The cipher suite, by its IANA name.
    pub cipher: String,
    /// Number of full handshakes.
    pub full: u64,
    /// Number of handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// TLS options of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The file of CAs that the server is verified with; `null` for the system's CAs.
    pub ca: Option<String>,
    /// The file of the client's certificate.
    pub certificate: Option<String>,
    /// The name that the server's certificate must have; `null` for the host of its address.
    pub server_name: Option<String>,
    /// True if any certificate was accepted: the server's identity is unknown.
    pub insecure: bool,
    /// Allowed versions, such as `1.2,1.3`.
    pub versions: String,
    /// True if reopened connections could resume a session.
    pub resume: bool,
    /// The options in words.
    pub words: String,
}

impl From<&TlsSettings> for Tls {
    fn from(settings: &TlsSettings) -> Self {
        let text = |path: &Option<std::path::PathBuf>| path.as_ref().map(|path| path.display().to_string());
        Self {
            ca: text(&settings.ca),
            certificate: text(&settings.certificate),
            server_name: settings.server_name.clone(),
            insecure: settings.insecure,
            versions: settings.versions.text().to_owned(),
            resume: settings.resume,
            words: settings.words(),
        }
    }
}

impl From<&TlsUse> for TlsSessions {
    fn from(used: &TlsUse) -> Self {
        Self { version: used.version.clone(), cipher: used.cipher.clone(), full: used.full, resumed: used.resumed }
    }
}

impl TlsSessions {
    /// Describes the options in words.
    pub fn words(&self) -> String {
        let Self { version, cipher, full, resumed } = self;
        format!("{version} with {cipher}: {full} full handshakes, {resumed} resumed")
    }
}

impl Connections {
    /// Combines the figures of several runs.
    pub fn together<'a>(several: impl Iterator<Item = &'a Self> + Clone) -> Self {
        let mut tls: Vec<TlsSessions> = Vec::new();
        for sessions in several.clone().flat_map(|connections| &connections.tls) {
            match tls.iter_mut().find(|known| (&known.version, &known.cipher) == (&sessions.version, &sessions.cipher))
            {
                Some(known) => {
                    known.full += sessions.full;
                    known.resumed += sessions.resumed;
                }
                None => tls.push(sessions.clone()),
            }
        }
        Self {
            time: Latencies::together(several.clone().map(|connections| &connections.time)),
            handshake: Latencies::together(several.map(|connections| &connections.handshake)),
            tls,
        }
    }

    /// Returns the TLS versions in use, for a label; empty without TLS.
    pub fn label(&self) -> String {
        let mut versions: Vec<&str> = self.tls.iter().map(|sessions| sessions.version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions.join(" and ")
    }
}
