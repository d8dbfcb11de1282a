//! Ends sessions with the certificates of their clients.
//!
//! A session contains the client's certificate, and the library does not verify it again when a client resumes the
//! session. So each session is stored with the instant at which the first certificate of the client's chain expires.
//! After that instant the session is unknown: the client makes a full handshake, which verifies its certificate.
//!
//! ```text
//!   full handshake   Verifier ──not_after──> CURRENT ──> Tickets, Sessions: not_after, state of the library
//!   resumption       not_after, state ──is it past?──┬─no──> CURRENT, for the next ticket; the library resumes
//!                                                    └─yes─> no session: full handshake
//! ```
//!
//! The library calls these functions without the connection that it works for. While it works for a connection,
//! `CURRENT` has that connection's instant ([`SessionEnd::with`]).

use std::cell::Cell;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{ProducesTickets, StoresServerSessions};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use crate::names;

/// Length of the instant before the state of a session.
const END_BYTES: usize = size_of::<i64>();

/// The last instant at which a connection's session may be resumed, in Unix seconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SessionEnd(i64);

impl SessionEnd {
    /// The end of a session whose client has no certificate.
    const NEVER: Self = Self(i64::MAX);
}

impl Default for SessionEnd {
    fn default() -> Self {
        Self::NEVER
    }
}

thread_local! {
    /// The end of the session of the connection for which the library works.
    static CURRENT: Cell<SessionEnd> = const { Cell::new(SessionEnd::NEVER) };
}

impl SessionEnd {
    /// Calls `work`, in which the library works for the connection of this session.
    pub(crate) fn with<T>(&mut self, work: impl FnOnce() -> T) -> T {
        CURRENT.set(*self);
        let result = work();
        *self = CURRENT.replace(Self::NEVER);
        result
    }

    /// Returns the end of the session of a client with these certificates. That of a certificate that cannot be parsed
    /// is past.
    fn of(chain: impl Iterator<Item = impl AsRef<[u8]>>) -> Self {
        let ends = chain.map(|der| names::read(der.as_ref()).map_or(i64::MIN, |names| names.not_after));
        ends.min().map_or(Self::NEVER, Self)
    }

    fn is_past(self) -> bool {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |since| since.as_secs());
        i64::try_from(now).unwrap_or(i64::MAX) > self.0
    }
}

/// Returns the state of a session behind the end of the current connection's session.
fn with_end(state: &[u8]) -> Vec<u8> {
    [&CURRENT.get().0.to_le_bytes()[..], state].concat()
}

/// Returns the state of a session that has not ended. Its end becomes that of the current connection's session.
fn unless_ended(mut stored: Vec<u8>) -> Option<Vec<u8>> {
    let end = SessionEnd(i64::from_le_bytes(*stored.first_chunk::<END_BYTES>()?));
    if end.is_past() {
        return None;
    }
    CURRENT.set(end);
    stored.drain(..END_BYTES);
    Some(stored)
}

/// Tickets that end with the certificates of their clients.
#[derive(Debug)]
pub(crate) struct Tickets(pub(crate) Arc<dyn ProducesTickets>);

impl ProducesTickets for Tickets {
    fn enabled(&self) -> bool {
        self.0.enabled()
    }

    fn lifetime(&self) -> u32 {
        self.0.lifetime()
    }

    fn encrypt(&self, plain: &[u8]) -> Option<Vec<u8>> {
        self.0.encrypt(&with_end(plain))
    }

    fn decrypt(&self, cipher: &[u8]) -> Option<Vec<u8>> {
        unless_ended(self.0.decrypt(cipher)?)
    }
}

/// Sessions in the server's memory, for clients of TLS 1.2 without tickets, that end with the certificates of their
/// clients.
#[derive(Debug)]
pub(crate) struct Sessions(pub(crate) Arc<dyn StoresServerSessions>);

impl StoresServerSessions for Sessions {
    fn put(&self, key: Vec<u8>, value: Vec<u8>) -> bool {
        self.0.put(key, with_end(&value))
    }

    fn get(&self, key: &[u8]) -> Option<Vec<u8>> {
        unless_ended(self.0.get(key)?)
    }

    fn take(&self, key: &[u8]) -> Option<Vec<u8>> {
        unless_ended(self.0.take(key)?)
    }

    fn can_cache(&self) -> bool {
        self.0.can_cache()
    }
}

/// A verifier of client certificates that sets the end of the connection's session.
#[derive(Debug)]
pub(crate) struct Verifier(pub(crate) Arc<dyn ClientCertVerifier>);

impl ClientCertVerifier for Verifier {
    fn offer_client_auth(&self) -> bool {
        self.0.offer_client_auth()
    }

    fn client_auth_mandatory(&self) -> bool {
        self.0.client_auth_mandatory()
    }

    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.0.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        let verified = self.0.verify_client_cert(end_entity, intermediates, now)?;
        CURRENT.set(SessionEnd::of(std::iter::once(end_entity).chain(intermediates)));
        Ok(verified)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls12_signature(message, certificate, signature)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.0.verify_tls13_signature(message, certificate, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.supported_verify_schemes()
    }
}
