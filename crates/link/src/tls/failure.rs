//! Why a connection could not be secured, or broke: what it was, and what to do.

use std::fmt;

use rustls::{AlertDescription, CertificateError, Error, InvalidMessage, OtherError};

use super::TlsSettings;

/// Bytes that are shown of an answer that is no TLS.
const SHOWN_BYTES_MAX: usize = 40;

/// Why a connection could not be secured, or broke. Shows as what it was, with the remedy behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Failure {
    /// A short name that does not change: `tls-unknown-ca`, `tls-certificate-expired`, `tls-wrong-name`,
    /// `tls-not-spoken` ...
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

    /// The failure that `error` carries, if it is one of TLS.
    pub fn in_error(error: &std::io::Error) -> Option<&Self> {
        error.get_ref()?.downcast_ref()
    }

    /// Another attempt may end otherwise, with all settings as they are.
    pub fn may_pass(&self) -> bool {
        matches!(self.name, "tls-closed" | "tls-broken")
    }

    /// Returns the failure that `error` means for a connection with `settings`.
    pub fn of(error: &Error, settings: &TlsSettings) -> Self {
        match error {
            Error::InvalidCertificate(error) => of_certificate(error, settings),
            Error::AlertReceived(alert) => of_alert(*alert, settings),
            // The bytes are no TLS record: the state of a connection shows what they were, if bytes are at hand.
            Error::InvalidMessage(InvalidMessage::InvalidContentType | InvalidMessage::UnknownProtocolVersion) => {
                Self::not_spoken(&[])
            }
            Error::PeerIncompatible(why) => Self::new(
                "tls-version",
                format!(
                    "it speaks no version or cipher of TLS that is spoken here ({why:?}); allow TLS {} there",
                    settings.versions.text()
                ),
            ),
            other => Self::new("tls-broken", format!("TLS broke ({other}); see the server's log")),
        }
    }

    /// Returns the failure of a peer whose first bytes were not TLS.
    pub fn not_spoken(first: &[u8]) -> Self {
        let seen = String::from_utf8_lossy(&first[..first.len().min(SHOWN_BYTES_MAX)]).into_owned();
        let seen = if seen.is_empty() { "something else".to_owned() } else { format!("{seen:?}") };
        let remedy = "name the port on which it speaks TLS, or leave --tls away";
        Self::new(
            "tls-not-spoken",
            format!("it answered a TLS handshake with {seen}: it speaks no TLS there; {remedy}"),
        )
    }

    /// It speaks TLS, and was spoken to without.
    pub fn wanted() -> Self {
        Self::new("tls-wanted", "it speaks TLS there; say --tls-ca FILE or another flag of TLS, or name a port without")
    }

    /// The server closed the connection before it was secured.
    pub fn closed() -> Self {
        let remedy = "name its port for TLS, or see its log";
        Self::new("tls-closed", format!("it closed the connection within the TLS handshake; {remedy}"))
    }
}

fn of_certificate(error: &CertificateError, settings: &TlsSettings) -> Failure {
    let insecure = "or take any certificate with --tls-insecure";
    let days = |from: u64, to: u64| to.saturating_sub(from) / 86_400;
    match error {
        CertificateError::ExpiredContext { time, not_after } => {
            let days = days(not_after.as_secs(), time.as_secs());
            let what = format!("the server's certificate expired {days} days ago; renew it there, {insecure}");
            Failure::new("tls-certificate-expired", what)
        }
        CertificateError::NotValidYetContext { time, not_before } => {
            let days = days(time.as_secs(), not_before.as_secs());
            let what =
                format!("the server's certificate is valid in {days} days only; set this host's clock, {insecure}");
            Failure::new("tls-certificate-early", what)
        }
        // A CA with the name of the one that signed it is known, and is another.
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            let by = settings
                .ca
                .as_ref()
                .map_or_else(|| "none of this system's CAs".to_owned(), |path| format!("no CA in {}", path.display()));
            let what = format!(
                "{by} has signed the server's certificate; name its CA's certificate with --tls-ca FILE, {insecure}"
            );
            Failure::new("tls-unknown-ca", what)
        }
        CertificateError::NotValidForNameContext { expected, presented } => {
            let wanted = expected.to_str();
            let what = if presented.is_empty() {
                format!(
                    "the server's certificate has no names, and {wanted} is required; issue one with a subjectAltName, \
                     {insecure}"
                )
            } else {
                let names = presented.iter().map(|name| plain(name)).collect::<Vec<_>>().join(", ");
                format!(
                    "the server's certificate is for {names}, and not for {wanted}; say one of its names with \
                     --tls-server-name, {insecure}"
                )
            };
            Failure::new("tls-wrong-name", what)
        }
        CertificateError::Other(OtherError(inner)) if format!("{inner:?}").contains("CaUsedAsEndEntity") => {
            let what = "the server's certificate is a CA's own; give the server one that its CA has signed for it \
                        (CA:FALSE), ";
            Failure::new("tls-bad-certificate", format!("{what}{insecure}"))
        }
        other => {
            let what = format!("the server's certificate cannot be verified ({other}); make another, {insecure}");
            Failure::new("tls-bad-certificate", what)
        }
    }
}

/// `DnsName("a.example")` and `IpAddress(127.0.0.1)` without what is around them.
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
                "the server refused the connection ({alert:?}), as one does that wants a certificate of its clients; \
                 name one with --tls-cert and --tls-key"
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
                "the server refused the certificate in {own} ({alert:?}); name one that a CA of the server's signed"
            ),
        ),
        (A::ProtocolVersion, _) => {
            let versions = settings.versions.text();
            let what = format!("the server speaks no TLS {versions}; allow another version here or there");
            Failure::new("tls-version", what)
        }
        (A::UnrecognisedName, _) => Failure::new(
            "tls-wrong-name",
            "the server knows no such name as it was asked for; say one of its names with --tls-server-name",
        ),
        (other, _) => {
            Failure::new("tls-refused", format!("the server refused the connection ({other:?}); see its log"))
        }
    }
}
