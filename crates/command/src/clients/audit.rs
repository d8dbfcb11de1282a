//! The queue of the audit log: logins, and changes of users, settings and data that only operators make.
//!
//! ```text
//!   worker, admin port: event ──> queue, bounded ──> survey thread, once a second ──> file
//!                                   └─ full: counted, and reported in the file
//! ```
//! Invariants:
//! - No record contains a password, a hash or a value.
//! - A thread that records an event waits for no disk. The lock is held while a record is pushed, or the queue taken.
//! - Logins cannot displace changes: they have shares of the queue.

use super::endpoint::Protocol;
use base::clock::UnixMillis;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::sync::{Mutex, PoisonError};

/// The maximum number of queued records.
const RECORDS_MAX: usize = 1024;
/// The maximum numbers of queued logins, and of failed ones. The queue is emptied once a second.
const LOGINS_MAX: usize = 256;
const FAILED_LOGINS_MAX: usize = 64;
/// The maximum length of a record's user and of its detail, in bytes.
const USER_BYTES_MAX: usize = 64;
const DETAIL_BYTES_MAX: usize = 4096;

/// The kind of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditEvent {
    /// A client has authenticated.
    Login,
    /// A client has failed to authenticate.
    LoginFailed,
    /// Users or their rights were changed, saved or loaded by a command.
    Acl,
    /// A setting was changed.
    Config,
    /// All keys of namespaces were deleted or exchanged.
    Flush,
    /// A client has stopped the server.
    Shutdown,
    /// The files of users were read again.
    UsersReload,
    /// The files of certificates were read again.
    CertificateReload,
    /// A command for operators was executed.
    Command,
}

impl AuditEvent {
    /// Returns the event's name in the file.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Login => "login",
            Self::LoginFailed => "login_failed",
            Self::Acl => "acl",
            Self::Config => "config",
            Self::Flush => "flush",
            Self::Shutdown => "shutdown",
            Self::UsersReload => "users_reload",
            Self::CertificateReload => "certificate_reload",
            Self::Command => "command",
        }
    }
}

/// The origin of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AuditOrigin {
    /// A client, by its address, or `None` at a Unix socket.
    Client(Option<SocketAddr>, Protocol),
    /// A request at the admin port.
    Admin,
    /// The server itself, by a signal or a changed file.
    Server,
}

/// A record of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditRecord {
    /// The instant of the event.
    pub at: UnixMillis,
    /// The kind of the event.
    pub event: AuditEvent,
    /// The origin of the event.
    pub origin: AuditOrigin,
    /// The user; empty if there is none.
    pub user: String,
    /// What was changed, without secrets.
    pub detail: String,
}

#[derive(Debug, Default)]
struct AuditQueue {
    records: Vec<AuditRecord>,
    logins: usize,
    failed_logins: usize,
    /// The number of records that were dropped since the queue was taken.
    dropped: u64,
}

/// The queue of the audit log.
#[derive(Debug, Default)]
pub struct AuditLog {
    is_on: bool,
    queue: Mutex<AuditQueue>,
    dropped: AtomicU64,
}

impl AuditLog {
    /// Creates the queue. If `is_on` is false, it records nothing.
    pub fn new(is_on: bool) -> Self {
        Self { is_on, ..Self::default() }
    }

    /// Records an event. `detail` must return no secret.
    pub fn record(&self, event: AuditEvent, origin: AuditOrigin, user: &[u8], detail: impl FnOnce() -> String) {
        if !self.is_on {
            return;
        }
        let user = String::from_utf8_lossy(&user[..user.len().min(USER_BYTES_MAX)]).into_owned();
        let mut detail = detail();
        if detail.len() > DETAIL_BYTES_MAX {
            let end = (0..=DETAIL_BYTES_MAX).rev().find(|end| detail.is_char_boundary(*end)).unwrap_or(0);
            let cut = detail.len() - end;
            detail.truncate(end);
            detail.push_str(&format!(" [{cut} more bytes]"));
        }
        let record = AuditRecord { at: UnixMillis::now(), event, origin, user, detail };
        let mut queue = self.queue.lock().unwrap_or_else(PoisonError::into_inner);
        let AuditQueue { records, logins, failed_logins, dropped } = &mut *queue;
        let is_full = match event {
            AuditEvent::Login => count_up(logins, LOGINS_MAX),
            AuditEvent::LoginFailed => count_up(failed_logins, FAILED_LOGINS_MAX),
            _ => records.len() - *logins - *failed_logins >= RECORDS_MAX - LOGINS_MAX - FAILED_LOGINS_MAX,
        };
        if is_full {
            *dropped += 1;
            self.dropped.fetch_add(1, Relaxed);
        } else {
            records.push(record);
        }
    }

    /// Removes and returns all records, and the number of records that were dropped since the last call.
    pub fn take(&self) -> (Vec<AuditRecord>, u64) {
        if !self.is_on {
            return (Vec::new(), 0);
        }
        let queue = std::mem::take(&mut *self.queue.lock().unwrap_or_else(PoisonError::into_inner));
        (queue.records, queue.dropped)
    }

    /// Counts `records` that could not be written, and `earlier` ones that were dropped before and that the file does
    /// not report yet. The next record that is written reports them.
    pub fn note_unwritten(&self, records: u64, earlier: u64) {
        self.dropped.fetch_add(records, Relaxed);
        self.queue.lock().unwrap_or_else(PoisonError::into_inner).dropped += records + earlier;
    }

    /// Returns the number of records that were dropped or could not be written since the start.
    pub fn dropped(&self) -> u64 {
        self.dropped.load(Relaxed)
    }
}

/// Counts one more, unless `count` has reached `most`. Returns true if it has.
fn count_up(count: &mut usize, most: usize) -> bool {
    let is_full = *count == most;
    *count += usize::from(!is_full);
    is_full
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_logins_displaces_no_change_and_the_queue_is_bounded() {
        let audit = AuditLog::new(true);
        let origin = AuditOrigin::Client(None, Protocol::Resp);
        for event in [AuditEvent::LoginFailed, AuditEvent::Login, AuditEvent::Acl] {
            (0..2000).for_each(|number| audit.record(event, origin, &[b'u'; 99], || "\u{e4}".repeat(number)));
        }
        let (records, dropped) = audit.take();
        let count = |event| records.iter().filter(|record| record.event == event).count();
        let counts = [AuditEvent::LoginFailed, AuditEvent::Login, AuditEvent::Acl].map(count);
        assert_eq!((counts, dropped), ([64, 256, 704], 6000 - 1024));
        assert!(records.iter().all(|record| record.user.len() <= 64 && record.detail.len() <= DETAIL_BYTES_MAX));
        assert_eq!((audit.take(), audit.dropped()), ((Vec::new(), 0), 6000 - 1024));
        audit.record(AuditEvent::Login, origin, b"u", String::new);
        assert_eq!(audit.take().0.len(), 1, "the shares begin again");
        let off = AuditLog::new(false);
        off.record(AuditEvent::Acl, origin, b"u", || unreachable!("it is off"));
        assert_eq!(off.take().0, []);
    }
}
