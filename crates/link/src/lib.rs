//! Client connections: the address of a server, TLS to it, and bytes in both directions.
//!
//! The load generator, the copy tool and the recorder share this crate. It never interprets the bytes of a request or a
//! reply, never reconnects by itself, and never starts a thread.
//!
//! ```text
//!   Address --resolve--> Resolved --begin--> a non-blocking socket             for a caller with its own event loop
//!      |                                        |
//!      |            tls: Settings -> Client -> Maker --make--> Channel         TLS on such a socket
//!      |                                        |
//!      '------------------------------------> Stream                           one socket, a time limit for each wait
//!                                               |
//!                                             Link                             a stream with buffers; can be reopened
//! ```
//!
//! Invariants: a server's certificate is verified unless [`tls::TlsSettings::insecure`] is set. A connection over a
//! unix socket never uses TLS. No error or debug text contains a password or key.
//!
//! # Example
//! ```
//! use gannet_link::Link;
//! use std::io::{Read, Write};
//! use std::time::Duration;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! let listener = std::net::TcpListener::bind("127.0.0.1:0")?;
//! let address = listener.local_addr()?.to_string().parse()?;
//! let server = std::thread::spawn(move || -> std::io::Result<()> {
//!     let (mut client, _) = listener.accept()?;
//!     client.read_exact(&mut [0; 6])?;
//!     client.write_all(b"PONG\r\n")
//! });
//!
//! let mut link = Link::new(address, None, Duration::from_secs(5));
//! link.connect()?;
//! link.out().extend_from_slice(b"PING\r\n");
//! while link.input().len() < 6 {
//!     link.pump()?;
//! }
//! assert_eq!(link.input(), b"PONG\r\n");
//! link.take(6);
//! # server.join().expect("the server thread ends")?;
//! # Ok(())
//! # }
//! ```
#![forbid(unsafe_code)]

mod address;
mod channel;
mod link;
mod stream;
pub mod tls;

pub use address::{Address, AddressError, Resolved, connect_tcp};
pub use channel::{Channel, Handshake, Moved, RECORDS_BYTES, Secured};
pub use link::{Link, wait_any};
pub use stream::ServerStream;
