//! Connections: what making them took, and what secured them.

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::Latencies;
use crate::measure::TlsUse;
use link::tls::TlsSettings;

/// Connections of the whole run, the first ones included.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Connections {
    /// From the attempt to the first request: handshake and greeting included.
    pub time: Latencies,
    /// The TLS handshake's part of it; none without TLS.
    pub handshake: Latencies,
    /// Security of the connections; none: they were not secured.
    pub tls: Vec<TlsSessions>,
}

/// Connections that were secured in the same way.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct TlsSessions {
    /// The protocol and its version, as `TLS 1.3`.
    pub version: String,
    /// The cipher suite, by its IANA name.
    pub cipher: String,
    /// Whole handshakes.
    pub full: u64,
    /// Handshakes that resumed an earlier session.
    pub resumed: u64,
}

/// TLS options of the run.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tls {
    /// The file of CAs that may vouch for the server; `null`: the system's own.
    pub ca: Option<String>,
    /// The file of the client's certificate.
    pub certificate: Option<String>,
    /// The name that the server had to prove; `null`: the host of its address.
    pub server_name: Option<String>,
    /// Any certificate was taken: who answered is not known.
    pub insecure: bool,
    /// Versions that were allowed, as `1.2,1.3`.
    pub versions: String,
    /// True if reopened connections could resume a session.
    pub resume: bool,
    /// The same in words.
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
    /// In words.
    pub fn words(&self) -> String {
        let Self { version, cipher, full, resumed } = self;
        format!("{version} with {cipher}: {full} whole handshakes, {resumed} resumed")
    }
}

impl Connections {
    /// Several runs' together.
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

    /// The versions of TLS that were spoken, for a label; empty without TLS.
    pub fn label(&self) -> String {
        let mut versions: Vec<&str> = self.tls.iter().map(|sessions| sessions.version.as_str()).collect();
        versions.sort_unstable();
        versions.dedup();
        versions.join(" and ")
    }
}
