//! Draws the requests of the main load: keys, sizes and times to live come from one seed.

use std::io::Write;

use super::client::{CONNECTIONS, Mode, SoakClient, SoakExpect, StoreRequest};
use super::model::{PIECE_BYTES, VALUE_BYTES_MAX, client_flags, piece, write_key};

/// End of the range of keys whose values have 64 KiB to 10 MiB; it begins at 0. Keys from here to [`MEDIUM`] have
/// values from 1 KiB, keys from there to [`NUMBERS`] have numbers as values, and all other keys have values up to 1
/// KiB.
const LARGE: u32 = CONNECTIONS;
const MEDIUM: u32 = LARGE + 64 * CONNECTIONS;
const NUMBERS: u32 = MEDIUM + 640 * CONNECTIONS;
const DEPTH_MAX: u64 = 200;
const KEYS_MAX: u64 = 100;
const TTL_S_MAX: f64 = 2_592_000.0;

impl SoakClient {
    /// Writes the next requests of a connection, beginning with stores of missed keys. The last request is one with a
    /// reply, so that its reply shows the execution of all others.
    pub(super) fn draw_batch(&mut self, index: usize) {
        for _ in 0..self.connections[index].refills.len() {
            if let Some(key) = self.connections[index].refills.pop() {
                self.store(index, key, Mode::Set, false);
            }
        }
        let base = 1 << self.prng.below(8);
        let depth = (base + self.prng.below(base)).min(DEPTH_MAX);
        for _ in 0..depth {
            let key = self.draw_key(index);
            match key {
                MEDIUM..NUMBERS => self.draw_for_number(index, key),
                _ => self.draw_for_value(index, key),
            }
        }
        self.plain(index, "mn\r\n", "MN");
    }

    /// Draws a key of connection `index`. Large values are drawn so rarely that they make up about half of all bytes.
    /// Within a size class, half of the draws are uniform and half prefer low numbers.
    fn draw_key(&mut self, index: usize) -> u32 {
        let among = match self.prng.below(60_000) {
            0 => 0..LARGE,
            1..150 => LARGE..MEDIUM,
            150..6000 => MEDIUM..NUMBERS,
            _ => NUMBERS..self.items.len() as u32,
        };
        let count = (among.end - among.start) / CONNECTIONS;
        let place = match self.prng.below(2) {
            0 => self.prng.below(u64::from(count)) as u32,
            _ => (self.prng.unit().powi(4) * f64::from(count)) as u32,
        };
        among.start + place * CONNECTIONS + index as u32
    }

    fn draw_bytes(&mut self, key: u32) -> u32 {
        let (least, doublings) = match key {
            0..LARGE => (64u64 << 10, 7.33),
            LARGE..MEDIUM => (1 << 10, 6.0),
            _ => (1, 10.0),
        };
        let bytes = least as f64 * (self.prng.unit() * doublings).exp2();
        (bytes as u64).min(VALUE_BYTES_MAX) as u32
    }

    /// Draws a time to live in seconds. Half of all items do not expire, a few expire at once, and the others live from
    /// a second to 30 days.
    fn draw_ttl_s(&mut self) -> i64 {
        match self.prng.below(128) {
            0..64 => 0,
            64..96 => 1 + self.prng.below(20) as i64,
            127 => -1,
            _ => (self.prng.unit() * TTL_S_MAX.log2()).exp2() as i64,
        }
    }

    /// Returns the expiry time as the request contains it: mostly seconds from now, sometimes seconds since 1970.
    fn request_time(&mut self, ttl_s: i64) -> i64 {
        match ttl_s > 0 && self.prng.below(16) == 0 {
            true => self.clock.unix_s() as i64 + ttl_s,
            false => ttl_s,
        }
    }

    fn draw_for_value(&mut self, index: usize, key: u32) {
        match self.prng.below(1000) {
            0..300 => self.read(index, "get ", key, 1, None),
            300..340 => self.read_many(index, "get ", key, None),
            340..370 => self.read_many(index, "gets ", key, None),
            370..410 => self.read(index, "gets ", key, 1, None),
            410..430 => self.touch_and_read(index, "gat ", key),
            430..440 => self.touch_and_read(index, "gats ", key),
            440..520 => self.meta_get(index, key),
            520..535 => self.meta_group(index, key),
            535..735 => self.store(index, key, Mode::Set, false),
            735..765 => self.store(index, key, Mode::Add, false),
            765..795 => self.store(index, key, Mode::Replace, false),
            795..820 => self.add_piece(index, key),
            820..850 => self.swap(index, key),
            850..880 => self.delete(index, key),
            880..900 => self.touch(index, key),
            900..960 => {
                let mode = [Mode::Set, Mode::Set, Mode::Add, Mode::Replace][self.prng.below(4) as usize];
                self.store(index, key, mode, true);
            }
            960..980 => self.meta_delete(index, key),
            980..990 => self.plain(index, "mn\r\n", "MN"),
            990..995 => self.known(index, key),
            995 => self.plain(index, "version\r\n", "VERSION "),
            996 => self.plain(index, "verbosity 1\r\n", "OK"),
            _ => self.read(index, "get ", key, 1, None),
        }
    }

    fn draw_for_number(&mut self, index: usize, key: u32) {
        match self.prng.below(100) {
            0..25 => self.read(index, "get ", key, 1, None),
            25..30 => self.read(index, "gets ", key, 1, None),
            30..40 => self.meta_get(index, key),
            40..55 => self.store(index, key, Mode::Set, false),
            55..60 => self.store(index, key, Mode::Add, true),
            60..80 => self.count(index, key),
            80..93 => self.meta_count(index, key),
            93..95 => self.touch(index, key),
            95..97 => self.swap(index, key),
            _ => self.delete(index, key),
        }
    }

    fn write(&mut self, index: usize, words: &[&[u8]]) {
        words.iter().for_each(|word| self.connections[index].out.extend_from_slice(word));
    }

    fn write_keyed(&mut self, index: usize, verb: &str, key: u32) {
        let out = &mut self.connections[index].out;
        out.extend_from_slice(verb.as_bytes());
        write_key(key, out);
    }

    fn expect(&mut self, index: usize, expect: SoakExpect) {
        self.connections[index].expects.push_back(expect);
    }

    fn plain(&mut self, index: usize, request: &str, reply: &'static str) {
        self.write(index, &[request.as_bytes()]);
        self.expect(index, SoakExpect::Line(reply));
    }

    fn read(&mut self, index: usize, verb: &str, key: u32, count: u32, ttl_s: Option<i64>) {
        self.connections[index].out.extend_from_slice(verb.trim_end().as_bytes());
        self.read_keys(index, key, count);
        self.expect(index, SoakExpect::Values { count, ttl_s });
    }

    fn read_keys(&mut self, index: usize, key: u32, count: u32) {
        let mut key = key;
        for left in (0..count).rev() {
            self.write_keyed(index, " ", key);
            self.connections[index].keys.push_back(key);
            if left > 0 {
                key = self.draw_key(index);
            }
        }
        self.write(index, &[b"\r\n"]);
    }

    fn draw_count(&mut self) -> u32 {
        let base = 1 << self.prng.below(7);
        (base + self.prng.below(base)).min(KEYS_MAX) as u32
    }

    fn read_many(&mut self, index: usize, verb: &str, key: u32, ttl_s: Option<i64>) {
        let count = self.draw_count();
        self.read(index, verb, key, count, ttl_s);
    }

    fn touch_and_read(&mut self, index: usize, verb: &str, key: u32) {
        let ttl_s = self.draw_ttl_s();
        let time = self.request_time(ttl_s);
        let count = 1 + self.prng.below(4) as u32;
        self.read(index, &format!("{verb}{time}"), key, count, Some(ttl_s));
    }

    fn meta_get(&mut self, index: usize, key: u32) {
        self.write_keyed(index, "mg ", key);
        self.write(index, &[b" s f c t k Oq7 v\r\n"]);
        self.expect(index, SoakExpect::Meta { key });
    }

    /// Writes several quiet `mg`, which have no reply for a miss, followed by `mn`.
    fn meta_group(&mut self, index: usize, key: u32) {
        let count = 1 + self.prng.below(20) as u32;
        let mut key = key;
        for _ in 0..count {
            self.write_keyed(index, "mg ", key);
            self.write(index, &[b" k v q\r\n"]);
            self.connections[index].keys.push_back(key);
            key = self.draw_key(index);
        }
        self.write(index, &[b"mn\r\n"]);
        self.expect(index, SoakExpect::Group { count });
    }

    fn store(&mut self, index: usize, key: u32, mode: Mode, meta: bool) {
        self.version += 1;
        let version = self.version;
        let ttl_s = self.draw_ttl_s();
        let time = self.request_time(ttl_s);
        let is_number = is_number(key);
        let number = if is_number { self.draw_number() } else { 0 };
        let bytes = if is_number { digits(number) } else { self.draw_bytes(key) };
        let silent = mode == Mode::Set && self.prng.below(5) == 0;
        let flags = client_flags(key, version);
        let verb = match mode {
            _ if meta => "ms ",
            Mode::Set => "set ",
            Mode::Add => "add ",
            Mode::Replace => "replace ",
            Mode::Append => "append ",
            Mode::Prepend => "prepend ",
            Mode::Swap(_) => "cas ",
        };
        self.write_keyed(index, verb, key);
        let out = &mut self.connections[index].out;
        let written = match (meta, mode) {
            (true, mode) => {
                let mode = match mode {
                    Mode::Add => "E",
                    Mode::Replace => "R",
                    _ => "S",
                };
                let quiet = if silent { "q" } else { "c" };
                write!(out, " {bytes} M{mode} T{time} F{flags} {quiet}\r\n")
            }
            (false, Mode::Swap(token)) => write!(out, " {flags} {time} {bytes} {token}\r\n"),
            (false, _) => write!(out, " {flags} {time} {bytes}{}\r\n", if silent { " noreply" } else { "" }),
        };
        written.expect("writing to memory cannot fail");
        match is_number {
            true => write!(out, "{number}\r\n").expect("writing to memory cannot fail"),
            false => {
                self.values.write(key, version, bytes as usize, out);
                out.extend_from_slice(b"\r\n");
            }
        }
        let store = StoreRequest { key, version, bytes, number, ttl_s, mode, meta };
        self.expect(index, SoakExpect::Store { store, silent });
    }

    /// Draws a number: near 0, of any length, or near the maximum, where `incr` wraps around to 0.
    fn draw_number(&mut self) -> u64 {
        let any = self.prng.next_u64();
        match self.prng.below(8) {
            0 => u64::MAX - any % 100,
            1 => any % 100,
            _ => any >> self.prng.below(64),
        }
    }

    fn add_piece(&mut self, index: usize, key: u32) {
        let item = &mut self.items[key as usize];
        if !item.takes_a_piece() {
            return self.read(index, "get ", key, 1, None);
        }
        item.piece_in_flight = true;
        let number = self.prng.below(256) as u8;
        let (verb, mode) = match self.prng.below(3) {
            0 => ("prepend ", Mode::Prepend),
            _ => ("append ", Mode::Append),
        };
        let meta = self.prng.below(4) == 0;
        self.write_keyed(index, if meta { "ms " } else { verb }, key);
        let letter = if mode == Mode::Append { "A" } else { "P" };
        let head = if meta { format!(" {PIECE_BYTES} M{letter} c\r\n") } else { format!(" 0 0 {PIECE_BYTES}\r\n") };
        self.write(index, &[head.as_bytes(), &piece(key, number), b"\r\n"]);
        let (version, bytes) = (u32::from(number), PIECE_BYTES as u32);
        let store = StoreRequest { key, version, bytes, number: 0, ttl_s: 0, mode, meta };
        self.expect(index, SoakExpect::Store { store, silent: false });
    }

    /// Writes a compare-and-swap, with the key's CAS token if that is known, or sometimes with a wrong token.
    fn swap(&mut self, index: usize, key: u32) {
        match self.items[key as usize].token {
            0 => self.read(index, "gets ", key, 1, None),
            token => {
                let token = if self.prng.below(4) == 0 { token ^ 1 } else { token };
                self.store(index, key, Mode::Swap(token), false);
            }
        }
    }

    fn delete(&mut self, index: usize, key: u32) {
        let silent = self.prng.below(4) == 0;
        self.write_keyed(index, "delete ", key);
        self.write(index, &[if silent { b" noreply\r\n" } else { b"\r\n" }]);
        self.expect(index, SoakExpect::Delete { key, meta: false, silent });
    }

    fn meta_delete(&mut self, index: usize, key: u32) {
        let silent = self.prng.below(4) == 0;
        self.write_keyed(index, "md ", key);
        self.write(index, &[if silent { b" q\r\n" } else { b"\r\n" }]);
        self.expect(index, SoakExpect::Delete { key, meta: true, silent });
    }

    fn touch(&mut self, index: usize, key: u32) {
        let ttl_s = self.draw_ttl_s();
        let time = self.request_time(ttl_s);
        self.write_keyed(index, "touch ", key);
        self.write(index, &[format!(" {time}\r\n").as_bytes()]);
        self.expect(index, SoakExpect::Touch { key, ttl_s });
    }

    fn count(&mut self, index: usize, key: u32) {
        let (up, delta) = (self.prng.below(2) == 0, self.prng.next_u64() >> self.prng.below(64));
        self.write_keyed(index, if up { "incr " } else { "decr " }, key);
        self.write(index, &[format!(" {delta}\r\n").as_bytes()]);
        self.expect(index, SoakExpect::Count { key, delta, up, meta: false });
    }

    fn meta_count(&mut self, index: usize, key: u32) {
        let (up, delta) = (self.prng.below(2) == 0, self.prng.next_u64() >> self.prng.below(64));
        self.write_keyed(index, "ma ", key);
        self.write(index, &[format!(" M{} D{delta} v\r\n", if up { "I" } else { "D" }).as_bytes()]);
        self.expect(index, SoakExpect::Count { key, delta, up, meta: true });
    }

    fn known(&mut self, index: usize, key: u32) {
        self.write_keyed(index, "me ", key);
        self.write(index, &[b"\r\n"]);
        self.expect(index, SoakExpect::Known { key });
    }
}

/// Returns whether the values of `key` are numbers.
pub(super) fn is_number(key: u32) -> bool {
    (MEDIUM..NUMBERS).contains(&key)
}

/// Returns the number of decimal digits of `number`.
pub(super) fn digits(number: u64) -> u32 {
    number.checked_ilog10().map_or(1, |log| log + 1)
}
