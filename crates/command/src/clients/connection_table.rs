//! The connection table: a worker's list of its connections, which other threads can read.
//!
//! ```text
//!   worker: admit ──open──> Entry <──seen── sweep, once a second       any worker: `stats conns` ──each──> all entries
//!           release ─close──> Entry
//! ```
//!
//! The table has one writer and any number of readers. It has no lock except that of a client info
//! ([`super::client_info`]). An entry's `life` is odd while a connection is open, and increases with each open and
//! close. A reader reads `life` before and after the entry, and skips an entry that changed in between.
//!
//! Memory: an entry of 72 bytes for each possible connection of the worker, which is first touched when it is used, and
//! a client info for each Redis client.

use crate::clients::client_info::ClientInfo;
use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::ops::Range;
use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The connections of one worker, readable by other threads.
#[derive(Debug)]
pub struct ConnectionTable {
    entries: Box<[ConnectionEntry]>,
}

/// A connection's entry in the table.
#[derive(Debug, Default)]
struct ConnectionEntry {
    life: AtomicU64,
    /// The peer's address as IPv6; an IPv4 address is mapped.
    ip: [AtomicU64; 2],
    /// The file descriptor in the upper 32 bits, and the peer's port, or [`UNIX`] for a unix socket, in the lower ones.
    port: AtomicU64,
    /// The instant of the last received bytes in Unix seconds, times four, plus the [`ConnectionState`].
    seen: AtomicU64,
    /// The id ([`ClientInfo::id`]) of the client whose connection the worker must close. 0: none.
    killed: AtomicU64,
    /// The info about the client, if it is a Redis client.
    client_info: Mutex<Option<Box<ClientInfo>>>,
}

const UNIX: u64 = u32::MAX as u64;

impl ConnectionEntry {
    fn client_info(&self) -> MutexGuard<'_, Option<Box<ClientInfo>>> {
        self.client_info.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn peer(&self, ip: [u64; 2], port: u64) -> Option<SocketAddr> {
        let ip = Ipv6Addr::from(u128::from(ip[0]) << 64 | u128::from(ip[1])).to_canonical();
        u16::try_from(port & UNIX).ok().map(|port| SocketAddr::new(ip, port))
    }
}

/// The event for which a connection waits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectionState {
    /// A request.
    Request,
    /// The rest of a value.
    Value,
    /// Events: the connection is a watcher.
    Events,
}

/// A connection, as of the worker's last sweep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Connection {
    /// The connection's number in its worker.
    pub number: usize,
    /// The peer's address; `None` for a unix socket.
    pub peer: Option<SocketAddr>,
    /// The instant of the last received bytes, in Unix seconds, accurate to one or two seconds.
    pub received_secs: u64,
    /// The number of the connection's file descriptor.
    pub descriptor: u32,
    /// The event for which the connection waits.
    pub state: ConnectionState,
}

impl ConnectionTable {
    /// Creates a table for `connections_max` connections.
    pub fn new(connections_max: usize) -> Self {
        Self { entries: (0..connections_max).map(|_| ConnectionEntry::default()).collect() }
    }

    /// Returns the number of entries. Every connection's number is below it.
    pub fn capacity(&self) -> usize {
        self.entries.len()
    }

    /// Records a new connection with its file descriptor. A connection whose number exceeds the table is not recorded.
    pub fn open(&self, number: u32, descriptor: u32, peer: Option<SocketAddr>, now_secs: u64) {
        let Some(entry) = self.entries.get(number as usize) else { return };
        // A reader that sees one of the following writes also sees that the entry's previous connection has been
        // closed.
        fence(Release);
        let (ip, port) = match peer.map(|peer| (peer.ip(), peer.port())) {
            Some((IpAddr::V4(ip), port)) => (u128::from(ip.to_ipv6_mapped()), u64::from(port)),
            Some((IpAddr::V6(ip), port)) => (u128::from(ip), u64::from(port)),
            None => (0, UNIX),
        };
        entry.ip[0].store((ip >> 64) as u64, Relaxed);
        entry.ip[1].store(ip as u64, Relaxed);
        entry.port.store(u64::from(descriptor) << 32 | port, Relaxed);
        entry.seen.store(now_secs * 4, Relaxed);
        entry.life.store(entry.life.load(Relaxed) | 1, Release);
    }

    /// Updates an entry. The worker calls this function in its sweep.
    pub fn update(&self, number: u32, received_secs: u64, state: ConnectionState) {
        if let Some(entry) = self.entries.get(number as usize) {
            entry.seen.store(received_secs * 4 + state as u64, Relaxed);
        }
    }

    /// Records that the connection has closed.
    pub fn close(&self, number: u32) {
        if let Some(entry) = self.entries.get(number as usize) {
            *entry.client_info() = None;
            entry.life.store(entry.life.load(Relaxed) + 1, Relaxed);
        }
    }

    /// Stores the client info of a new connection.
    pub fn set_client_info(&self, number: u32, client_info: ClientInfo) {
        if let Some(entry) = self.entries.get(number as usize) {
            *entry.client_info() = Some(Box::new(client_info));
        }
    }

    /// Calls `look` with a connection's client info and returns its result. Returns `None` if there is no client info.
    pub fn client_info<T>(&self, number: u32, look: impl FnOnce(&mut ClientInfo) -> T) -> Option<T> {
        self.entries.get(number as usize)?.client_info().as_deref_mut().map(look)
    }

    /// Marks client `id` at `number` to be closed by its worker, which the caller must wake. Returns false if the entry
    /// now belongs to another client.
    pub(crate) fn kill(&self, number: u32, id: u64) -> bool {
        let Some(entry) = self.entries.get(number as usize) else { return false };
        let there = entry.client_info().as_deref().is_some_and(|client_info| client_info.id == id);
        if there {
            entry.killed.store(id, Relaxed);
        }
        there
    }

    /// Returns true if the client at `number` must be closed.
    pub fn is_killed(&self, number: u32) -> bool {
        let Some(entry) = self.entries.get(number as usize) else { return false };
        let killed = entry.killed.load(Relaxed);
        killed != 0 && entry.client_info().as_deref().is_some_and(|client_info| client_info.id == killed)
    }

    /// Calls `each` for every connection with a client info among the entries `numbers`.
    pub(crate) fn clients(&self, numbers: Range<usize>, mut each: impl FnMut(&Connection, &ClientInfo)) {
        for number in numbers.start..numbers.end.min(self.entries.len()) {
            if let Some(connection) = self.connection(number)
                && let Some(client_info) = self.entries[number].client_info().as_deref()
            {
                each(&connection, client_info);
            }
        }
    }

    /// Returns the connection at `number`. Returns `None` if there is none, or if it changed while it was read.
    fn connection(&self, number: usize) -> Option<Connection> {
        let entry = self.entries.get(number)?;
        let life = entry.life.load(Acquire);
        if life.is_multiple_of(2) {
            return None;
        }
        let ip = [entry.ip[0].load(Relaxed), entry.ip[1].load(Relaxed)];
        let (port, seen) = (entry.port.load(Relaxed), entry.seen.load(Relaxed));
        fence(Acquire);
        (entry.life.load(Relaxed) == life).then(|| {
            let peer = entry.peer(ip, port);
            let state = match seen % 4 {
                0 => ConnectionState::Request,
                1 => ConnectionState::Value,
                _ => ConnectionState::Events,
            };
            Connection { number, peer, received_secs: seen / 4, descriptor: (port >> 32) as u32, state }
        })
    }

    /// Returns the number of the file descriptor of connection `number`. Only the worker that owns the connection may
    /// call this function.
    pub(crate) fn descriptor(&self, number: u32) -> u32 {
        self.entries.get(number as usize).map_or(0, |entry| (entry.port.load(Relaxed) >> 32) as u32)
    }

    /// Returns the address of the peer of connection `number`, or `None` for a unix socket. Only the worker that owns
    /// the connection may call this function.
    pub fn peer(&self, number: u32) -> Option<SocketAddr> {
        let entry = self.entries.get(number as usize)?;
        entry.peer([entry.ip[0].load(Relaxed), entry.ip[1].load(Relaxed)], entry.port.load(Relaxed))
    }

    /// Calls `each` for every open connection.
    pub fn each(&self, mut each: impl FnMut(Connection)) {
        (0..self.entries.len()).filter_map(|number| self.connection(number)).for_each(&mut each);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(connection_table: &ConnectionTable) -> Vec<Connection> {
        let mut all = Vec::new();
        connection_table.each(|connection| all.push(connection));
        all
    }

    #[test]
    fn open_connections_are_listed_with_their_latest_state() {
        let connection_table = ConnectionTable::new(3);
        let v4: SocketAddr = "10.1.2.3:4567".parse().unwrap();
        let v6: SocketAddr = "[2001:db8::9]:1".parse().unwrap();
        connection_table.open(0, 30, Some(v4), 100);
        connection_table.open(1, 31, None, 100);
        connection_table.open(2, 32, Some(v6), 101);
        connection_table.open(3, 33, Some(v4), 101);
        connection_table.update(1, 105, ConnectionState::Events);
        connection_table.update(2, 105, ConnectionState::Value);
        connection_table.close(0);
        let replied = |number, peer, received_secs, state| Connection {
            number,
            peer,
            received_secs,
            descriptor: 30 + number as u32,
            state,
        };
        assert_eq!(
            all(&connection_table),
            [replied(1, None, 105, ConnectionState::Events), replied(2, Some(v6), 105, ConnectionState::Value)]
        );
        connection_table.open(0, 30, Some(v4), 107);
        assert_eq!(all(&connection_table)[0], replied(0, Some(v4), 107, ConnectionState::Request));
    }

    /// The test derives each connection's time from its address. A reader must never see the address of one connection
    /// with the time of another connection.
    #[test]
    fn entries_never_mix_two_connections() {
        let connection_table = ConnectionTable::new(1);
        let done = std::sync::atomic::AtomicBool::new(false);
        let replied = std::thread::scope(|scope| {
            let reader = scope.spawn(|| {
                let mut replied = 0u64;
                while !done.load(Relaxed) {
                    connection_table.each(|connection| {
                        let peer = connection.peer.expect("a TCP peer");
                        assert_eq!(
                            peer.ip(),
                            IpAddr::V6(Ipv6Addr::from(u128::from(peer.port()) << 64 | u128::from(peer.port())))
                        );
                        replied += 1;
                    });
                }
                replied
            });
            for number in 0..400_000u64 {
                let port = (number % 60_000) as u16 + 1;
                let ip = Ipv6Addr::from(u128::from(port) << 64 | u128::from(port));
                connection_table.open(0, 7, Some(SocketAddr::new(ip.into(), port)), number);
                connection_table.close(0);
            }
            connection_table.open(0, 7, Some("[0:0:0:1::1]:1".parse().unwrap()), 0);
            std::thread::sleep(std::time::Duration::from_millis(20));
            done.store(true, Relaxed);
            reader.join().expect("the reader")
        });
        assert!(replied > 0);
    }
}
