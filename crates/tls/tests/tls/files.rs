//! Certificates in files of a temporary folder.

use gannet_tls::{CertificateFiles, TlsSettings};
use rcgen::{BasicConstraints, CertificateParams, DnType, IsCa, Issuer, KeyPair, SanType};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};

/// A folder that is removed when it is dropped.
pub struct Folder(pub PathBuf);

impl Folder {
    pub fn new() -> Self {
        static NUMBER: AtomicU64 = AtomicU64::new(0);
        let name = format!("gannet-tls-{}-{}", std::process::id(), NUMBER.fetch_add(1, Relaxed));
        let path = std::env::temp_dir().join(name);
        std::fs::create_dir(&path).expect("a temporary folder");
        Self(path)
    }

    pub fn file(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    pub fn write(&self, name: &str, text: &str) -> PathBuf {
        std::fs::write(self.file(name), text).expect("a writable folder");
        self.file(name)
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// A CA with its key.
pub struct Ca {
    issuer: Issuer<'static, KeyPair>,
    pub pem: String,
}

impl Ca {
    pub fn new(name: &str) -> Self {
        let key = KeyPair::generate().unwrap();
        let mut params = CertificateParams::new(Vec::new()).unwrap();
        params.distinguished_name.push(DnType::CommonName, name);
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        let pem = params.self_signed(&key).unwrap().pem();
        Self { issuer: Issuer::new(params, key), pem }
    }

    /// Issues a certificate for host names. `change` may set other properties.
    pub fn issue(&self, hosts: &[&str], change: impl FnOnce(&mut CertificateParams)) -> (String, String) {
        let key = KeyPair::generate().unwrap();
        let hosts: Vec<String> = hosts.iter().map(|host| (*host).to_owned()).collect();
        let mut params = CertificateParams::new(hosts).unwrap();
        change(&mut params);
        (params.signed_by(&key, &self.issuer).unwrap().pem(), key.serialize_pem())
    }

    /// Issues a certificate into two files of `folder`.
    pub fn issue_files(&self, folder: &Folder, name: &str, hosts: &[&str]) -> CertificateFiles {
        let (chain, key) = self.issue(hosts, |_| {});
        CertificateFiles {
            chain: folder.write(&format!("{name}.crt"), &chain),
            key: folder.write(&format!("{name}.key"), &key),
        }
    }
}

/// Sets the common name and the URIs of a client's certificate.
pub fn client_names(params: &mut CertificateParams, common: &str, uris: &[&str]) {
    params.distinguished_name.push(DnType::CommonName, common);
    params.subject_alt_names.extend(uris.iter().map(|uri| SanType::URI((*uri).try_into().unwrap())));
}

/// Settings with one certificate for `localhost`.
pub fn settings(folder: &Folder, ca: &Ca) -> TlsSettings {
    TlsSettings {
        certificates: vec![ca.issue_files(folder, "server", &["localhost", "*.sub.test"])],
        resumption: true,
        ..TlsSettings::default()
    }
}

/// A client's configuration that trusts `ca`, with a certificate of its own if one is given.
pub fn client(ca: &str, own: Option<(String, String)>) -> Arc<rustls::ClientConfig> {
    use rustls::pki_types::pem::PemObject;
    let mut roots = rustls::RootCertStore::empty();
    roots.add(rustls::pki_types::CertificateDer::from_pem_slice(ca.as_bytes()).unwrap()).unwrap();
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let builder = rustls::ClientConfig::builder_with_provider(provider).with_safe_default_protocol_versions().unwrap();
    let builder = builder.with_root_certificates(roots);
    Arc::new(match own {
        None => builder.with_no_client_auth(),
        Some((chain, key)) => {
            let chain = vec![rustls::pki_types::CertificateDer::from_pem_slice(chain.as_bytes()).unwrap()];
            let key = rustls::pki_types::PrivateKeyDer::from_pem_slice(key.as_bytes()).unwrap();
            builder.with_client_auth_cert(chain, key).unwrap()
        }
    })
}

/// Copies `from` over `to` in one step, as deployments do.
pub fn replace(from: &Path, to: &Path) {
    let new = to.with_extension("new");
    std::fs::copy(from, &new).unwrap();
    std::fs::rename(new, to).unwrap();
}
