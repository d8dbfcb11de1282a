//! TLS of one connection, without its socket: records in, plaintext out, and the reverse.
//!
//! ```text
//!   New ──first bytes──> Handshake ──> Open ──close_notify or end──> Ended
//!    └───────────────────────┴──failure──┴───> Failed ──the peer closes, or a second has passed──^
//!
//!   received records ──> sealed (an incomplete record) ──open──> the owner's buffer
//!                                                           └──> opened (the rest of a record, if there is no room)
//!   the owner's parts ──seal──> records ──> socket
//!                                  └──> outgoing (if the socket is full), with `batch`: what is reported later
//! ```
//!
//! Invariants:
//! - After an error of the library, the library is not called any more.
//! - `opened` holds the rest of one record, `sealed` less than one record beside it. While `opened` holds bytes, no
//!   further record is opened.
//! - Records leave in the order in which they were sealed: while `outgoing` holds bytes, nothing is sealed for the
//!   owner.
//! - The plaintext of records in `outgoing` is reported to the owner as these records are sent, so that an owner sees a
//!   slow reader as it does on a plain stream.

use std::io::IoSlice;
use std::sync::Arc;

use io::{Backend, Sent, Token};
use rustls::server::UnbufferedServerConnection;
use rustls::unbuffered::{ConnectionState, EncodeError, UnbufferedStatus};
use rustls::{Error, HandshakeKind, ServerConfig};

use crate::certificates::session_end::SessionEnd;
use crate::names;
use crate::settings::UserFrom;
use crate::shared::{Application, MemoryBound};

/// The first byte of a TLS connection: a record with a handshake message.
pub(crate) const HANDSHAKE_RECORD: u8 = 0x16;
/// Length of a record's header.
const HEADER_BYTES: usize = 5;
/// Largest length of a record after its header, as RFC 8446 (5.2) and RFC 5246 (6.2.3) allow.
const RECORD_BYTES_MAX: usize = (16 << 10) + 2048;
/// Largest number of plaintext bytes in one record.
pub(crate) const PLAIN_BYTES_MAX: usize = 16 << 10;
/// Largest number of bytes by which a sealed record is longer than its plaintext.
pub(crate) const SEAL_BYTES_MAX: usize = 64;
/// Maximum number of bytes of a client's handshake that wait to be complete: a chain of certificates fits.
const HANDSHAKE_BYTES_MAX: usize = 64 << 10;
/// Maximum number of records without application data that one call opens.
const IDLE_RECORDS_MAX: usize = 32;

/// The phase of a connection.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) enum Stage {
    /// Nothing was received.
    #[default]
    New,
    /// The handshake is under way.
    Handshake,
    /// Application data can be sent and received.
    Open,
    /// An alert was sent. What arrives is discarded: closing a socket with unread bytes would reset the connection,
    /// and the peer could lose the alert.
    Failed,
    /// Nothing more is received.
    Ended,
}

impl Stage {
    /// Ends the handshake, if it is under way.
    fn end_handshake(&mut self) {
        if *self == Self::Handshake {
            *self = Self::Open;
        }
    }
}

/// The bytes that one call of [`Connection::open`] opened, and why it ended.
#[derive(Debug, Default)]
pub(crate) struct OpenedRecords {
    /// Number of bytes in the owner's buffer.
    pub(crate) bytes: usize,
    /// Number of consumed bytes of records.
    pub(crate) consumed: usize,
    /// True if the call ended before all complete records were opened.
    pub(crate) is_partial: bool,
}

/// Sealed records that the socket has not accepted, and their plaintext.
#[derive(Debug, Default)]
struct Batch {
    records: usize,
    records_sent: usize,
    plain: usize,
    plain_reported: usize,
}

impl Batch {
    /// Returns the number of plaintext bytes that can be reported now. All of them are reported with the last record.
    fn take_reportable(&mut self) -> usize {
        let whole = self.records_sent >= self.records;
        let due = if whole { self.plain } else { self.plain * self.records_sent / self.records };
        let now = due - self.plain_reported;
        self.plain_reported = due;
        if whole {
            *self = Self::default();
        }
        now
    }
}

/// TLS of one connection.
pub(crate) struct Connection {
    pub(crate) token: Token,
    pub(crate) stage: Stage,
    tls: Option<Box<UnbufferedServerConnection>>,
    session_end: SessionEnd,
    sealed: Vec<u8>,
    /// The number of bytes of `sealed` that the library has seen: complete records with a part of a handshake message.
    /// It refers to them by position, so that each call must pass at least these bytes.
    seen: usize,
    /// True if `sealed` may contain a complete record.
    pub(crate) is_partial: bool,
    opened: Vec<u8>,
    opened_at: usize,
    outgoing: Vec<u8>,
    outgoing_at: usize,
    batch: Batch,
    /// True if the owner wants to know when the socket accepts bytes.
    pub(crate) owner_wants_writable: bool,
    /// True if the sending side is shut down once `outgoing` is sent.
    pub(crate) shuts_after: bool,
    /// True if close_notify was sealed.
    pub(crate) has_sealed_end: bool,
    /// True if the failure of the handshake was counted.
    pub(crate) has_failed: bool,
    /// The line for a client whose first bytes are not TLS.
    pub(crate) application: Application,
    memory: Option<Arc<dyn MemoryBound>>,
    /// The reserved bytes: those of the buffers above.
    reserved: u64,
}

impl std::fmt::Debug for Connection {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Connection").field("stage", &self.stage).finish_non_exhaustive()
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        if let Some(memory) = &self.memory {
            memory.release(self.reserved);
        }
    }
}

/// The result of [`Connection::flush`].
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Flushed {
    /// No records wait.
    All,
    /// Records wait until the socket accepts more.
    Blocked,
    /// The connection is broken.
    Reset,
}

impl Connection {
    pub(crate) fn new(application: Application) -> Self {
        Self {
            token: Token(0),
            stage: Stage::New,
            tls: None,
            session_end: SessionEnd::default(),
            sealed: Vec::new(),
            seen: 0,
            is_partial: false,
            opened: Vec::new(),
            opened_at: 0,
            outgoing: Vec::new(),
            outgoing_at: 0,
            batch: Batch::default(),
            owner_wants_writable: false,
            shuts_after: false,
            has_sealed_end: false,
            has_failed: false,
            application,
            memory: None,
            reserved: 0,
        }
    }

    /// Creates the library's state for a handshake.
    pub(crate) fn begin(&mut self, config: Arc<ServerConfig>, memory: &Arc<dyn MemoryBound>) -> Result<(), Error> {
        self.memory = Some(Arc::clone(memory));
        self.tls = Some(Box::new(UnbufferedServerConnection::new(config)?));
        self.stage = Stage::Handshake;
        Ok(())
    }

    /// Changes the reserved memory to `bytes`. Returns false if the bound would be exceeded.
    fn adjust_memory(&mut self, bytes: u64) -> bool {
        let Some(memory) = &self.memory else { return true };
        if bytes > self.reserved && !memory.reserve(bytes - self.reserved) {
            return false;
        }
        if bytes < self.reserved {
            memory.release(self.reserved - bytes);
        }
        self.reserved = bytes;
        true
    }

    /// Reserves memory for the buffers that the connection holds between two calls, and frees those that it does not
    /// need. Returns false if the bound would be exceeded.
    pub(crate) fn settle(&mut self) -> bool {
        for buffer in [&mut self.sealed, &mut self.opened, &mut self.outgoing] {
            if buffer.is_empty() && buffer.capacity() > 0 {
                *buffer = Vec::new();
            }
        }
        let buffers = (self.sealed.capacity() + self.opened.capacity() + self.outgoing.capacity()) as u64;
        self.adjust_memory(buffers)
    }

    /// Returns true if the handshake resumed an earlier session.
    pub(crate) fn is_resumed(&self) -> bool {
        self.tls.as_ref().is_some_and(|tls| tls.handshake_kind() == Some(HandshakeKind::Resumed))
    }

    /// Returns the names of users in the client's certificate: all candidates, in their order. Returns `None` if the
    /// client has no certificate.
    pub(crate) fn users(&self, from: UserFrom) -> Option<Vec<String>> {
        let certificate = self.tls.as_ref()?.peer_certificates()?.first()?;
        let names = names::read(certificate)?;
        Some(match from {
            UserFrom::None => Vec::new(),
            UserFrom::CommonName => names.common_names,
            UserFrom::SanUri => names.uris,
        })
    }

    /// Returns the number of bytes to receive next if the owner has `room`: enough for the record that has begun, and
    /// no more than fills the room, so that little stays in `opened`.
    pub(crate) fn receive_bytes(&self, room: usize) -> usize {
        let begun = &self.sealed[self.seen..];
        let missing = match begun.get(..HEADER_BYTES) {
            Some(header) => (HEADER_BYTES + record_bytes(header)).saturating_sub(begun.len()),
            None => HEADER_BYTES - begun.len(),
        };
        let room = if self.stage == Stage::Open { room } else { PLAIN_BYTES_MAX };
        missing.max(room + SEAL_BYTES_MAX)
    }

    /// Moves opened bytes that wait to the owner's buffer. Returns their number.
    pub(crate) fn take_opened(&mut self, into: &mut [u8]) -> usize {
        let rest = &self.opened[self.opened_at..];
        let bytes = rest.len().min(into.len());
        into[..bytes].copy_from_slice(&rest[..bytes]);
        self.opened_at += bytes;
        if self.opened_at == self.opened.len() {
            self.opened.clear();
            self.opened_at = 0;
        }
        bytes
    }

    /// Returns true if opened bytes wait for the owner.
    pub(crate) fn has_opened(&self) -> bool {
        !self.opened.is_empty()
    }

    /// Opens the records in `received`, after those that wait. Consumed bytes are not kept.
    pub(crate) fn open(&mut self, received: &mut [u8], into: &mut [u8]) -> Result<OpenedRecords, Error> {
        let mut session_end = self.session_end;
        let opened = session_end.with(|| self.open_received(received, into));
        self.session_end = session_end;
        if opened.is_err() {
            // The library is not called any more: it may refer to bytes that were discarded.
            (self.tls, self.seen, self.is_partial) = (None, 0, false);
            self.sealed.clear();
        }
        let opened = opened?;
        self.is_partial = opened.is_partial;
        let is_too_long = match self.stage {
            Stage::Handshake => self.sealed.len() > HANDSHAKE_BYTES_MAX,
            Stage::Failed | Stage::Ended => {
                self.sealed.truncate(self.seen);
                false
            }
            // The rest of a call that ended early, and a record.
            _ => self.sealed.len() > 2 * (HEADER_BYTES + RECORD_BYTES_MAX) + into.len() + SEAL_BYTES_MAX,
        };
        if is_too_long { Err(Error::General("too many bytes of an incomplete message".to_owned())) } else { Ok(opened) }
    }

    /// Opens the records in `received`, after those that wait, and keeps the bytes that are not consumed. After an
    /// error, the bytes that wait are lost.
    fn open_received(&mut self, received: &mut [u8], into: &mut [u8]) -> Result<OpenedRecords, Error> {
        if self.sealed.is_empty() {
            let opened = self.open_records(received, into)?;
            self.sealed.extend_from_slice(&received[opened.consumed..]);
            return Ok(opened);
        }
        let mut sealed = std::mem::take(&mut self.sealed);
        sealed.extend_from_slice(received);
        let opened = self.open_records(&mut sealed, into)?;
        sealed.drain(..opened.consumed);
        self.sealed = sealed;
        Ok(opened)
    }

    /// Passes complete records to the library, one more whenever it waits: a single call opens all records that have no
    /// data.
    fn open_records(&mut self, records: &mut [u8], into: &mut [u8]) -> Result<OpenedRecords, Error> {
        let Self { tls, stage, opened: rest, outgoing, seen, .. } = self;
        let Some(tls) = tls else { return Ok(OpenedRecords::default()) };
        // `end` is always the end of a record. The library has seen the records before it.
        let (mut opened, mut idle, mut end, mut waits) = (OpenedRecords::default(), 0, *seen, true);
        loop {
            let is_full = !rest.is_empty() || opened.bytes == into.len() && !into.is_empty();
            if waits || is_full {
                let next = record_end(records, end);
                *seen = end - opened.consumed;
                if is_full || next.is_none() || idle > IDLE_RECORDS_MAX {
                    opened.is_partial = next.is_some();
                    return Ok(opened);
                }
                end = next.unwrap_or(end);
            }
            let UnbufferedStatus { mut discard, state, .. } =
                tls.process_tls_records(&mut records[opened.consumed..end]);
            waits = false;
            match state {
                Ok(ConnectionState::ReadTraffic(mut traffic)) => {
                    idle = 0;
                    while let Some(record) = traffic.next_record() {
                        let record = record?;
                        discard += record.discard;
                        let bytes = record.payload.len().min(into.len() - opened.bytes);
                        into[opened.bytes..][..bytes].copy_from_slice(&record.payload[..bytes]);
                        opened.bytes += bytes;
                        rest.extend_from_slice(&record.payload[bytes..]);
                    }
                    // A call without a record would only report that the library waits.
                    waits = *stage == Stage::Open && opened.consumed + discard == end;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => encode(&mut data, outgoing)?,
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed | ConnectionState::Closed) => {
                    *stage = Stage::Ended;
                    opened.consumed += discard;
                    *seen = end - opened.consumed;
                    return Ok(opened);
                }
                Ok(ConnectionState::WriteTraffic(_)) => {
                    stage.end_handshake();
                    (waits, idle) = (true, idle + 1);
                }
                Ok(ConnectionState::BlockedHandshake) => (waits, idle) = (true, idle + 1),
                Ok(_) => return Err(Error::General("the library is in an unknown state".to_owned())),
                Err(error) => {
                    // If the library has queued an alert, it returns that first. Otherwise the call would continue with
                    // bytes to which the library refers by position, and which it has discarded: it would panic.
                    if tls.wants_write()
                        && let Ok(ConnectionState::EncodeTlsData(mut data)) = tls.process_tls_records(&mut []).state
                    {
                        encode(&mut data, outgoing)?;
                    }
                    return Err(error);
                }
            }
            opened.consumed += discard;
        }
    }

    /// Seals `plain` into `records`, behind records of the library that wait. Returns the number of bytes of records.
    /// `records` must have room for [`SEAL_BYTES_MAX`] more bytes for each record.
    pub(crate) fn seal(&mut self, plain: &[u8], records: &mut [u8]) -> Result<usize, Error> {
        let Self { tls: Some(tls), stage: Stage::Open | Stage::Ended, sealed: held, seen, .. } = self else {
            return Err(Error::HandshakeNotComplete);
        };
        let mut own = Vec::new();
        loop {
            match tls.process_tls_records(&mut held[..*seen]).state? {
                ConnectionState::WriteTraffic(mut traffic) => {
                    let Some(place) = records.get_mut(..own.len()) else { return Err(Error::HandshakeNotComplete) };
                    place.copy_from_slice(&own);
                    let sealed = traffic.encrypt(plain, &mut records[own.len()..]);
                    let sealed = sealed.map_err(|error| Error::General(error.to_string()))?;
                    return Ok(own.len() + sealed);
                }
                ConnectionState::EncodeTlsData(mut data) => encode(&mut data, &mut own)?,
                ConnectionState::TransmitTlsData(data) => data.done(),
                ConnectionState::PeerClosed => {}
                _ => return Err(Error::HandshakeNotComplete),
            }
        }
    }

    /// Seals close_notify, once, behind the records that wait.
    pub(crate) fn seal_end(&mut self) {
        let Self { tls: Some(tls), stage: Stage::Open | Stage::Ended, sealed: held, seen, outgoing, .. } = self else {
            return;
        };
        if std::mem::replace(&mut self.has_sealed_end, true) {
            return;
        }
        loop {
            match tls.process_tls_records(&mut held[..*seen]).state {
                Ok(ConnectionState::WriteTraffic(mut traffic)) => {
                    let mut record = [0; 2 * SEAL_BYTES_MAX];
                    if let Ok(bytes) = traffic.queue_close_notify(&mut record) {
                        outgoing.extend_from_slice(&record[..bytes]);
                    }
                    return;
                }
                Ok(ConnectionState::EncodeTlsData(mut data)) => {
                    if encode(&mut data, outgoing).is_err() {
                        return;
                    }
                }
                Ok(ConnectionState::TransmitTlsData(data)) => data.done(),
                Ok(ConnectionState::PeerClosed) => {}
                _ => return,
            }
        }
    }

    /// Queues bytes without sealing them, for a peer that does not use TLS.
    pub(crate) fn queue_plain(&mut self, bytes: &[u8]) {
        self.outgoing.extend_from_slice(bytes);
    }

    /// Keeps records that the socket did not accept: the part of `records` from `sent` on, with `plain` bytes of
    /// plaintext in all of `records`. Returns the number of plaintext bytes to report now.
    pub(crate) fn keep(&mut self, records: &[u8], sent: usize, plain: usize) -> usize {
        debug_assert!(self.outgoing.is_empty() && self.batch.plain == 0, "records are sealed before others are sent");
        self.outgoing.extend_from_slice(&records[sent..]);
        self.batch = Batch { records: records.len(), records_sent: sent, plain, plain_reported: 0 };
        self.batch.take_reportable()
    }

    /// Returns the number of plaintext bytes whose records were sent since the last report.
    pub(crate) fn take_reportable(&mut self) -> usize {
        if self.batch.plain == 0 { 0 } else { self.batch.take_reportable() }
    }

    /// Returns true if records wait for the socket.
    pub(crate) fn has_outgoing(&self) -> bool {
        !self.outgoing.is_empty()
    }

    /// Sends the records that wait.
    pub(crate) fn flush<B: Backend>(&mut self, io: &mut B, stream: &B::Stream) -> Flushed {
        while self.outgoing_at < self.outgoing.len() {
            match io.send(stream, &[IoSlice::new(&self.outgoing[self.outgoing_at..])]) {
                Sent::Bytes(bytes) => {
                    self.outgoing_at += bytes;
                    self.batch.records_sent += bytes;
                }
                Sent::Blocked => return Flushed::Blocked,
                Sent::Reset => return Flushed::Reset,
            }
        }
        self.outgoing = Vec::new();
        self.outgoing_at = 0;
        Flushed::All
    }
}

/// Appends a record of the library to `to`.
fn encode<D>(data: &mut rustls::unbuffered::EncodeTlsData<'_, D>, to: &mut Vec<u8>) -> Result<(), Error> {
    let at = to.len();
    match data.encode(&mut to[at..]) {
        Ok(_) | Err(EncodeError::AlreadyEncoded) => Ok(()),
        Err(EncodeError::InsufficientSize(size)) => {
            to.resize(at + size.required_size, 0);
            data.encode(&mut to[at..]).map(drop).map_err(|error| Error::General(error.to_string()))
        }
    }
}

/// Returns the length that a record's header announces.
fn record_bytes(header: &[u8]) -> usize {
    usize::from(u16::from_be_bytes([header[3], header[4]]))
}

/// Returns the end of the record that begins at `at`; `None` if the record is incomplete. Bytes whose header announces
/// more than a record may have are passed to the library as they are, which refuses them.
fn record_end(records: &[u8], at: usize) -> Option<usize> {
    let bytes = record_bytes(records.get(at..at + HEADER_BYTES)?);
    let end = at + HEADER_BYTES + bytes;
    if bytes > RECORD_BYTES_MAX { Some(records.len()) } else { (end <= records.len()).then_some(end) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn progress_of_kept_records_is_reported_in_parts_and_completely() {
        let mut batch = Batch { records: 1000, records_sent: 0, plain: 900, plain_reported: 0 };
        assert_eq!(batch.take_reportable(), 0);
        batch.records_sent = 500;
        assert_eq!(batch.take_reportable(), 450);
        assert_eq!(batch.take_reportable(), 0);
        batch.records_sent = 1020;
        assert_eq!(batch.take_reportable(), 450);
        assert_eq!(batch.plain, 0);
    }

    #[test]
    fn ends_of_records_follow_from_their_headers() {
        let records = [23, 3, 3, 0, 2, 9, 9, 23, 3, 3, 0, 9, 1];
        assert_eq!((record_end(&records, 0), record_end(&records, 7), record_end(&records, 13)), (Some(7), None, None));
        assert_eq!(record_end(&records[..3], 0), None);
        assert_eq!(record_end(&[23, 3, 3, 255, 255, 1], 0), Some(6), "the library refuses it");
    }
}
