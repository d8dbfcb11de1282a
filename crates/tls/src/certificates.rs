//! Certificates: read from files, checked, and selected by the name that a client requests.

pub(crate) mod session_end;

use std::io::Read;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Instant;

use rustls::crypto::{CryptoProvider, ring};
use rustls::pki_types::pem::{self, PemObject};
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{ClientHello, ProducesTickets, ResolvesServerCert, WebPkiClientVerifier};
use rustls::sign::CertifiedKey;
use rustls::{InconsistentKeys, RootCertStore, ServerConfig, SupportedCipherSuite};

use crate::names::{self, CertificateNames};
use crate::settings::{CertificateFiles, ClientAuth, SettingError, TlsSettings, suites};
use session_end::{Sessions, Tickets, Verifier};

/// Largest size of a file with certificates or keys, in bytes.
const PEM_BYTES_MAX: u64 = 8 << 20;

/// The facts of a certificate that operators watch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CertificateFacts {
    /// The file that the certificate was read from.
    pub file: PathBuf,
    /// The DNS names and IP addresses of the certificate, or its common names if it has none of these.
    pub names: Vec<String>,
    /// The serial number, in hexadecimal.
    pub serial: String,
    /// The instant from which the certificate is valid, in Unix seconds.
    pub not_before: i64,
    /// The instant until which the certificate is valid, in Unix seconds.
    pub not_after: i64,
}

impl CertificateFacts {
    fn new(file: &Path, names: CertificateNames) -> Self {
        let CertificateNames { common_names, hosts, serial, not_before, not_after, .. } = names;
        let names = if hosts.is_empty() { common_names } else { hosts };
        Self { file: file.to_owned(), names, serial, not_before, not_after }
    }
}

/// The settings and their files in the form that handshakes use.
#[derive(Debug)]
pub struct Loaded {
    pub(crate) config: Arc<ServerConfig>,
    /// The same for clients of HTTP/2, on which they agree in the handshake (ALPN).
    pub(crate) http2: Arc<ServerConfig>,
    pub(crate) settings: TlsSettings,
    /// The bytes of the file of client CAs: sessions must not outlive a change of it.
    client_ca: Option<Vec<u8>>,
    /// The instant at which the files were read.
    pub read_at: Instant,
    /// The server's certificates, in the order of the settings.
    pub certificates: Vec<CertificateFacts>,
    /// The CAs of client certificates.
    pub client_cas: Vec<CertificateFacts>,
}

impl Loaded {
    /// Reads the files of `settings`. Clients of `before` can resume their sessions if nothing about the verification
    /// of clients has changed.
    ///
    /// # Errors
    /// All faults of the settings and files, each with the name of its setting.
    pub fn read(settings: &TlsSettings, before: Option<&Self>) -> Result<Self, Vec<SettingError>> {
        let mut faults = Vec::new();
        let suites = suites(&settings.ciphers).unwrap_or_else(|fault| {
            faults.push(fault);
            Vec::new()
        });
        let provider = Arc::new(CryptoProvider { cipher_suites: suites, ..ring::default_provider() });
        let (mut facts, mut certified) = (Vec::new(), Vec::new());
        if settings.certificates.is_empty() {
            let remedy = "name a PEM file with the certificate in tls.cert, and one with its key in tls.key";
            faults.push(SettingError::new("cert", "a listener uses TLS, but there is no certificate", remedy));
        }
        for files in &settings.certificates {
            match certificate(files, &provider) {
                Ok((key, names)) => {
                    certified.push((host_patterns(&names), Arc::new(key)));
                    facts.push(CertificateFacts::new(&files.chain, names));
                }
                Err(fault) => faults.push(fault),
            }
        }
        let (verifier, client_ca, client_cas) = verifier(settings, &provider).unwrap_or_else(|fault| {
            faults.push(fault);
            (WebPkiClientVerifier::no_client_auth(), None, Vec::new())
        });
        if faults.is_empty() && !settings.ciphers.is_empty() {
            faults.extend(unusable_suites(&provider, settings, &certified));
        }
        if !faults.is_empty() {
            return Err(faults);
        }
        let builder = ServerConfig::builder_with_provider(provider)
            .with_protocol_versions(&settings.versions.protocols())
            .map_err(|error| {
                let what = format!("no cipher suite belongs to an allowed version ({error})");
                vec![SettingError::new("ciphers", what, "add a cipher suite of each version, or leave the list empty")]
            })?;
        let mut config = builder
            .with_client_cert_verifier(Arc::new(Verifier(verifier)))
            .with_cert_resolver(Arc::new(ByName(certified)));
        config.ignore_client_order = true;
        config.send_tls13_tickets = usize::from(settings.resumption);
        let same = before
            .filter(|before| before.client_ca == client_ca && before.settings.client_auth == settings.client_auth);
        if !settings.resumption {
            config.session_storage = Arc::new(rustls::server::NoServerSessionStorage {});
        } else if let Some(before) = same.filter(|before| before.settings.resumption) {
            config.ticketer = Arc::clone(&before.config.ticketer);
            config.session_storage = Arc::clone(&before.config.session_storage);
        } else {
            config.ticketer = Arc::new(Tickets(ticketer()?));
            config.session_storage = Arc::new(Sessions(config.session_storage));
        }
        let mut http2 = config.clone();
        http2.alpn_protocols = vec![b"h2".to_vec()];
        let http2 = Arc::new(http2);
        let (config, settings, read_at) = (Arc::new(config), settings.clone(), Instant::now());
        Ok(Self { config, http2, settings, client_ca, read_at, certificates: facts, client_cas })
    }

    /// Returns the settings in force.
    pub const fn settings(&self) -> &TlsSettings {
        &self.settings
    }

    /// Returns the certificate that expires first, among those of the server.
    pub fn first_to_expire(&self) -> Option<&CertificateFacts> {
        self.certificates.iter().min_by_key(|facts| facts.not_after)
    }
}

/// Returns a fault if no cipher suite of the settings can be used with the key of any certificate. Suites of TLS 1.3
/// fit each key; those of TLS 1.2 name the kind of the key.
fn unusable_suites(
    provider: &CryptoProvider,
    settings: &TlsSettings,
    certified: &[(Vec<String>, Arc<CertifiedKey>)],
) -> Option<SettingError> {
    let versions = settings.versions.protocols();
    let allowed = provider.cipher_suites.iter().filter(|suite| versions.contains(&suite.version()));
    let fits = |suite: &SupportedCipherSuite| match suite {
        SupportedCipherSuite::Tls12(suite) => {
            certified.iter().any(|(_, key)| key.key.choose_scheme(suite.sign).is_some())
        }
        SupportedCipherSuite::Tls13(_) => true,
    };
    let mut allowed = allowed.peekable();
    // That no suite belongs to an allowed version is another fault.
    if allowed.peek().is_none() || allowed.any(fits) {
        return None;
    }
    let what = "no allowed cipher suite fits the key of a certificate: ECDHE-RSA suites need an RSA key, and \
                ECDHE-ECDSA suites an ECDSA or Ed25519 key";
    Some(SettingError::new("ciphers", what, "add the suites for the key, or leave the list empty"))
}

/// Creates the keys of session tickets. The library replaces them every six hours.
fn ticketer() -> Result<Arc<dyn ProducesTickets>, Vec<SettingError>> {
    ring::Ticketer::new().map_err(|error| {
        let what = format!("cannot create keys for session tickets ({error})");
        vec![SettingError::new("resumption", what, "set it to false")]
    })
}

/// Returns the host names for which a certificate is selected.
fn host_patterns(names: &CertificateNames) -> Vec<String> {
    let common = || names.common_names.iter().map(|name| name.to_ascii_lowercase()).collect();
    if names.hosts.is_empty() { common() } else { names.hosts.clone() }
}

/// Selects a certificate by the requested host name, and by the signatures that the client supports.
#[derive(Debug)]
struct ByName(Vec<(Vec<String>, Arc<CertifiedKey>)>);

impl ResolvesServerCert for ByName {
    fn resolve(&self, hello: ClientHello<'_>) -> Option<Arc<CertifiedKey>> {
        let signs = |key: &CertifiedKey| key.key.choose_scheme(hello.signature_schemes()).is_some();
        let host = hello.server_name().map(str::to_ascii_lowercase);
        let named =
            host.and_then(|host| self.0.iter().find(|(patterns, key)| names::covers(patterns, &host) && signs(key)));
        // With a certificate whose signatures the client does not support, the library refuses the client with the
        // alert handshake_failure; without one, with access_denied, which clients do not understand.
        let any = || self.0.iter().find(|(_, key)| signs(key)).or(self.0.first());
        named.or_else(any).map(|(_, key)| Arc::clone(key))
    }
}

/// Reads a file that must not be larger than [`PEM_BYTES_MAX`].
fn read_file(setting: &'static str, path: &Path) -> Result<Vec<u8>, SettingError> {
    let shown = path.display();
    let refused = |error: std::io::Error| {
        let remedy = match error.kind() {
            std::io::ErrorKind::NotFound => "name a file that exists".to_owned(),
            std::io::ErrorKind::PermissionDenied => format!("allow the user of this process to read {shown}"),
            _ => "name a readable file".to_owned(),
        };
        SettingError::new(setting, format!("cannot read {shown} ({error})"), remedy)
    };
    let file = std::fs::File::open(path).map_err(refused)?;
    let mut bytes = Vec::new();
    file.take(PEM_BYTES_MAX + 1).read_to_end(&mut bytes).map_err(refused)?;
    if bytes.len() as u64 > PEM_BYTES_MAX {
        let what = format!("{shown} is larger than {} MiB", PEM_BYTES_MAX >> 20);
        return Err(SettingError::new(setting, what, "name a PEM file"));
    }
    Ok(bytes)
}

/// Returns the fault of a file that is not valid PEM.
fn broken_pem(setting: &'static str, path: &Path, error: &pem::Error, what: &str) -> SettingError {
    let shown = path.display();
    match error {
        pem::Error::MissingSectionEnd { .. } => SettingError::new(
            setting,
            format!("{shown} ends before the line END of its last section: the file is not whole"),
            "copy the whole file",
        ),
        _ => SettingError::new(
            setting,
            format!("{shown} is not valid PEM ({error})"),
            format!("export the {what} again as PEM"),
        ),
    }
}

/// Returns the certificates in a PEM file.
fn certificates(
    setting: &'static str,
    path: &Path,
    bytes: &[u8],
) -> Result<Vec<CertificateDer<'static>>, SettingError> {
    let shown = path.display();
    let found: Result<Vec<_>, pem::Error> = CertificateDer::pem_slice_iter(bytes).collect();
    let found = found.map_err(|error| broken_pem(setting, path, &error, "certificate"))?;
    if found.is_empty() {
        let remedy = if bytes.first() == Some(&0x30) {
            format!("convert it to PEM: openssl x509 -inform der -in {shown} -out FILE")
        } else {
            "name a PEM file with a line BEGIN CERTIFICATE".to_owned()
        };
        return Err(SettingError::new(setting, format!("{shown} contains no certificate"), remedy));
    }
    Ok(found)
}

/// Reads one certificate and its key.
fn certificate(
    files: &CertificateFiles,
    provider: &CryptoProvider,
) -> Result<(CertifiedKey, CertificateNames), SettingError> {
    let shown = files.chain.display();
    let chain = certificates("cert", &files.chain, &read_file("cert", &files.chain)?)?;
    let names = names::read(&chain[0]).ok_or_else(|| {
        SettingError::new("cert", format!("the first certificate in {shown} cannot be parsed"), "issue it again")
    })?;
    let key = private_key(&files.key)?;
    let signing = provider.key_provider.load_private_key(key).map_err(|error| {
        let what = format!("the key in {} is of no supported kind ({error})", files.key.display());
        SettingError::new("key", what, "create a key of the kinds ECDSA P-256 or P-384, Ed25519, or RSA of 2048 bits")
    })?;
    let certified = CertifiedKey::new(chain, signing);
    match certified.keys_match() {
        Ok(()) | Err(rustls::Error::InconsistentKeys(InconsistentKeys::Unknown)) => Ok((certified, names)),
        Err(rustls::Error::InconsistentKeys(_)) => {
            let what = format!("the key in {} is not the key of the certificate in {shown}", files.key.display());
            Err(SettingError::new("key", what, "name the file with the key that the certificate was issued for"))
        }
        Err(error) => {
            let what = format!("the first certificate in {shown} cannot be used ({error})");
            Err(SettingError::new("cert", what, "issue an X.509 certificate of version 3"))
        }
    }
}

fn private_key(path: &Path) -> Result<PrivateKeyDer<'static>, SettingError> {
    let shown = path.display();
    let bytes = read_file("key", path)?;
    if bytes.windows(9).any(|part| part == b"ENCRYPTED") {
        let remedy = format!("remove the passphrase: openssl pkey -in {shown} -out FILE; then chmod 600 FILE");
        return Err(SettingError::new("key", format!("the key in {shown} is encrypted with a passphrase"), remedy));
    }
    PrivateKeyDer::from_pem_slice(&bytes).map_err(|error| match error {
        pem::Error::NoItemsFound => SettingError::new(
            "key",
            format!("{shown} contains no key"),
            "name a PEM file with a line BEGIN PRIVATE KEY",
        ),
        error => broken_pem("key", path, &error, "key"),
    })
}

type ClientVerifier = (Arc<dyn ClientCertVerifier>, Option<Vec<u8>>, Vec<CertificateFacts>);

/// Returns the verifier of client certificates, and the bytes and the facts of their CAs.
fn verifier(settings: &TlsSettings, provider: &Arc<CryptoProvider>) -> Result<ClientVerifier, SettingError> {
    let Some(path) = &settings.client_ca else {
        return match settings.client_auth {
            ClientAuth::No => Ok((WebPkiClientVerifier::no_client_auth(), None, Vec::new())),
            _ => {
                let what = "client certificates are requested, but there is no CA to verify them with";
                Err(SettingError::new("client_ca", what, "name a PEM file with the certificate of their CA"))
            }
        };
    };
    let bytes = read_file("client_ca", path)?;
    let (mut roots, mut facts) = (RootCertStore::empty(), Vec::new());
    for der in certificates("client_ca", path, &bytes)? {
        facts.extend(names::read(&der).map(|names| CertificateFacts::new(path, names)));
        roots.add(der).map_err(|error| {
            let what = format!("a certificate in {} cannot be used as a CA ({error})", path.display());
            SettingError::new("client_ca", what, "name a PEM file with CA certificates only")
        })?;
    }
    if settings.client_auth == ClientAuth::No {
        return Ok((WebPkiClientVerifier::no_client_auth(), Some(bytes), facts));
    }
    let builder = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), Arc::clone(provider));
    let builder = if settings.client_auth == ClientAuth::Optional { builder.allow_unauthenticated() } else { builder };
    let verifier = builder.build().map_err(|error| {
        let what = format!("the CAs in {} cannot be used ({error})", path.display());
        SettingError::new("client_ca", what, "name a PEM file with the certificate of a CA")
    })?;
    Ok((verifier, Some(bytes), facts))
}
