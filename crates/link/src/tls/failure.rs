//! Failures of TLS: a description and a remedy.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

use super::TlsSettings;

/// Number of bytes shown of a reply that is not TLS.
const SHOWN_BYTES_MAX: usize = 40;

/// A failure of TLS. Displayed as the description, followed by the remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A short, stable name: `tls-unknown-ca`, `tls-certificate-expired`, `tls-wrong-name`, `tls-not-spoken` ...
    pub name: &'static str,
    /// Description of the failure, and the remedy.
    pub what: String,
}

impl fmt::Display for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl std::error::Error for Failure {}

impl From<Failure> for std::io::Error {
    fn from(failure: Failure) -> Self {
        Self::new(std::io::ErrorKind::InvalidData, failure)
    }
}

impl Failure {
    fn new(name: &'static str, what: impl Into<String>) -> Self {
        Self { name, what: what.into() }
    }

    /// Returns the TLS failure in `error`, if there is one.
    pub fn in_error(error: &std::io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Returns whether another attempt with the same settings may succeed.
    pub fn may_pass(&self) -> bool {
        matches!(self.name, "tls-closed" | "tls-broken")
    }

    /// Converts `error` of a connection with `settings` to a failure.
    pub fn of(error: &Error, settings: &TlsSettings) -> Self {
        match error {
            Error::InvalidCertificate(error) => of_certificate(error, settings),
            Error::AlertReceived(alert) => of_alert(*alert, settings),
            // The bytes are not a TLS record. A caller that has the first bytes calls `not_spoken` itself, to show
            // them.
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::not_spoken(&[])
            }
            Error::PeerIncompatible(why) => Self::new(
                "tls-version",
                format!(
                    "the server supports none of the allowed versions and ciphers ({why:?}); allow TLS {} on the \
                     server",
                    settings.versions.text()
                ),
            ),
            other => Self::new("tls-broken", format!("TLS failed ({other}); see the server's log")),
        }
    }

    /// Returns the failure of a peer whose first bytes were not TLS.
    pub fn not_spoken(first: &[u8]) -> Self {
        let seen = String::from_utf8_lossy(&first[..first.len().min(SHOWN_BYTES_MAX)]).into_owned();
        let seen = if seen.is_empty() { "something else".to_owned() } else { format!("{seen:?}") };
        let remedy = "use the server's TLS port, or remove --tls";
        Self::new(
            "tls-not-spoken",
            format!("the server replied to a TLS handshake with {seen}: this port does not use TLS; {remedy}"),
        )
    }

    /// Returns the failure of an unencrypted connection to a port that uses TLS.
    pub fn wanted() -> Self {
        Self::new("tls-wanted", "this port uses TLS; pass --tls-ca FILE or another TLS flag, or use a port without TLS")
    }

    /// Returns the failure of a connection that was closed before the handshake ended.
    pub fn closed() -> Self {
        let remedy = "use the server's TLS port, or see its log";
        Self::new("tls-closed", format!("the server closed the connection during the TLS handshake; {remedy}"))
    }
}

fn of_certificate(error: &CertificateError, settings: &TlsSettings) -> Failure {
    let insecure = "or accept any certificate with --tls-insecure";
    let days = |from: u64, to: u64| to.saturating_sub(from) / 86_400;
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            let days = days(not_after.as_secs(), time.as_secs());
            let what = format!("the server's certificate expired {days} days ago; renew it there, {insecure}");
            Failure::new("tls-certificate-expired", what)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let days = days(time.as_secs(), not_before.as_secs());
            let what = format!(
                "the server's certificate becomes valid only in {days} days; set this host's clock, \
                         {insecure}"
            );
            Failure::new("tls-certificate-early", what)
        }
        // `BadSignature` means that a known CA has the name of the signing CA, but another key.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let by = settings
                .ca
                .as_ref()
                .map_or_else(|| "none of this system's CAs".to_owned(), |path| format!("no CA in {}", path.display()));
            let what = format!(
                "{by} has signed the server's certificate; pass the certificate of its CA with --tls-ca FILE, \
                 {insecure}"
            );
            Failure::new("tls-unknown-ca", what)
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let wanted = expected.to_str();
            let what = if presented.is_empty() {
                format!(
                    "the server's certificate has no names, but {wanted} is required; issue one with a \
                     subjectAltName, {insecure}"
                )
            } else {
                let names = presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
                format!(
                    "the server's certificate is for {names}, not for {wanted}; pass one of its names with \
                     --tls-server-name, {insecure}"
                )
            };
            Failure::new("tls-wrong-name", what)
        }
        CertificateError::Other(OtherError(inner)) if format!("{inner:?}").contains("CaUsedAsEndEntity") => {
            let what = "the server's certificate is a CA's own; use a server certificate that the CA has signed \
                        (CA:FALSE), ";
            Failure::new("tls-bad-certificate", format!("{what}{insecure}"))
        }
        other => {
            let what = format!("cannot verify the server's certificate ({other}); create another one, {insecure}");
            Failure::new("tls-bad-certificate", what)
        }
    }
}

/// Returns the name within `DnsName("a.example")` or `IpAddress(127.0.0.1)`.
fn plain(name: &str) -> &str {
    let inner = name.split_once('(').and_then(|(_, rest)| rest.strip_suffix(')')).unwrap_or(name);
    inner.trim_matches('"')
}

fn of_alert(alert: AlertDescription, settings: &TlsSettings) -> Failure {
    use AlertDescription as A;
    let own = settings.certificate.as_ref().map(|path| path.display().to_string());
    match (alert, own) {
        (A::CertificateRequired | A::HandshakeFailure | A::BadCertificate, None) => Failure::new(
            "tls-certificate-wanted",
            format!(
                "the server refused the connection ({alert:?}), possibly because it requires a client certificate; \
                 pass one with --tls-cert and --tls-key"
            ),
        ),
        (
            A::UnknownCA
            | A::BadCertificate
            | A::CertificateUnknown
            | A::CertificateExpired
            | A::CertificateRevoked
            | A::UnsupportedCertificate
            | A::CertificateRequired
            | A::DecryptError
            | A::AccessDenied,
            Some(own),
        ) => Failure::new(
            "tls-certificate-refused",
            format!(
                "the server refused the certificate in {own} ({alert:?}); pass one that is signed by a CA that the \
                 server trusts"
            ),
        ),
        (A::ProtocolVersion, _) => {
            let versions = settings.versions.text();
            let what = format!("the server does not support TLS {versions}; allow another version on either side");
            Failure::new("tls-version", what)
        }
        (A::UnrecognisedName, _) => Failure::new(
            "tls-wrong-name",
            "the server does not know the requested name; pass one of its names with --tls-server-name",
        ),
        (other, _) => {
            Failure::new("tls-refused", format!("the server refused the connection ({other:?}); see its log"))
        }
    }
}
