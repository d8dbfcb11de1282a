//! TLS towards servers: what is asked for, the files behind it, and what a failure means.
//!
//! ```text
//!   Settings   as people write them: files, a name, versions
//!     Client     the files read and checked: what connections are secured with, for all threads of a run
//!       Maker      one thread's: the names of its targets and its sessions, so that a reopened connection resumes
//!   Failure    why a connection could not be secured, or broke: its name, what it was, what to do
//! ```
//!
//! Invariants: nothing here moves bytes; a server is verified unless [`Settings::insecure`] says otherwise, and every
//! output of such a run says so; connections over a unix socket are never secured.

mod failure;
mod sessions;
mod settings;

pub use failure::Failure;
pub use settings::{Settings, Versions};

use std::fmt;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::engine::Target;
use crate::workload::Fault;
use crate::workload::file::text_of;
use sessions::Sessions;

/// A file of certificates or keys is not larger than this, in bytes.
const PEM_BYTES_MAX: u64 = 8 << 20;

/// Material that secures connections. Two are equal if they were made from equal settings. As data it is these
/// settings, so that another host reads the files of the same names.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "Settings", into = "Settings")]
pub struct Client {
    settings: Settings,
    config: Arc<ClientConfig>,
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl From<Client> for Settings {
    fn from(client: Client) -> Self {
        client.settings
    }
}

impl TryFrom<Settings> for Client {
    type Error = String;

    fn try_from(settings: Settings) -> Result<Self, String> {
        let told = |faults: Vec<Fault>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Self::new(&settings).map_err(told)
    }
}

impl PartialEq for Client {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl Client {
    /// Reads the files that `settings` name.
    ///
    /// # Errors
    /// Every fault of the settings and of the files, each with the path of its field in a workload.
    pub fn new(settings: &Settings) -> Result<Self, Vec<Fault>> {
        let mut faults = settings.faults();
        let provider = Arc::new(ring::default_provider());
        let roots = roots(settings).unwrap_or_else(|fault| {
            faults.push(fault);
            RootCertStore::empty()
        });
        let identity = identity(settings).unwrap_or_else(|fault| {
            faults.push(fault);
            None
        });
        if !faults.is_empty() {
            return Err(faults);
        }
        let broken = |error: rustls::Error| vec![Fault::new("targets.tls", error.to_string(), "leave it away")];
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&settings.versions.protocols())
            .map_err(broken)?;
        let builder = if settings.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots)
        };
        let config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                let what = format!("the certificate and its key can not be used ({error})");
                let remedy = "name the key that belongs to the certificate";
                vec![Fault::new("targets.tls.key", what, remedy)]
            })?,
        };
        Ok(Self { settings: settings.clone(), config: Arc::new(config) })
    }

    /// Returns the settings from which it was made.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }

    /// The name that the server at `target` has to prove; `None` over a unix socket, which is not secured.
    ///
    /// # Errors
    /// When the target's host is none that a certificate can name.
    pub fn server_name(&self, target: &Target) -> Result<Option<ServerName<'static>>, String> {
        let Target::Tcp(address) = target else { return Ok(None) };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = self.settings.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map(Some).map_err(|_| {
            format!(
                "tls: no certificate can be for '{name}'; say the server's name, as in --tls-server-name cache.example"
            )
        })
    }

    /// For the connections of one thread to `targets`, of which there are `connections`.
    pub(crate) fn maker(&self, targets: &[Target], connections: usize) -> Maker {
        let mut config = (*self.config).clone();
        config.resumption = if self.settings.resume {
            Resumption::store(Arc::new(Sessions::new(connections)))
        } else {
            Resumption::disabled()
        };
        // An invalid name is refused before a run; here it would only leave its connections unsecured.
        let names = targets.iter().map(|target| self.server_name(target).ok().flatten()).collect();
        Maker { config: Arc::new(config), names, settings: self.settings.clone() }
    }
}

/// Secures the connections of one thread.
#[derive(Debug)]
pub(crate) struct Maker {
    config: Arc<ClientConfig>,
    /// By target; `None`: not secured.
    names: Vec<Option<ServerName<'static>>>,
    settings: Settings,
}

impl Maker {
    /// The state of a new connection to `target`; `None` if that is not secured.
    ///
    /// # Errors
    /// If the library cannot make a connection.
    pub fn make(&self, target: usize) -> Result<Option<ClientConnection>, Failure> {
        let Some(name) = self.names.get(target).cloned().flatten() else { return Ok(None) };
        ClientConnection::new(Arc::clone(&self.config), name)
            .map(Some)
            .map_err(|error| Failure::of(&error, &self.settings))
    }

    /// Returns the settings from which it was made.
    pub const fn settings(&self) -> &Settings {
        &self.settings
    }
}

/// The certificates that may vouch for a server.
fn roots(settings: &Settings) -> Result<RootCertStore, Fault> {
    let mut roots = RootCertStore::empty();
    if settings.insecure {
        return Ok(roots);
    }
    let Some(path) = &settings.ca else {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            let what = "this system has no certificates of its own to verify a server by";
            return Err(Fault::new("targets.tls.ca", what, "name a file with the CA's certificate: --tls-ca ca.pem"));
        }
        return Ok(roots);
    };
    for certificate in certificates("targets.tls.ca", path)? {
        roots.add(certificate).map_err(|error| {
            let what = format!("'{}' has a certificate that can not be a CA's ({error})", path.display());
            Fault::new("targets.tls.ca", what, "name a file with certificates of CAs alone")
        })?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads the certificate chain and the key with which the client authenticates itself.
fn identity(settings: &Settings) -> Result<Option<Identity>, Fault> {
    let Some(path) = &settings.certificate else { return Ok(None) };
    let chain = certificates("targets.tls.certificate", path)?;
    let path = settings.key.as_ref().unwrap_or(path);
    let text = pem("targets.tls.key", path)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| {
        let shown = path.display();
        if text.contains("ENCRYPTED") {
            let what = format!("the key in '{shown}' is locked by a passphrase");
            let remedy = "write it without one, as with openssl pkey -in KEY -out OPEN.key";
            return Fault::new("targets.tls.key", what, remedy);
        }
        let what = format!("'{shown}' holds no private key in PEM form ({error})");
        Fault::new("targets.tls.key", what, "name the file with the certificate's key: --tls-key client.key")
    })?;
    Ok(Some((chain, key)))
}

fn pem(field: &str, path: &Path) -> Result<String, Fault> {
    text_of(path, PEM_BYTES_MAX)
        .map_err(|(what, remedy)| Fault::new(field, format!("'{}': {what}", path.display()), remedy))
}

fn certificates(field: &str, path: &Path) -> Result<Vec<CertificateDer<'static>>, Fault> {
    let text = pem(field, path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let wrong = |why: String| {
        let what = format!("'{}' holds no certificate in PEM form{why}", path.display());
        let remedy = "write it as PEM, as with openssl x509 -inform DER -in CERT.der -out CERT.pem";
        Fault::new(field, what, remedy)
    };
    match read {
        Ok(list) if list.is_empty() => Err(wrong(String::new())),
        Ok(list) => Ok(list),
        Err(error) => Err(wrong(format!(" ({error})"))),
    }
}

/// Takes any certificate; what is signed with its key is still checked.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls12_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        verify_tls13_signature(message, certificate, signed, &self.0.signature_verification_algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests;
