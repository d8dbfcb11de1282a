//! The client of a slow request, in a form that a ring of slow requests can hold: the address of its peer and the
//! beginning of its name.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};

/// The maximum number of bytes of a client's name that are recorded.
const NAME_BYTES_MAX: usize = 24;
/// The value of the port's word for a client on a Unix socket, which has no address.
const UNIX: u64 = 1 << 16;
/// The number of words of [`SlowClient::words`].
pub(super) const CLIENT_WORDS: usize = 3 + NAME_BYTES_MAX / 8;

/// The client of a slow request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowClient {
    /// The address of the peer. `None` for a Unix socket, or if the connection had closed.
    pub peer: Option<SocketAddr>,
    /// The beginning of the name that `CLIENT SETNAME` gave the client. The rest is filled with zero bytes.
    name: [u8; NAME_BYTES_MAX],
}

impl SlowClient {
    /// Creates a client with this address and the beginning of this name.
    pub fn new(peer: Option<SocketAddr>, name: &[u8]) -> Self {
        let mut kept = [0; NAME_BYTES_MAX];
        kept.iter_mut().zip(name).for_each(|(place, byte)| *place = *byte);
        Self { peer, name: kept }
    }

    /// Returns the beginning of the client's name.
    pub fn name(&self) -> &[u8] {
        &self.name[..self.name.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES_MAX)]
    }

    pub(super) fn words(&self) -> [u64; CLIENT_WORDS] {
        let (ip, port) = match self.peer {
            Some(SocketAddr::V4(peer)) => (peer.ip().to_ipv6_mapped(), peer.port().into()),
            Some(SocketAddr::V6(peer)) => (*peer.ip(), peer.port().into()),
            None => (Ipv6Addr::UNSPECIFIED, UNIX),
        };
        let ip = u128::from(ip);
        let mut words = [0; CLIENT_WORDS];
        words[..3].copy_from_slice(&[(ip >> 64) as u64, ip as u64, port]);
        for (word, bytes) in words[3..].iter_mut().zip(self.name.as_chunks().0) {
            *word = u64::from_le_bytes(*bytes);
        }
        words
    }

    pub(super) fn from_words([high, low, port, name @ ..]: [u64; CLIENT_WORDS]) -> Self {
        let ip = Ipv6Addr::from(u128::from(high) << 64 | u128::from(low));
        let ip = ip.to_ipv4_mapped().map_or(IpAddr::V6(ip), IpAddr::V4);
        let peer = u16::try_from(port).ok().map(|port| SocketAddr::new(ip, port));
        let mut bytes = [0; NAME_BYTES_MAX];
        for (place, word) in bytes.as_chunks_mut().0.iter_mut().zip(name) {
            *place = word.to_le_bytes();
        }
        Self { peer, name: bytes }
    }
}

impl Default for SlowClient {
    fn default() -> Self {
        Self { peer: None, name: [0; NAME_BYTES_MAX] }
    }
}

impl std::fmt::Display for SlowClient {
    /// Writes the address, or `unix:0` without one, as `CLIENT LIST` does.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.peer {
            Some(peer) => f.pad(&peer.to_string()),
            None => f.pad("unix:0"),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_and_names_of_clients_survive_as_words() {
        for (peer, name) in [
            (Some("10.1.2.3:65535"), &b"a name"[..]),
            (Some("[fe80::1:2]:0"), b"012345678901234567890123"),
            (None, b""),
        ] {
            let client = SlowClient::new(peer.map(|peer| peer.parse().unwrap()), name);
            let read = SlowClient::from_words(client.words());
            assert_eq!((read, read.name()), (client, name));
            assert_eq!(read.to_string(), peer.unwrap_or("unix:0"));
        }
    }
}
