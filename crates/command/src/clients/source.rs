//! The sources of clients, and the number of open connections of each.
//!
//! A source is the address of a client: an IPv4 address, the first 64 bits of an IPv6 address, or all clients of Unix
//! sockets together. A user often has a whole prefix of IPv6 addresses, so these count as one.
//!
//! Bounds: [`Sources`] has an entry of about 30 bytes for each source with an open connection, so at most as many as
//! connections. Its lock is taken when a connection begins or ends, and for figures, and held for one lookup.

use std::collections::HashMap;
use std::fmt;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

/// The source of a client.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ClientSource(u128);

impl ClientSource {
    /// The clients of all Unix sockets. No IPv6 prefix has this value.
    pub(crate) const UNIX: Self = Self(u128::MAX);
    /// The first bits of an IPv4 address that is mapped to IPv6.
    const MAPPED: u128 = 0xffff << 32;

    /// Returns a number that only this source has.
    pub(crate) const fn number(self) -> u128 {
        self.0
    }

    /// Returns the source of a client with the address `peer`, or of a Unix socket.
    pub fn of(peer: Option<SocketAddr>) -> Self {
        match peer.map(|peer| peer.ip().to_canonical()) {
            None => Self::UNIX,
            Some(IpAddr::V4(ip)) => Self(Self::MAPPED | u128::from(u32::from(ip))),
            Some(IpAddr::V6(ip)) => Self(u128::from(ip) >> 64 << 64),
        }
    }
}

impl fmt::Display for ClientSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match Ipv6Addr::from(self.0).to_canonical() {
            _ if *self == Self::UNIX => f.write_str("unix"),
            IpAddr::V4(ip) => write!(f, "{ip}"),
            IpAddr::V6(ip) => write!(f, "{ip}/64"),
        }
    }
}

/// The number of open connections of each source.
#[derive(Debug, Default)]
pub struct Sources(Mutex<HashMap<ClientSource, u32>>);

/// An open connection that is counted for its source. It counts until it is dropped.
#[derive(Debug)]
pub struct SourceEntry {
    source: ClientSource,
    sources: Arc<Sources>,
}

impl Sources {
    fn lock(&self) -> MutexGuard<'_, HashMap<ClientSource, u32>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Counts a connection of `source`. Returns `None` if the source has `most` connections already; `most` 0 is no
    /// limit. Unix sockets are not limited: their mode decides who may connect.
    pub fn enter(self: &Arc<Self>, source: ClientSource, most: u64) -> Option<SourceEntry> {
        let mut counts = self.lock();
        let count = counts.entry(source).or_insert(0);
        if most > 0 && u64::from(*count) >= most && source != ClientSource::UNIX {
            return None;
        }
        *count += 1;
        drop(counts);
        Some(SourceEntry { source, sources: Arc::clone(self) })
    }

    /// Returns the number of sources with open connections, and the largest number of connections of one.
    pub fn figures(&self) -> (u64, u64) {
        let counts = self.lock();
        (counts.len() as u64, counts.values().max().copied().unwrap_or(0).into())
    }
}

impl Drop for SourceEntry {
    fn drop(&mut self) {
        let mut counts = self.sources.lock();
        if let Some(count) = counts.get_mut(&self.source) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&self.source);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> ClientSource {
        ClientSource::of(Some(SocketAddr::new(text.parse().expect("an address"), 1)))
    }

    #[test]
    fn addresses_of_one_client_are_one_source() {
        assert_eq!(source("::ffff:192.0.2.1"), source("192.0.2.1"));
        assert_eq!(source("2001:db8::1"), source("2001:db8::2"));
        assert_ne!(source("2001:db8::1"), source("2001:db8:0:1::1"));
        assert_ne!(source("192.0.2.1"), source("192.0.2.2"));
        assert_ne!(source("::1"), source("0.0.0.0"));
        let shown = ["192.0.2.1", "2001:db8::1"].map(|text| source(text).to_string());
        assert_eq!(shown, ["192.0.2.1", "2001:db8::/64"]);
        assert_eq!(ClientSource::of(None).to_string(), "unix");
    }

    #[test]
    fn source_at_its_limit_is_refused_until_one_of_its_connections_ends() {
        let sources = Arc::new(Sources::default());
        let (one, other) = (source("192.0.2.1"), source("192.0.2.2"));
        let mut open: Vec<_> = (0..3).map(|_| sources.enter(one, 3).expect("below the limit")).collect();
        assert!(sources.enter(one, 3).is_none());
        assert!(sources.enter(other, 3).is_some(), "another source has its own limit");
        assert_eq!(sources.figures(), (1, 3), "a refused connection and one that has ended do not count");
        drop(open.pop());
        open.push(sources.enter(one, 3).expect("one has ended"));
        assert!(sources.enter(one, 0).is_some(), "0 is no limit");
        let unix = (0..5).map(|_| sources.enter(ClientSource::UNIX, 3));
        assert!(unix.collect::<Vec<_>>().iter().all(Option::is_some));
        drop(open);
        assert_eq!(sources.figures(), (0, 0));
    }
}
