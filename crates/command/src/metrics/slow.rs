//! The latest slow requests of one worker, in a ring with one writer. Readers never block the writer.
//!
//! A slow request is recorded with the beginning of its request line. So that this costs nothing for fast requests, the
//! line is copied only if the request is already slow when its execution ends. A request that becomes slow while its
//! reply is sent is recorded without a line.
//!
//! Each entry is a sequence lock. The writer makes the entry's sequence odd, writes the words, and makes the sequence
//! even again. A reader skips an entry if its sequence was odd, or changed during the read.

use std::sync::atomic::{AtomicU64, Ordering::Acquire, Ordering::Relaxed, Ordering::Release, fence};

use base::clock::UnixMillis;

use super::command::Command;
use super::slow_client::{CLIENT_WORDS, SlowClient};
use crate::visit::clock::{Clock, Ticks};

/// The number of slow requests that each worker's ring holds.
pub const SLOW_MAX: usize = 128;

/// The default of the maximum number of slow requests that `SLOWLOG` reports, that of Redis.
pub const SLOW_REPORTED: u64 = 128;

/// The maximum number of bytes of a request line that are recorded.
pub const LINE_BYTES_MAX: usize = 48;
const LINE_WORDS: usize = LINE_BYTES_MAX / 8;
/// The maximum number of slow operations with unsent replies whose request lines are retained.
const PENDING_MAX: usize = 32;

/// The beginning of a request line, without its line end. The rest is filled with zero bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct SlowLine([u64; LINE_WORDS]);

impl SlowLine {
    /// Returns the beginning of the first line of `bytes`. If the request is an array of words, returns these words
    /// instead.
    pub fn of(bytes: &[u8]) -> Self {
        let mut kept = [0; LINE_BYTES_MAX];
        if let [b'*', array @ ..] = bytes {
            copy_words(&mut kept, array);
        } else {
            let line = bytes.iter().take(LINE_BYTES_MAX).take_while(|byte| !matches!(byte, b'\r' | b'\n'));
            for (place, byte) in kept.iter_mut().zip(line) {
                *place = *byte;
            }
        }
        let word = |at: usize| std::array::from_fn(|byte| kept[at * 8 + byte]);
        Self(std::array::from_fn(|at| u64::from_le_bytes(word(at))))
    }
}

/// Writes the words of a Redis request, separated by spaces, into `kept`. An example of `array` is
/// `2\r\n$3\r\nGET\r\n$1\r\na\r\n`.
fn copy_words(kept: &mut [u8; LINE_BYTES_MAX], array: &[u8]) {
    fn line(bytes: &[u8]) -> Option<(&[u8], &[u8])> {
        let end = bytes.iter().take(32).position(|byte| *byte == b'\n')?;
        Some((bytes[..end].strip_suffix(b"\r")?, &bytes[end + 1..]))
    }
    let mut at = 0;
    let Some((_, mut rest)) = line(array) else { return };
    while let Some((head, behind)) = line(rest) {
        let len = head.strip_prefix(b"$").and_then(|len| std::str::from_utf8(len).ok()?.parse::<usize>().ok());
        let Some(len) = len.filter(|_| at < LINE_BYTES_MAX) else { return };
        if at > 0 {
            kept[at] = b' ';
            at += 1;
        }
        for byte in behind.iter().take(len.min(LINE_BYTES_MAX - at)) {
            // A zero byte marks the end of the line.
            kept[at] = if *byte == 0 { b'.' } else { *byte };
            at += 1;
        }
        rest = behind.get(len + 2..).unwrap_or_default();
    }
}

impl std::fmt::Display for SlowLine {
    /// Writes the line. Writes `.` for each byte that is not printable ASCII, and `-` for an empty line.
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let bytes = self.0.iter().flat_map(|word| word.to_le_bytes()).take_while(|byte| *byte != 0);
        let mut text: String =
            bytes.map(|byte| if byte.is_ascii_graphic() || byte == b' ' { char::from(byte) } else { '.' }).collect();
        if text.is_empty() {
            text.push('-');
        }
        f.pad(&text)
    }
}

/// The request lines of the latest operations that were slow when their execution ended. When the reply of such an
/// operation has been sent, its line is looked up and recorded.
#[derive(Debug)]
pub struct SlowLines {
    above_ns: u64,
    above_ticks: u64,
    kept: [(Ticks, SlowLine); PENDING_MAX],
    next: usize,
}

impl Default for SlowLines {
    /// Creates the list without a threshold. No line is recorded until [`SlowLines::follow`] sets a threshold.
    fn default() -> Self {
        let kept = [(Ticks::default(), SlowLine::default()); PENDING_MAX];
        Self { above_ns: u64::MAX, above_ticks: u64::MAX, kept, next: 0 }
    }
}

impl SlowLines {
    /// Adopts the threshold `above_ns` if it has changed.
    #[inline]
    pub fn follow(&mut self, above_ns: u64, clock: &Clock) {
        if above_ns != self.above_ns {
            self.above_ns = above_ns;
            self.above_ticks = clock.ticks_in(above_ns);
        }
    }

    /// Returns true if an operation is already slow when its execution ends. The operation's bytes were available at
    /// `ready`, and the execution ended at `ended`.
    #[inline]
    pub fn is_slow(&self, ready: Ticks, ended: Ticks) -> bool {
        ended.0.saturating_sub(ready.0) > self.above_ticks
    }

    /// Records the line of the operation that began at `begun`, in place of the oldest line.
    #[cold]
    pub fn record(&mut self, begun: Ticks, line: &[u8]) {
        self.kept[self.next] = (begun, SlowLine::of(line));
        self.next = (self.next + 1) % PENDING_MAX;
    }

    /// Returns the request line of the operation that began at `begun`. Returns an empty line if the operation was not
    /// slow when its execution ended, or if its line was overwritten.
    pub fn of(&self, begun: Ticks) -> SlowLine {
        self.kept.iter().find(|(at, _)| *at == begun).map(|(_, line)| *line).unwrap_or_default()
    }
}

/// A request whose time exceeded the threshold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SlowRequest {
    /// The instant at which the reply was completely sent.
    pub at: UnixMillis,
    /// The number of slow requests that the worker had recorded before this one.
    pub number: u64,
    /// The number of the worker that served the request.
    pub worker: usize,
    /// The kind of the request.
    pub command: Command,
    /// The beginning of the request line, if the request was slow before its reply was sent.
    pub line: SlowLine,
    /// The client that sent the request.
    pub client: SlowClient,
    /// The time from the receipt of the request until its execution began, in ns.
    pub wait_ns: u64,
    /// The time of the execution, in ns.
    pub execute_ns: u64,
    /// The time from the end of the execution until the kernel had accepted the reply, in ns.
    pub send_ns: u64,
}

impl SlowRequest {
    /// Returns the sum of all parts, in ns. Saturates.
    pub const fn total_ns(&self) -> u64 {
        self.wait_ns.saturating_add(self.execute_ns).saturating_add(self.send_ns)
    }
}

const WORDS: usize = 5 + LINE_WORDS + CLIENT_WORDS;

#[derive(Debug, Default)]
struct SlowEntry {
    sequence: AtomicU64,
    words: [AtomicU64; WORDS],
}

impl SlowEntry {
    fn write(&self, words: [u64; WORDS]) {
        let sequence = self.sequence.load(Relaxed);
        self.sequence.store(sequence + 1, Relaxed);
        fence(Release);
        for (place, word) in self.words.iter().zip(words) {
            place.store(word, Relaxed);
        }
        self.sequence.store(sequence + 2, Release);
    }

    /// Returns the number of earlier writes to the entry, and the entry's contents. Returns `None` if the entry is
    /// empty or is being written.
    fn read(&self) -> Option<(u64, [u64; WORDS])> {
        let before = self.sequence.load(Acquire);
        if before == 0 || before % 2 == 1 {
            return None;
        }
        let words = std::array::from_fn(|place| self.words[place].load(Relaxed));
        fence(Acquire);
        (self.sequence.load(Relaxed) == before).then_some((before / 2 - 1, words))
    }
}

/// The ring of a worker's latest slow requests.
#[derive(Debug)]
pub struct SlowRing {
    entries: Box<[SlowEntry]>,
    pushed: AtomicU64,
    /// For each report, the number of requests that were recorded before it was last reset.
    reset_at: [AtomicU64; 2],
}

/// A report on slow requests, which clients reset apart from the other.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SlowReport {
    /// `SLOWLOG`.
    Log = 0,
    /// `LATENCY`.
    Latency = 1,
}

impl Default for SlowRing {
    fn default() -> Self {
        let entries = (0..SLOW_MAX).map(|_| SlowEntry::default()).collect();
        Self { entries, pushed: AtomicU64::new(0), reset_at: [const { AtomicU64::new(0) }; 2] }
    }
}

impl SlowRing {
    /// Records `request`. If the ring is full, replaces the oldest request. Only the thread that owns the ring may call
    /// this function.
    pub fn push(&self, request: &SlowRequest) {
        let pushed = self.pushed.load(Relaxed);
        let SlowRequest { at, command, wait_ns, execute_ns, send_ns, .. } = *request;
        let mut words = [0; WORDS];
        words[..5].copy_from_slice(&[at.0, command.shown() as u64, wait_ns, execute_ns, send_ns]);
        words[5..5 + LINE_WORDS].copy_from_slice(&request.line.0);
        words[5 + LINE_WORDS..].copy_from_slice(&request.client.words());
        self.entries[pushed as usize % SLOW_MAX].write(words);
        self.pushed.store(pushed + 1, Relaxed);
    }

    /// Returns the number of slow requests that were recorded since the start, including those that were replaced
    /// later.
    pub fn total(&self) -> u64 {
        self.pushed.load(Relaxed)
    }

    /// Removes all requests that are recorded so far from a report. Any thread may call this function.
    pub fn reset(&self, report: SlowReport) {
        self.reset_at[report as usize].fetch_max(self.total(), Relaxed);
    }

    /// Returns the requests of a report, as [`SlowRing::read`] returns all.
    pub fn report(&self, report: SlowReport, worker: usize) -> Vec<SlowRequest> {
        let first = self.reset_at[report as usize].load(Relaxed);
        let mut requests = self.read(worker);
        requests.retain(|request| request.number >= first);
        requests
    }

    /// Returns the requests in the ring, in no particular order, with `worker` as their worker's number. Skips an entry
    /// that is being written.
    pub fn read(&self, worker: usize) -> Vec<SlowRequest> {
        let request = |number, [at, command, wait_ns, execute_ns, send_ns, rest @ ..]: [u64; WORDS]| SlowRequest {
            at: UnixMillis(at),
            number,
            worker,
            command: Command::ALL[command as usize],
            line: SlowLine(std::array::from_fn(|place| rest[place])),
            client: SlowClient::from_words(std::array::from_fn(|place| rest[LINE_WORDS + place])),
            wait_ns,
            execute_ns,
            send_ns,
        };
        let entries = self.entries.iter().zip(0..).filter_map(|(entry, place)| Some((place, entry.read()?)));
        entries.map(|(place, (round, words))| request(round * SLOW_MAX as u64 + place, words)).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(number: u64) -> SlowRequest {
        SlowRequest {
            at: UnixMillis(number),
            number,
            worker: 0,
            command: Command::Get,
            line: SlowLine([number; LINE_WORDS]),
            client: SlowClient::default(),
            wait_ns: number,
            execute_ns: number,
            send_ns: number,
        }
    }

    #[test]
    fn a_line_is_cut_at_its_end_and_shows_no_control_bytes() {
        let shown = |bytes: &[u8]| SlowLine::of(bytes).to_string();
        assert_eq!(shown(b"get user:1\r\nget user:2\r\n"), "get user:1");
        assert_eq!(shown(b"get a\x1b[31m\xff\n"), "get a.[31m.");
        assert_eq!(shown(&[b'x'; 100]), "x".repeat(LINE_BYTES_MAX));
        assert_eq!(shown(b""), "-");
        assert_eq!(shown(b"*3\r\n$3\r\nSET\r\n$3\r\na\r\n\r\n$2\r\n\0b\r\n*1\r\n"), "SET a.. .b");
        let long = [&b"*2\r\n$3\r\nGET\r\n$60\r\n"[..], &[b'k'; 60], b"\r\n"].concat();
        assert_eq!(shown(&long), format!("GET {}", "k".repeat(LINE_BYTES_MAX - 4)));
        assert_eq!(shown(b"*x"), "-");
    }

    #[test]
    fn slow_line_is_found_by_start_time_until_newer_lines_evict_it() {
        let clock = Clock::Simulated(Default::default());
        let mut lines = SlowLines::default();
        assert!(!lines.is_slow(Ticks(0), Ticks(u64::MAX)));
        lines.follow(1_000, &clock);
        assert!(!lines.is_slow(Ticks(500), Ticks(1_500)) && lines.is_slow(Ticks(500), Ticks(1_501)));
        for begun in 1..=PENDING_MAX as u64 + 1 {
            lines.record(Ticks(begun), format!("get {begun}\r\n").as_bytes());
        }
        assert_eq!(lines.of(Ticks(2)).to_string(), "get 2");
        assert_eq!(lines.of(Ticks(PENDING_MAX as u64 + 1)).to_string(), format!("get {}", PENDING_MAX + 1));
        assert_eq!(lines.of(Ticks(1)), SlowLine::default());
    }

    #[test]
    fn a_full_ring_forgets_the_oldest() {
        let ring = SlowRing::default();
        assert!(ring.read(0).is_empty());
        for number in 0..SLOW_MAX as u64 + 5 {
            ring.push(&request(number));
        }
        assert!(ring.read(0).iter().all(|request| request.number == request.at.0), "in the order in which they came");
        let mut kept: Vec<u64> = ring.read(0).iter().map(|request| request.at.0).collect();
        kept.sort_unstable();
        assert_eq!(kept, (5..SLOW_MAX as u64 + 5).collect::<Vec<_>>());
        assert_eq!(ring.total(), SLOW_MAX as u64 + 5);
    }

    #[test]
    fn a_reader_never_sees_half_an_entry_while_it_is_written() {
        let ring = SlowRing::default();
        let done = std::sync::atomic::AtomicBool::new(false);
        let (mut seen, mut latest) = (0u64, 0u64);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                let mut number = 0;
                while !done.load(Relaxed) {
                    number += 1;
                    ring.push(&request(number));
                }
            });
            while seen < 200_000 {
                for request in ring.read(0) {
                    seen += 1;
                    let at = request.at.0;
                    latest = latest.max(at);
                    assert_eq!((request.line.0, request.wait_ns, request.send_ns), ([at; LINE_WORDS], at, at));
                }
            }
            done.store(true, Relaxed);
        });
        assert!(latest > SLOW_MAX as u64, "the writer never came round while entries were read");
    }
}
