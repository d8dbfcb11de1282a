//! Events as log lines, which are retained until they are published.
//!
//! ```text
//!   ts=1700000000.123000 gid=7 type=item_get key=a%20b status=found clsid=12 cfd=3 size=5\n
//!   ts=... gid=8 type=item_store key=a status=stored cmd=set ttl=60 clsid=12 cfd=3 size=5\n
//!   ts=... gid=9 type=eviction key=a fetch=yes ttl=12 la=3 clsid=12 size=5\n
//!   ts=... gid=10 type=deleted key=a cmd=delete clsid=12 size=5\n
//!   ts=... gid=11 type=conn_new rip=10.1.2.3 rport=4567 transport=tcp cfd=31\n
//!   ts=... gid=12 type=conn_close rip=10.1.2.3 rport=4567 transport=tcp reason=normal cfd=31\n
//! ```
//!
//! The fields, their order, their words and the single `\n` are those of memcached. If a key is longer than memcached
//! allows, the line contains its first [`KEY_BYTES_MAX`] bytes.

use super::{KINDS, WatchKind};
use base::clock::UnixMillis;
use protocol::memcache::KEY_BYTES_MAX;
use protocol::memcache::reply::uri_encoded;
use protocol::number::{Decimal, U64_DIGITS_MAX, put_i64, put_u64};
use protocol::sink::{Fixed, Sink, put_display};
use std::net::SocketAddr;

/// The maximum length of a line in bytes: a key whose every byte is escaped as `%XX`, and the other fields.
pub(super) const LINE_BYTES_MAX: usize = 3 * KEY_BYTES_MAX + 6 * U64_DIGITS_MAX + 160;

/// The capacity for lines that are not published yet, in bytes. It suffices for an ordinary batch with keys of 50
/// bytes.
pub const LINES_BYTES: usize = 128 << 10;

/// The buffer into which one line is written.
pub(crate) type Line = Fixed<LINE_BYTES_MAX>;

/// The length of the header before each line, in bytes: one byte for the kind, two for the length.
const PREFIX_BYTES: usize = 3;

const _: () = assert!(LINE_BYTES_MAX <= u16::MAX as usize && LINES_BYTES >= 64 * LINE_BYTES_MAX);

/// The lines of one thread that are not published yet, in one block. The first line allocates the block, which never
/// grows.
///
/// ```text
///   [ kind u8 | length u16 | line ][ kind u8 | length u16 | line ] ... room
/// ```
#[derive(Debug, Default)]
pub struct Lines {
    bytes: Vec<u8>,
    count: u64,
    dropped: [u64; KINDS],
}

impl Lines {
    /// Appends the line that `write` writes. If there is no room, counts the line as dropped.
    pub(crate) fn write_line(&mut self, kind: WatchKind, write: impl FnOnce(&mut Line)) {
        if self.bytes.capacity() == 0 {
            self.bytes.reserve_exact(LINES_BYTES);
        }
        if self.bytes.len() + PREFIX_BYTES + LINE_BYTES_MAX > LINES_BYTES {
            self.dropped[kind as usize] += 1;
            return;
        }
        let mut line = Line::new();
        write(&mut line);
        let text = line.as_slice();
        self.bytes.push(kind as u8);
        self.bytes.extend_from_slice(&(text.len() as u16).to_le_bytes());
        self.bytes.extend_from_slice(text);
        self.count += 1;
    }

    /// Returns true if no line was appended or dropped.
    pub(crate) fn is_empty(&self) -> bool {
        self.count == 0 && self.dropped == [0; KINDS]
    }

    /// Returns the number of lines.
    pub(super) fn count(&self) -> u64 {
        self.count
    }

    /// Returns the number of dropped lines of `kind`.
    pub(super) fn dropped(&self, kind: WatchKind) -> u64 {
        self.dropped[kind as usize]
    }

    /// Returns the lines in order, each with its kind.
    pub(super) fn each(&self) -> impl Iterator<Item = (WatchKind, &[u8])> {
        let mut rest = self.bytes.as_slice();
        std::iter::from_fn(move || {
            let (&kind, behind) = rest.split_first()?;
            let (len, behind) = behind.split_first_chunk::<2>()?;
            let (line, behind) = behind.split_at(usize::from(u16::from_le_bytes(*len)));
            rest = behind;
            Some((WatchKind::ALL[usize::from(kind)], line))
        })
    }

    pub(super) fn clear(&mut self) {
        self.bytes.clear();
        self.count = 0;
        self.dropped = [0; KINDS];
    }

    /// Frees the memory, if any is allocated.
    pub fn free(&mut self) {
        if self.bytes.capacity() > 0 {
            *self = Self::default();
        }
    }
}

/// The fields at the beginning of every line.
#[derive(Clone, Copy, Debug)]
pub(crate) struct LineHead {
    /// The time of the event.
    pub(crate) now: UnixMillis,
    /// The line's number, which is unique in the server.
    pub(crate) gid: u64,
}

impl LineHead {
    fn put(self, line: &mut Line, kind: &str, key: &[u8]) {
        self.begin(line, kind);
        line.put(b" key=");
        // The background thread also reports items that Redis clients have stored. Their keys have up to 64 KiB.
        uri_encoded(line, &key[..key.len().min(KEY_BYTES_MAX)]);
    }

    fn begin(self, line: &mut Line, kind: &str) {
        let Self { now, gid } = self;
        line.put(b"ts=");
        put_u64(line, now.secs());
        line.put(b".");
        line.put(&Decimal::new(1000 + now.0 % 1000).as_slice()[1..]);
        // The format has microseconds, but the clock only has milliseconds.
        line.put(b"000 gid=");
        put_u64(line, gid);
        line.put(b" type=");
        line.put(kind.as_bytes());
    }

    /// Writes the line of a connection that opened, or closed for `reason`.
    pub(crate) fn connection(self, line: &mut Line, peer: Option<SocketAddr>, reason: Option<&str>, descriptor: u32) {
        self.begin(line, if reason.is_some() { "conn_close" } else { "conn_new" });
        line.put(b" rip=");
        match peer {
            Some(peer) => put_display(line, &peer.ip()),
            None => line.put(b"unix"),
        }
        number(line, " rport=", peer.map_or(0, |peer| peer.port().into()));
        text(line, " transport=", if peer.is_some() { "tcp" } else { "local" });
        if let Some(reason) = reason {
            text(line, " reason=", reason);
        }
        number(line, " cfd=", descriptor.into());
        line.put(b"\n");
    }

    /// Writes the line of a key lookup.
    pub(crate) fn item_get(self, line: &mut Line, key: &[u8], found: bool, class: u8, cfd: u64, size: u64) {
        self.put(line, "item_get", key);
        text(line, " status=", if found { "found" } else { "not_found" });
        number(line, " clsid=", class.into());
        number(line, " cfd=", cfd);
        number(line, " size=", size);
        line.put(b"\n");
    }

    /// Writes the line of a storage command.
    pub(crate) fn item_store(self, line: &mut Line, key: &[u8], event: &StoreEvent) {
        self.put(line, "item_store", key);
        text(line, " status=", event.status);
        text(line, " cmd=", event.cmd);
        number(line, " ttl=", event.ttl);
        number(line, " clsid=", event.class.into());
        number(line, " cfd=", event.cfd);
        number(line, " size=", event.size);
        line.put(b"\n");
    }

    /// Writes the line of an eviction. `ttl` is -1 if the item never expires. `idle` is the time since its last access,
    /// in seconds.
    pub(crate) fn eviction(self, line: &mut Line, item: &segment::Item<'_>, ttl: i64, idle: u64) {
        self.put(line, "eviction", item.key);
        text(line, " fetch=", if item.fetched { "yes" } else { "no" });
        line.put(b" ttl=");
        put_i64(line, ttl);
        number(line, " la=", idle);
        number(line, " clsid=", item.ttl_class.into());
        number(line, " size=", item.value_len());
        line.put(b"\n");
    }

    /// Writes the line of an item that a client removed with the command `cmd`.
    pub(crate) fn deleted(self, line: &mut Line, key: &[u8], cmd: &str, class: u8, size: u64) {
        self.put(line, "deleted", key);
        text(line, " cmd=", cmd);
        number(line, " clsid=", class.into());
        number(line, " size=", size);
        line.put(b"\n");
    }
}

/// The result of a storage command, as its line reports it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct StoreEvent {
    pub(crate) status: &'static str,
    pub(crate) cmd: &'static str,
    /// The time until the item expires, in seconds. 0: never.
    pub(crate) ttl: u64,
    pub(crate) class: u8,
    pub(crate) cfd: u64,
    /// The length of the value, in bytes.
    pub(crate) size: u64,
}

fn text(line: &mut Line, name: &str, value: &str) {
    line.put(name.as_bytes());
    line.put(value.as_bytes());
}

fn number(line: &mut Line, name: &str, value: u64) {
    line.put(name.as_bytes());
    put_u64(line, value);
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Returns an evicted item with this key and value.
    fn evicted<'i>(key: &'i [u8], value: segment::Value<'i>) -> segment::Item<'i> {
        segment::Item {
            key,
            value,
            client_flags: 0,
            expire: segment::Expire::Never,
            token: 0,
            fetched: true,
            last_access: UnixMillis(0),
            stale: false,
            stored_bytes: 0,
            ttl_class: u8::MAX,
        }
    }

    #[test]
    fn the_line_of_an_eviction_fits_for_a_key_that_a_client_of_redis_stored() {
        let key = vec![0xff; 64 << 10];
        let item = evicted(&key, segment::Value::Bytes(b"v"));
        let mut lines = Lines::default();
        let head = LineHead { now: UnixMillis(1), gid: 1 };
        lines.write_line(WatchKind::Evictions, |line| head.eviction(line, &item, -1, 0));
        let (_, line) = lines.each().next().expect("a line");
        let text = String::from_utf8_lossy(line);
        assert_eq!(text.matches("%FF").count(), KEY_BYTES_MAX, "{text}");
    }

    #[test]
    fn the_longest_line_of_each_kind_fits() {
        let head = LineHead { now: UnixMillis(u64::MAX), gid: u64::MAX };
        let key = [0xff; KEY_BYTES_MAX];
        let item = evicted(&key, segment::Value::Large(segment::LargeRef { object: 0, bytes: u64::MAX, revision: 0 }));
        let event = StoreEvent {
            status: "not_stored",
            cmd: "prepend",
            ttl: u64::MAX,
            class: u8::MAX,
            cfd: u64::MAX,
            size: u64::MAX,
        };
        let mut lines = Lines::default();
        lines.write_line(WatchKind::Fetchers, |line| head.item_get(line, &key, false, u8::MAX, u64::MAX, u64::MAX));
        lines.write_line(WatchKind::Mutations, |line| head.item_store(line, &key, &event));
        lines.write_line(WatchKind::Evictions, |line| head.eviction(line, &item, i64::MIN, u64::MAX));
        lines.write_line(WatchKind::Deletions, |line| head.deleted(line, &key, "delete", u8::MAX, u64::MAX));
        let peer = SocketAddr::from((std::net::Ipv6Addr::from([0xffff; 8]), u16::MAX));
        lines.write_line(WatchKind::Connections, |line| {
            head.connection(line, Some(peer), Some("idle_timeout"), u32::MAX);
        });
        let kinds: Vec<WatchKind> = lines.each().map(|(kind, _)| kind).collect();
        assert_eq!(kinds, WatchKind::ALL);
        assert!(lines.each().all(|(_, line)| line.len() <= LINE_BYTES_MAX && line.ends_with(b"\n")));
    }

    #[test]
    fn milliseconds_are_padded_so_that_a_time_reads_as_a_number() {
        let mut line = Line::new();
        LineHead { now: UnixMillis(1_700_000_000_007), gid: 2 }.item_get(&mut line, b"a b", true, 3, 4, 5);
        assert_eq!(
            line.as_slice(),
            b"ts=1700000000.007000 gid=2 type=item_get key=a%20b status=found clsid=3 cfd=4 size=5\n"
        );
    }
}
