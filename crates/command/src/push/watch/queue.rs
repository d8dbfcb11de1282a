//! The unsent lines of one watcher.

use super::LINE_BYTES_MAX;
use protocol::number::put_u64;
use protocol::sink::{Fixed, Sink};
use std::collections::VecDeque;

/// The maximum number of bytes of lines in a watcher's queue.
pub const QUEUE_BYTES: usize = 256 << 10;

/// The maximum length of `skipped=N` with its line end, in bytes.
const SKIPPED_BYTES_MAX: usize = 32;

const _: () = assert!(QUEUE_BYTES >= 64 * LINE_BYTES_MAX);

/// A bounded queue of bytes. Lines are appended whole; bytes are taken in pieces of any length. Lines that do not fit
/// are counted as skipped. The count is sent before the next line that fits, or when the queue is empty.
#[derive(Debug)]
pub(super) struct WatchQueue {
    bytes: VecDeque<u8>,
    skipped: u64,
}

impl WatchQueue {
    pub(super) fn new() -> Self {
        Self { bytes: VecDeque::with_capacity(QUEUE_BYTES), skipped: 0 }
    }

    /// Returns true if there are neither bytes nor a count of skipped lines to send.
    pub(super) fn is_empty(&self) -> bool {
        self.bytes.is_empty() && self.skipped == 0
    }

    /// Counts `lines` lines as skipped.
    pub(super) fn skip(&mut self, lines: u64) {
        self.skipped += lines;
    }

    /// Appends `line`. If it does not fit, counts it as skipped and returns false.
    pub(super) fn push(&mut self, line: &[u8]) -> bool {
        if self.bytes.len() + SKIPPED_BYTES_MAX + line.len() > QUEUE_BYTES {
            self.skipped += 1;
            return false;
        }
        self.report_skipped();
        self.bytes.extend(line);
        true
    }

    fn report_skipped(&mut self) {
        if self.skipped > 0 {
            let mut line = Fixed::<SKIPPED_BYTES_MAX>::new();
            line.put(b"skipped=");
            put_u64(&mut line, self.skipped);
            line.put(b"\n");
            self.bytes.extend(line.as_slice());
            self.skipped = 0;
        }
    }

    /// Copies the first bytes of the queue to the beginning of `into`, and removes them from the queue. Returns their
    /// number.
    pub(super) fn take(&mut self, into: &mut [u8]) -> usize {
        if self.bytes.len() + SKIPPED_BYTES_MAX <= into.len() {
            self.report_skipped();
        }
        let len = self.bytes.len().min(into.len());
        let (front, back) = self.bytes.as_slices();
        let from_front = front.len().min(len);
        into[..from_front].copy_from_slice(&front[..from_front]);
        into[from_front..len].copy_from_slice(&back[..len - from_front]);
        self.bytes.drain(..len);
        len
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn skipped_lines_are_reported_in_place() {
        let mut queue = WatchQueue::new();
        let line = [&[b'x'; 99], b"\n".as_slice()].concat();
        let mut pushed = 0;
        while queue.push(&line) {
            pushed += 1;
        }
        assert!(!queue.push(&line));
        let mut some = vec![0; 1000];
        assert_eq!(queue.take(&mut some), 1000);
        assert!(queue.push(b"after\n"));
        let mut rest = vec![0; 2 * QUEUE_BYTES];
        let len = queue.take(&mut rest);
        assert!(rest[..len].ends_with(b"x\nskipped=2\nafter\n"));
        assert_eq!(len, pushed * 100 - 1000 + b"skipped=2\nafter\n".len());
        assert!(queue.is_empty());
    }

    #[test]
    fn trailing_losses_are_reported_when_the_queue_is_empty() {
        let mut queue = WatchQueue::new();
        assert!(queue.push(b"line\n"));
        queue.skip(3);
        // The buffer has room for the queued line, but not for the count of skipped lines.
        let mut into = [0; 8];
        assert_eq!(queue.take(&mut into), 5);
        assert!(!queue.is_empty());
        let mut into = [0; 100];
        assert_eq!(queue.take(&mut into), 10);
        assert_eq!((&into[..10], queue.is_empty()), (b"skipped=3\n".as_slice(), true));
    }

    #[test]
    fn a_queue_never_grows() {
        let mut queue = WatchQueue::new();
        let capacity = queue.bytes.capacity();
        let mut into = vec![0; 777];
        for round in 0..20_000 {
            queue.push(&vec![b'x'; round % 900]);
            if round % 3 == 0 {
                queue.take(&mut into);
            }
        }
        assert_eq!(queue.bytes.capacity(), capacity);
    }
}
