//! Connections with TLS over a simulated network: an echo server on [`Secure`], and clients of the TLS library.

mod certificates;
mod files;
mod handshakes;
mod mutations;
mod streams;
mod world;
