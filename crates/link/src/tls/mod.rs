//! TLS to servers: the settings, their files, and the meaning of failures.
//!
//! ```text
//!   Settings   as users write them: files, a name, versions
//!     Client     the files, read and checked; shared by all threads of a run
//!       Maker      one thread's target names and sessions, so that a reopened connection can resume
//!   Failure    a failure of TLS: its name, description and remedy
//! ```
//!
//! Invariants: this module sends and receives nothing. A server's certificate is verified unless
//! [`TlsSettings::insecure`] is set; then every output of the run says so. Connections over a unix socket never use
//! TLS.

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

/// Largest size of a file with certificates or keys, in bytes.
const PEM_BYTES_MAX: u64 = 8 << 20;

/// Keys and certificates for TLS connections. Two values are equal if their settings are equal. Only the settings are
/// serialised, so another host reads its own files with the same names.
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
    /// Reads the files in `settings`.
    ///
    /// # Errors
    /// All faults of the settings and files, each with the name of its setting.
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
        let broken = |error: rustls::Error| vec![SettingError::new("", error.to_string(), "remove one of them")];
        let builder = ClientConfig::builder_with_provider(Arc::clone(&provider))
            .with_protocol_versions(&settings.versions.protocols())
            .map_err(broken)?;
        let builder = if settings.insecure {
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(roots)
        };
        let mut config = match identity {
            None => builder.with_no_client_auth(),
            Some((chain, key)) => builder.with_client_auth_cert(chain, key).map_err(|error| {
                let what = format!("cannot use the certificate with its key ({error})");
                let remedy = "pass the key that belongs to the certificate";
                vec![SettingError::new("key", what, remedy)]
            })?,
        };
        if settings.http2 {
            config.alpn_protocols = vec![b"h2".to_vec()];
        }
        Ok(Self { settings: settings.clone(), config: Arc::new(config) })
    }

    /// Returns the settings from which this client was created.
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Returns the name that the server's certificate at `target` must have; `None` for a unix socket, which does not
    /// use TLS.
    ///
    /// # Errors
    /// If no certificate can name the target's host.
    pub fn server_name(&self, target: &Address) -> Result<Option<ServerName<'static>>, String> {
        let Address::Tcp(address) = target else { return Ok(None) };
        let host = address.rsplit_once(':').map_or(address.as_str(), |(host, _)| host);
        let host = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
        let name = self.settings.server_name.as_deref().unwrap_or(host);
        ServerName::try_from(name.to_owned()).map(Some).map_err(|_| {
            format!("tls: '{name}' is not a valid server name; pass a host name, as in --tls-server-name cache.example")
        })
    }

    /// Creates the maker of one thread's connections to `targets`; `connections` is their number.
    pub fn maker(&self, targets: &[Address], connections: usize) -> Maker {
        let mut config = (*self.config).clone();
        config.resumption = if self.settings.resume {
            Resumption::store(Arc::new(Sessions::new(connections)))
        } else {
            Resumption::disabled()
        };
        // Invalid names are refused before a run. Here, such a name would only disable TLS for its connections.
        let names = targets.iter().map(|target| self.server_name(target).ok().flatten()).collect();
        Maker { config: Arc::new(config), names, settings: self.settings.clone() }
    }
}

/// Creates the TLS of one thread's connections.
#[derive(Debug)]
pub struct Maker {
    config: Arc<ClientConfig>,
    /// The server name of each target; `None` without TLS.
    names: Vec<Option<ServerName<'static>>>,
    settings: TlsSettings,
}

impl Maker {
    /// Returns a channel for a connection to target number `target` that was opened at `now_ns`; `None` if connections
    /// to this target do not use TLS.
    ///
    /// # Errors
    /// If the library cannot create a connection.
    pub fn make(&self, target: usize, now_ns: u64) -> Result<Option<Channel>, Failure> {
        let Some(name) = self.names.get(target).cloned().flatten() else { return Ok(None) };
        ClientConnection::new(Arc::clone(&self.config), name)
            .map(|tls| Some(Channel::new(tls, now_ns)))
            .map_err(|error| Failure::of(&error, &self.settings))
    }

    /// Returns the TLS settings of the connections.
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }
}

/// Returns the certificates of the CAs that the server is verified with.
fn roots(settings: &TlsSettings) -> Result<RootCertStore, SettingError> {
    let mut roots = RootCertStore::empty();
    if settings.insecure {
        return Ok(roots);
    }
    let Some(path) = &settings.ca else {
        let found = rustls_native_certs::load_native_certs();
        if roots.add_parsable_certificates(found.certs).0 == 0 {
            let what = "this system has no CA certificates to verify a server with";
            return Err(SettingError::new("ca", what, "pass a file with the CA's certificate: --tls-ca ca.pem"));
        }
        return Ok(roots);
    };
    for certificate in certificates("ca", path)? {
        roots.add(certificate).map_err(|error| {
            let path = path.display();
            let what = format!("'{path}' contains a certificate that is not valid as a CA certificate ({error})");
            SettingError::new("ca", what, "pass a file that contains only CA certificates")
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
            let what = format!("the key in '{shown}' is protected by a passphrase");
            let remedy = "remove the passphrase, as with openssl pkey -in KEY -out OPEN.key";
            return SettingError::new("key", what, remedy);
        }
        let what = format!("'{shown}' contains no private key in PEM form ({error})");
        SettingError::new("key", what, "pass the file with the certificate's key: --tls-key client.key")
    })?;
    Ok(Some((chain, key)))
}

/// Reads a file of certificates or keys.
fn pem(field: &'static str, path: &Path) -> Result<String, SettingError> {
    let wrong = |what: String, remedy: &str| SettingError::new(field, format!("'{}': {what}", path.display()), remedy);
    let remedy = "name a file that exists and is readable";
    let file = std::fs::File::open(path).map_err(|error| wrong(format!("cannot open the file ({error})"), remedy))?;
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX + 1)
        .read_to_end(&mut bytes)
        .map_err(|error| wrong(format!("cannot read the file ({error})"), remedy))?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        return Err(wrong(format!("the file is larger than {} MiB", PEM_BYTES_MAX >> 20), "name a smaller file"));
    }
    String::from_utf8(bytes).map_err(|_| wrong("the file is not UTF-8 text".to_owned(), "name a text file"))
}

fn certificates(field: &'static str, path: &Path) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let text = pem(field, path)?;
    let read: Result<Vec<_>, _> = CertificateDer::pem_slice_iter(text.as_bytes()).collect();
    let wrong = |why: String| {
        let what = format!("'{}' contains no certificate in PEM form{why}", path.display());
        let remedy = "convert it to PEM, as with openssl x509 -inform DER -in CERT.der -out CERT.pem";
        SettingError::new(field, what, remedy)
    };
    match read {
        Ok(list) if list.is_empty() => Err(wrong(String::new())),
        Ok(list) => Ok(list),
        Err(error) => Err(wrong(format!(" ({error})"))),
    }
}

/// Accepts any certificate, but still checks signatures made with its key.
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
