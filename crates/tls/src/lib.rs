//! TLS of the server: certificates and their reload, and TLS between a reactor and its owner.
//!
//! ```text
//!   TlsSettings ──read──> Loaded: a configuration of rustls, the facts of each certificate
//!                           │          (replaced as a whole by Tls::reload; a broken file keeps the old one)
//!                           v
//!   Tls: shared by all reactors: the current Loaded, limits, figures
//!                           │
//!                           v
//!   owner <── plaintext ── Secure<B> ── records ──> B (epoll, io_uring, a simulation) <──> socket
//!                            SecureStream: a plain stream, or one with a Connection
//! ```
//!
//! [`Secure`] is itself a [`io::Backend`], so a worker serves TLS connections with the code that serves others. A plain
//! stream costs one comparison in each call.
//!
//! Invariants:
//! - A connection holds no buffer between two requests. It holds at most one incomplete record, one opened record that
//!   its owner had no room for, and one batch of sealed records that its peer does not read. All are counted in the
//!   bound on client memory. The state of the library is not: the maximum of connections bounds it.
//! - At most [`STEPS_PER_ITERATION`] steps of handshakes are computed between two waits. The others wait.
//! - The number of handshakes under way and the duration of each are bounded. A handshake beyond the number waits
//!   unread until another one ends. While one waits, those under way end after a second.
//! - A session is resumed only until the client's certificate expires (`certificates::session_end`).
//! - No error, log line or debug text contains a key.
#![forbid(unsafe_code)]

mod certificates;
mod connection;
mod failure;
mod figures;
mod names;
mod secure;
mod settings;
mod shared;
mod socket;

pub use certificates::{CertificateFacts, Loaded};
pub use failure::{FailureKind, HandshakeFailure};
pub use figures::Figures;
pub use secure::{STEPS_PER_ITERATION, Secure, SecureStream};
pub use settings::{CertificateFiles, ClientAuth, SettingError, TlsSettings, UserFrom, Versions, cipher_names};
pub use shared::{Application, EventLog, HandshakeLimits, LogEvent, MemoryBound, Reloaded, Tls};
pub use socket::SecureSocket;
