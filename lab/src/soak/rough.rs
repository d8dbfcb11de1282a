//! Misbehaving clients: they disconnect in the middle of a request, close one direction, read slowly or not at all for
//! a while, open hundreds of connections, and send invalid requests. A read must still return only values that were
//! stored.
//!
//! A client runs scenes: one kind of misbehaviour each. Each scene uses new keys, so that their possible values are
//! known. Any of the keys may be evicted or flushed at any time.

use std::io::Write;
use std::net::{Shutdown, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering::Relaxed};
use std::time::{Duration, Instant};

use base::prng::Prng;

use super::model::{Values, write_key};
use super::rough_client::RoughClient;

/// Delay before the keys of a closed connection are checked, because the server may still execute requests that it had
/// received.
const SETTLED: Duration = Duration::from_secs(2);
/// Time after which the server may close the connection of a client that reads no replies, if other clients need pins.
const MAY_BE_DROPPED: Duration = Duration::from_millis(700);
const PENDING_MAX: usize = 4096;

/// A key, with a version of its value that was stored or may have been stored.
#[derive(Clone, Copy, Debug)]
pub struct Stored {
    /// The key.
    pub key: u32,
    /// The version of the value.
    pub version: u32,
    /// Length of the value in bytes.
    pub bytes: usize,
}

/// A key that is checked later, with its possible values.
struct Pending {
    due: Instant,
    allowed: Option<Stored>,
    key: u32,
}

/// One misbehaving client.
pub struct Rough {
    pub(super) address: SocketAddr,
    pub(super) prng: Prng,
    pub(super) values: Values,
    number: u64,
    next_key: u32,
    pending: Vec<Pending>,
    scenes: [u64; SCENES.len()],
    hits: u64,
    misses: u64,
    dropped: u64,
}

type Scene = fn(&mut Rough) -> Result<(), String>;

const SCENES: [(&str, Scene); 10] = [
    ("hung up", Rough::hang_up),
    ("half closed", Rough::half_close),
    ("read slowly", Rough::read_slowly),
    ("wrote slowly", Rough::write_slowly),
    ("left unread", Rough::leave_unread),
    ("storms", Rough::storm),
    ("talked nonsense", Rough::talk_nonsense),
    ("watched", Rough::watch),
    ("leases", Rough::lease),
    ("large values", Rough::large_value),
];

impl Rough {
    /// Creates the client with this number.
    pub fn new(address: SocketAddr, seed: u64, number: u64) -> Self {
        Self {
            address,
            prng: Prng::new(seed ^ (number + 1) << 32),
            values: Values::new(seed),
            number,
            next_key: (1 << 31) | (number as u32) << 24,
            pending: Vec::new(),
            scenes: [0; SCENES.len()],
            hits: 0,
            misses: 0,
            dropped: 0,
        }
    }

    /// Runs scenes until `over` is set.
    ///
    /// # Errors
    /// The first wrong reply.
    pub fn run(&mut self, over: &AtomicBool) -> Result<(), String> {
        while !over.load(Relaxed) {
            let which = self.prng.below(SCENES.len() as u64) as usize;
            let (name, scene) = SCENES[which];
            scene(self).map_err(|error| format!("rough client {}, '{name}': {error}", self.number))?;
            self.scenes[which] += 1;
            self.look_at_pending()?;
            std::thread::sleep(Duration::from_millis(1 + self.prng.below(10)));
        }
        Ok(())
    }

    /// Returns a line with the number of runs of each scene, and of hits, misses and dropped connections.
    pub fn summary(&self) -> String {
        let scenes: Vec<String> =
            SCENES.iter().zip(self.scenes).map(|((name, _), count)| format!("{name} {count}")).collect();
        let Self { number, hits, misses, dropped, .. } = self;
        let scenes = scenes.join(", ");
        format!("rough client {number}: {scenes}; {hits} hits, {misses} misses, {dropped} dropped connections\n")
    }

    fn draw(&mut self, bytes_max: u64) -> Stored {
        self.next_key += 1;
        let doublings = (bytes_max as f64).log2();
        let bytes = (self.prng.unit() * doublings).exp2() as usize;
        Stored { key: self.next_key, version: self.prng.next_u64() as u32, bytes }
    }

    pub(super) fn set(&self, stored: Stored) -> Vec<u8> {
        let mut request = b"set ".to_vec();
        write_key(stored.key, &mut request);
        request.extend_from_slice(format!(" 5 0 {}\r\n", stored.bytes).as_bytes());
        self.values.write(stored.key, stored.version, stored.bytes, &mut request);
        request.extend_from_slice(b"\r\n");
        request
    }

    pub(super) fn get(key: u32) -> Vec<u8> {
        let mut request = b"get ".to_vec();
        write_key(key, &mut request);
        request.extend_from_slice(b"\r\n");
        request
    }

    fn connect(&self) -> Result<RoughClient, String> {
        RoughClient::connect(self.address)
    }

    /// Reads the reply to a get of `key`.
    fn read(&mut self, client: &mut RoughClient, key: u32, allowed: &[Stored]) -> Result<(), String> {
        match client.value(key, allowed, &self.values)? {
            true => self.hits += 1,
            false => self.misses += 1,
        }
        Ok(())
    }

    fn look_at_pending(&mut self) -> Result<(), String> {
        let now = Instant::now();
        let due = self.pending.iter().take_while(|pending| pending.due <= now).count();
        if due == 0 {
            return Ok(());
        }
        let mut client = self.connect()?;
        for pending in self.pending.drain(..due).collect::<Vec<_>>() {
            client.send(&Self::get(pending.key))?;
            self.read(&mut client, pending.key, pending.allowed.as_slice())
                .map_err(|error| format!("rough client {}, after a disconnect: {error}", self.number))?;
        }
        Ok(())
    }

    fn look_later(&mut self, key: u32, allowed: Option<Stored>) {
        if self.pending.len() < PENDING_MAX {
            self.pending.push(Pending { due: Instant::now() + SETTLED, allowed, key });
        }
    }

    /// Sends some complete sets, then a part of another set, and disconnects. The key of the incomplete set must retain
    /// its old value.
    fn hang_up(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        let before = self.draw(200 << 10);
        client.send(&self.set(before))?;
        client.line("STORED")?;
        let mut requests = Vec::new();
        for _ in 0..self.prng.below(20) {
            let stored = self.draw(60 << 10);
            requests.extend_from_slice(&self.set(stored));
            self.look_later(stored.key, Some(stored));
        }
        let cut = Stored { key: before.key, version: before.version ^ 1, ..self.draw(400 << 10) };
        let request = self.set(cut);
        let kept = self.prng.below(request.len() as u64 - 1) as usize;
        requests.extend_from_slice(&request[..kept]);
        client.send(&requests)?;
        self.look_later(before.key, Some(before));
        if self.prng.below(2) == 0 {
            client.reset()?;
        }
        Ok(())
    }

    /// Sends requests and closes the sending direction. All replies must arrive, followed by the end of the connection.
    fn half_close(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        let count = 1 + self.prng.below(150);
        let items: Vec<Stored> = (0..count).map(|_| self.draw(8 << 10)).collect();
        let mut requests = Vec::new();
        for item in &items {
            requests.extend_from_slice(&self.set(*item));
            requests.extend_from_slice(&Self::get(item.key));
        }
        client.send(&requests)?;
        client.stream.shutdown(Shutdown::Write).map_err(|error| error.to_string())?;
        for item in items {
            client.line("STORED")?;
            self.read(&mut client, item.key, &[item])?;
        }
        client.end()
    }

    /// Requests more bytes than the sockets can buffer, pauses, then reads byte by byte. Meanwhile another client
    /// overwrites and deletes the values.
    fn read_slowly(&mut self) -> Result<(), String> {
        let (mut client, mut other) = (self.connect()?, self.connect()?);
        let mut items = Vec::new();
        for _ in 0..1 + self.prng.below(8) {
            let item = self.draw(2 << 20);
            other.send(&self.set(item))?;
            other.line("STORED")?;
            items.push(item);
        }
        let rounds = 1 + self.prng.below(4);
        for _ in 0..rounds {
            items.iter().try_for_each(|item| client.send(&Self::get(item.key)))?;
        }
        let later: Vec<Stored> = items.iter().map(|item| Stored { version: item.version ^ 1, ..*item }).collect();
        for item in &later {
            match self.prng.below(3) {
                0 => {
                    other.send(&self.set(*item))?;
                    other.line("STORED")?;
                }
                1 => {
                    other.send(b"delete ")?;
                    other.send(&Self::get(item.key)[b"get ".len()..])?;
                    other.one_of(&["DELETED", "NOT_FOUND"])?;
                }
                _ => {}
            }
        }
        let begun = Instant::now();
        std::thread::sleep(Duration::from_millis(self.prng.below(1500)));
        client.read_singly(300)?;
        let slow = begun.elapsed() > MAY_BE_DROPPED;
        for _ in 0..rounds {
            for (item, later) in items.iter().zip(&later) {
                match self.read(&mut client, item.key, &[*item, *later]) {
                    Err(_) if slow && client.is_over() => {
                        self.dropped += 1;
                        return Ok(());
                    }
                    read => read?,
                }
            }
        }
        Ok(())
    }

    /// Sends a value in pieces with pauses.
    fn write_slowly(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        let small = self.prng.below(2) == 0;
        let item = self.draw(if small { 40 } else { 3 << 20 });
        let request = self.set(item);
        let pieces = if small { request.len() } else { 1 + self.prng.below(8) as usize };
        for piece in request.chunks(request.len().div_ceil(pieces)) {
            client.send(piece)?;
            let pause_ms = if small { self.prng.below(3) } else { self.prng.below(400) };
            std::thread::sleep(Duration::from_millis(pause_ms));
        }
        client.line("STORED")?;
        client.send(&Self::get(item.key))?;
        self.read(&mut client, item.key, &[item])
    }

    fn leave_unread(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        let item = self.draw(500 << 10);
        client.send(&self.set(item))?;
        client.line("STORED")?;
        for _ in 0..self.prng.below(20) {
            client.send(&Self::get(item.key))?;
        }
        if self.prng.below(2) == 0 {
            client.reset()?;
        }
        Ok(())
    }

    fn storm(&mut self) -> Result<(), String> {
        let mut clients = (0..200).map(|_| self.connect()).collect::<Result<Vec<_>, _>>()?;
        clients.iter_mut().step_by(2).try_for_each(|client| client.send(b"mn\r\n"))?;
        for (number, mut client) in clients.into_iter().enumerate() {
            if number % 2 == 0 {
                client.line("MN")?;
            }
            if number % 3 == 0 {
                client.reset()?;
            }
        }
        Ok(())
    }

    /// Sends invalid requests, some with values that look like requests. The server must execute the valid line that
    /// follows.
    fn talk_nonsense(&mut self) -> Result<(), String> {
        const BAD: [(&str, &[&str]); 10] = [
            ("nonsense", &["ERROR"]),
            ("get", &["ERROR"]),
            ("set k flags 0 5\r\nget k", &["CLIENT_ERROR bad command line format"]),
            ("set k 0 0 -1", &["CLIENT_ERROR bad command line format"]),
            ("set k 0 0 2\r\nabcdef", &["CLIENT_ERROR bad data chunk", "ERROR"]),
            ("incr k -1", &["CLIENT_ERROR invalid numeric delta argument"]),
            ("touch k later", &["CLIENT_ERROR invalid exptime argument"]),
            ("mg !! b", &["CLIENT_ERROR error decoding key"]),
            ("mg k v v", &["CLIENT_ERROR duplicate flag"]),
            ("stats nonsense", &["ERROR"]),
        ];
        let mut client = self.connect()?;
        for _ in 0..10 {
            let (request, replies) = BAD[self.prng.below(BAD.len() as u64) as usize];
            client.send(format!("{request}\r\nmn\r\n").as_bytes())?;
            replies.iter().try_for_each(|reply| client.line(reply))?;
            client.line("MN")?;
        }
        let long = [b"get ".to_vec(), vec![b'k'; 70_000], b"\r\n".to_vec()].concat();
        // Ignores an error, because the server may close the connection before the whole request is sent.
        let _ = client.stream.write_all(&long);
        Ok(())
    }

    fn watch(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        client.send(b"watch fetchers mutations evictions deletions\r\n")?;
        client.line("OK")?;
        let end = Instant::now() + Duration::from_millis(self.prng.below(100));
        while Instant::now() < end {
            client.watched()?;
        }
        Ok(())
    }

    /// Sends all requests of a lease's life in one packet: the first miss gets the right to store the item. Tries three
    /// times, because the item may be evicted during an attempt.
    fn lease(&mut self) -> Result<(), String> {
        const EXCHANGE: [(&str, &[&str]); 7] = [
            ("mg KEY v N30 t\r\n", &["VA 0 t30 W", ""]),
            ("mg KEY v N30\r\n", &["VA 0 Z", ""]),
            ("ms KEY 4 T300\r\ndone\r\n", &["HD"]),
            ("mg KEY v\r\n", &["VA 4", "done"]),
            ("md KEY I T30\r\n", &["HD"]),
            ("mg KEY v t\r\n", &["VA 4 t30 X W", "done"]),
            ("mg KEY v\r\n", &["VA 4 Z X", "done"]),
        ];
        let mut outcome = Ok(());
        for _ in 0..3 {
            self.next_key += 1;
            let key = format!("lease-{}", self.next_key);
            let mut client = self.connect()?;
            client.send(EXCHANGE.map(|(request, _)| request.replace("KEY", &key)).concat().as_bytes())?;
            outcome = EXCHANGE.iter().flat_map(|(_, replies)| *replies).try_for_each(|reply| client.line(reply));
            if outcome.is_ok() {
                break;
            }
        }
        outcome
    }

    fn large_value(&mut self) -> Result<(), String> {
        let mut client = self.connect()?;
        let item = Stored { bytes: (1 << 20) + self.prng.below(9 << 20) as usize, ..self.draw(1) };
        client.send(&self.set(item))?;
        client.line("STORED")?;
        client.send(&Self::get(item.key))?;
        self.read(&mut client, item.key, &[item])
    }
}
