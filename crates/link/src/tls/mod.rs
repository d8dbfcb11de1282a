//! TLS towards servers: what is asked for, the files behind it, and what a failure means.
//!
//! ```text
//!   Settings   as people write them: files, a name, versions
//!     Client     the files read and checked: what connections are secured with, for all threads of a run
//!       Maker      one thread's: the names of its targets and its sessions, so that a reopened connection resumes
//!   Failure    why a connection could not be secured, or broke: its name, what it was, what to do
//! ```
//!
//! Invariants: nothing here moves bytes; a server is verified unless [`TlsSettings::insecure`] says otherwise, and
//! every output of such a run says so; connections over a unix socket are never secured.

mod failure;
mod sessions;
mod settings;

pub use failure::Failure;
pub use settings::{SettingError, TlsSettings, Versions};

use std::fmt;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{ClientConnection, Resumption};
use rustls::crypto::{CryptoProvider, ring, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{ClientConfig, DigitallySignedStruct, RootCertStore, SignatureScheme};
use serde::{Deserialize, Serialize};

use crate::address::Address;
use crate::channel::Channel;
use sessions::Sessions;

/// A file of certificates or keys is not larger than this, in bytes.
const PEM_BYTES_MAX: u64 = 8 << 20;

/// Material that secures connections. Two are equal if they were made from equal settings. As data it is these
/// settings, so that another host reads the files of the same names.
#[derive(Clone, Serialize, Deserialize)]
#[serde(try_from = "TlsSettings", into = "TlsSettings")]
pub struct TlsClient {
    settings: TlsSettings,
    config: Arc<ClientConfig>,
}

impl fmt::Debug for TlsClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").field("settings", &self.settings).finish_non_exhaustive()
    }
}

impl From<TlsClient> for TlsSettings {
    fn from(client: TlsClient) -> Self {
        client.settings
    }
}

impl TryFrom<TlsSettings> for TlsClient {
    type Error = String;

    fn try_from(settings: TlsSettings) -> Result<Self, String> {
        let lines = |faults: Vec<SettingError>| faults.iter().map(ToString::to_string).collect::<Vec<_>>().join("\n");
        Self::new(&settings).map_err(lines)
    }
}

impl PartialEq for TlsClient {
    fn eq(&self, other: &Self) -> bool {
        self.settings == other.settings
    }
}

impl TlsClient {
    /// Reads the files that `settings` name.
    ///
    /// # Errors
    /// Every fault of the settings and of the files, each with the name of its setting.
    pub fn new(settings: &TlsSettings) -> Result<Self, Vec<SettingError>> {
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
        let broken = |error: rustls::Error| vec![SettingError::new("", error.to_string(), "leave it away")];
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
                let what = format!("the certificate and its key cannot be used ({error})");
                let remedy = "name the key that belongs to the certificate";
                vec![SettingError::new("key", what, remedy)]
            })?,
        };
        Ok(Self { settings: settings.clone(), config: Arc::new(config) })
    }

    /// Returns the settings from which it was made.
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// The name that the server at `target` has to prove; `None` over a unix socket, which is not secured.
    ///
    /// # Errors
    /// When the target's host is none that a certificate can name.
    pub fn server_name(&self, target: &Address) -> Result<Option<ServerName<'static>>, String> {
        let Address::Tcp(address) = target else { return Ok(None) };
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
    pub fn maker(&self, targets: &[Address], connections: usize) -> Maker {
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
pub struct Maker {
    config: Arc<ClientConfig>,
    /// By target; `None`: not secured.
    names: Vec<Option<ServerName<'static>>>,
    settings: TlsSettings,
}

impl Maker {
    /// Returns the TLS of a new connection to the target of number `target`, which is connected at `now_ns`; `None` if
    /// connections to it are not secured.
    ///
    /// # Errors
    /// If the library cannot create a connection.
    pub fn make(&self, target: usize, now_ns: u64) -> Result<Option<Channel>, Failure> {
        let Some(name) = self.names.get(target).cloned().flatten() else { return Ok(None) };
        ClientConnection::new(Arc::clone(&self.config), name)
            .map(|tls| Some(Channel::new(tls, now_ns)))
            .map_err(|error| Failure::of(&error, &self.settings))
    }

    /// Returns the settings from which it was made.
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }
}

/// The certificates that may vouch for a server.
fn roots(settings: &TlsSettings) -> Result<RootCertStore, SettingError> {
    let mut roots = RootCertStore::empty();
    if settings.insecure {
        return Ok(roots);
    }
    let Some(path) = &settings.ca else {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            let what = "this system has no certificates of its own to verify a server by";
            return Err(SettingError::new("ca", what, "name a file with the CA's certificate: --tls-ca ca.pem"));
        }
        return Ok(roots);
    };
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|error| {
            let what = format!("'{}' has a certificate that cannot be a CA's ({error})", path.display());
            SettingError::new("ca", what, "name a file with certificates of CAs alone")
        })?;
    }
    Ok(roots)
}

type Identity = (Vec<CertificateDer<'static>>, PrivateKeyDer<'static>);

/// Reads the certificate chain and the key with which the client authenticates itself.
fn identity(settings: &TlsSettings) -> Result<Option<Identity>, SettingError> {
    let Some(path) = &settings.certificate else { return Ok(None) };
    let chain = certificates("certificate", path)?;
    let path = settings.key.as_ref().unwrap_or(path);
    let text = pem("key", path)?;
    let key = PrivateKeyDer::from_pem_slice(text.as_bytes()).map_err(|error| {
        let shown = path.display();
        if text.contains("ENCRYPTED") {
            let what = format!("the key in '{shown}' is locked by a passphrase");
            let remedy = "write it without one, as with openssl pkey -in KEY -out OPEN.key";
            return SettingError::new("key", what, remedy);
        }
        let what = format!("'{shown}' holds no private key in PEM form ({error})");
        SettingError::new("key", what, "name the file with the certificate's key: --tls-key client.key")
    })?;
    Ok(Some((chain, key)))
}

/// Reads a file of certificates or keys.
fn pem(field: &'static str, path: &Path) -> Result<String, SettingError> {
    let wrong = |what: String, remedy: &str| SettingError::new(field, format!("'{}': {what}", path.display()), remedy);
    let remedy = "name a file that is there and may be read";
    let file =
        std::fs::File::open(path).map_err(|error| wrong(format!("the file cannot be opened ({error})"), remedy))?;
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(format!("the file cannot be read ({error})"), remedy))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(wrong(format!("the file is larger than {} MiB", PEM_BYTES_MAX >> 20), "name a smaller file"));
    }
    String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8 text".to_owned(), "name a text file"))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let text = pem(field, path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let wrong = |why: String| {
        let what = format!("'{}' holds no certificate in PEM form{why}", path.display());
        let remedy = "write it as PEM, as with openssl x509 -inform DER -in CERT.der -out CERT.pem";
        SettingError::new(field, what, remedy)
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
