//! Failures of handshakes: a kind for metrics, a description and a remedy for the log.

use std::fmt;

use rustls::{AlertDescription as Alert, CertificateError, Error, PeerIncompatible, PeerMisbehaved};

/// The kinds of failures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureKind {
    /// The client's first bytes are not TLS.
    NotTls,
    /// Client and server share no version of TLS.
    Version,
    /// Client and server share no cipher suite, signature or group.
    Cipher,
    /// The client has no certificate, but one is required.
    NoCertificate,
    /// The client's certificate is not valid: unknown CA, expired, revoked, or broken.
    BadCertificate,
    /// The client refused the server's certificate, or the handshake.
    RefusedByClient,
    /// The client closed the connection, or reset it.
    Closed,
    /// The client took too long, or its place was needed while it was silent.
    TimedOut,
    /// Client memory is used up.
    NoMemory,
    /// The client violated the protocol.
    Protocol,
}

impl FailureKind {
    /// All kinds, in the order of their numbers.
    pub const ALL: [Self; 10] = [
        Self::NotTls,
        Self::Version,
        Self::Cipher,
        Self::NoCertificate,
        Self::BadCertificate,
        Self::RefusedByClient,
        Self::Closed,
        Self::TimedOut,
        Self::NoMemory,
        Self::Protocol,
    ];

    /// Returns the kind's name in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::NotTls => "not_tls",
            Self::Version => "version",
            Self::Cipher => "cipher",
            Self::NoCertificate => "no_certificate",
            Self::BadCertificate => "bad_certificate",
            Self::RefusedByClient => "refused_by_client",
            Self::Closed => "closed",
            Self::TimedOut => "timed_out",
            Self::NoMemory => "no_memory",
            Self::Protocol => "protocol",
        }
    }
}

/// A failed handshake. Displayed as a description and a remedy.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct HandshakeFailure {
    /// The kind of the failure.
    pub kind: FailureKind,
    /// Description and remedy.
    pub what: String,
}

impl fmt::Display for HandshakeFailure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.what)
    }
}

impl HandshakeFailure {
    pub(crate) fn new(kind: FailureKind, what: impl Into<String>) -> Self {
        Self { kind, what: what.into() }
    }

    pub(crate) fn not_tls() -> Self {
        Self::new(FailureKind::NotTls, "its first bytes are not TLS; connect with TLS, or to a port without it")
    }

    pub(crate) fn closed() -> Self {
        Self::new(FailureKind::Closed, "it closed the connection during the handshake; its own log has the reason")
    }

    /// Describes an error of the library.
    pub(crate) fn of(error: &Error) -> Self {
        match error {
            Error::InvalidCertificate(error) => Self::new(FailureKind::BadCertificate, of_certificate(error)),
            Error::NoCertificatesPresented => Self::new(
                FailureKind::NoCertificate,
                "it has no certificate; give it one that a CA of tls.client_ca has signed, or set tls.client_auth to \
                 optional",
            ),
            Error::AlertReceived(alert) => of_alert(*alert),
            Error::PeerIncompatible(
                // Clients of TLS 1.1 and older do not send this extension, and the library checks it first.
                PeerIncompatible::SignatureAlgorithmsExtensionRequired
                | PeerIncompatible::Tls12NotOffered
                | PeerIncompatible::Tls12NotOfferedOrEnabled
                | PeerIncompatible::Tls13RequiredForQuic
                | PeerIncompatible::SupportedVersionsExtensionRequired,
            ) => Self::new(FailureKind::Version, "it supports none of the allowed versions; see tls.versions"),
            Error::PeerIncompatible(why) => Self::new(
                FailureKind::Cipher,
                format!("it supports no cipher suite, signature or group of this server ({why:?}); see tls.ciphers"),
            ),
            Error::PeerMisbehaved(PeerMisbehaved::TooManyKeyUpdateRequests) => {
                Self::new(FailureKind::Protocol, "it requests new keys without end")
            }
            other => Self::new(FailureKind::Protocol, format!("it violates the protocol ({other})")),
        }
    }
}

fn of_certificate(error: &CertificateError) -> String {
    match error {
        CertificateError::Expired | CertificateError::ExpiredContext { .. } => {
            "its certificate has expired; issue a new one".to_owned()
        }
        CertificateError::NotValidYet | CertificateError::NotValidYetContext { .. } => {
            "its certificate is not valid yet; check the clocks of both hosts".to_owned()
        }
        CertificateError::UnknownIssuer | CertificateError::BadSignature => {
            "no CA of tls.client_ca has signed its certificate; add the CA, or issue another certificate".to_owned()
        }
        // The library of certificates is not a public dependency of the library of TLS: its errors have no type here.
        CertificateError::Other(other) if other.to_string().contains("UnsupportedCertVersion") => {
            "its certificate has X.509 version 1; issue one of version 3, which any extension makes it: openssl req \
             -addext extendedKeyUsage=clientAuth, and openssl x509 -copy_extensions copy"
                .to_owned()
        }
        CertificateError::Revoked => "its certificate is revoked; issue a new one".to_owned(),
        other => format!("its certificate cannot be used ({other}); issue one for client authentication"),
    }
}

fn of_alert(alert: Alert) -> HandshakeFailure {
    let what = match alert {
        Alert::UnknownCA => "it does not know the CA of this server's certificate; give the client that CA".to_owned(),
        Alert::CertificateExpired => "it says that this server's certificate has expired; replace it".to_owned(),
        Alert::BadCertificate | Alert::CertificateUnknown | Alert::UnsupportedCertificate => format!(
            "it refuses this server's certificate ({alert:?}); check that the certificate has the name that the client \
             connects to, and that the client has its CA"
        ),
        Alert::ProtocolVersion => "it supports none of the allowed versions; see tls.versions".to_owned(),
        other => format!("it ended the handshake ({other:?}); its own log has the reason"),
    };
    HandshakeFailure::new(FailureKind::RefusedByClient, what)
}
