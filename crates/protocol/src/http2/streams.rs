//! The open streams of a connection: a small hash table with linear probing, keyed by stream identifier.
//!
//! ```text
//!            HEADERS                     END_STREAM received
//!   idle ───────────────> open ─────────────────────────────────> half-closed (remote)
//!                          │ END_STREAM sent                              │ END_STREAM sent
//!                          ▼                END_STREAM received           ▼
//!                 half-closed (local) ─────────────────────────────────> closed
//!   any open state ── RST_STREAM sent or received ──────────────────────> closed
//! ```
//!
//! A closed stream leaves the table. There are no edges out of `closed`: identifiers only ascend.

use super::frame::WINDOW_BYTES_MAX;

/// An open stream.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Stream {
    /// The identifier; 0 for a free place.
    pub(super) id: u32,
    /// A value for the caller.
    pub(super) user: u32,
    /// The bytes that may still be sent; negative after the peer has lowered its initial window.
    pub(super) send_window: i32,
    /// The bytes that the peer may still send.
    pub(super) receive_window: i32,
    /// Received bytes that the caller has not consumed.
    pub(super) held: u32,
    /// Consumed bytes that no WINDOW_UPDATE has returned yet.
    pub(super) unannounced: u32,
    /// The bytes that `content-length` promises beyond those received; -1 without this field.
    pub(super) content_left: i64,
    /// END_STREAM was received.
    pub(super) remote_ended: bool,
    /// END_STREAM was sent.
    pub(super) local_ended: bool,
    /// The reply's HEADERS were sent by the server, or received by the client.
    pub(super) reply_begun: bool,
}

const _: () = assert!(size_of::<Stream>() == 40);

/// The number of closed streams that are remembered. Frames that the peer sent before it learned of a reset arrive
/// within a round trip, while few further streams close.
const CLOSED_STREAMS: usize = 32;

/// The mark of a stream that this side has reset. Frames for it are ignored.
const RESET_MARK: u32 = 1 << 31;

/// The least number of places of the table. It doubles up to what the maximum of open streams needs.
const PLACES_MIN: usize = 8;

/// The open streams, and the streams closed last.
#[derive(Debug)]
pub(super) struct Streams {
    /// A power of two, at most 4/5 of which are taken.
    places: Box<[Stream]>,
    len: usize,
    /// The number of streams that are not at home, because another one was there. There are none while the open streams
    /// are those that a client has opened last.
    displaced: usize,
    /// A ring of the identifiers closed last, with [`RESET_MARK`].
    closed: [u32; CLOSED_STREAMS],
    closed_at: usize,
}

impl Streams {
    pub(super) fn new() -> Self {
        let places = vec![Stream::default(); PLACES_MIN].into_boxed_slice();
        Self { places, len: 0, displaced: 0, closed: [0; CLOSED_STREAMS], closed_at: 0 }
    }

    /// Returns the number of open streams.
    pub(super) fn len(&self) -> usize {
        self.len
    }

    /// Returns the number of bytes on the heap, this struct included.
    pub(super) fn heap_bytes(&self) -> usize {
        size_of::<Self>() + size_of_val(&*self.places)
    }

    #[inline(always)]
    fn home(&self, id: u32) -> usize {
        // A client's identifiers are odd and ascend, so they fall on places in a row.
        (id >> 1) as usize & (self.places.len() - 1)
    }

    #[inline]
    fn place(&self, id: u32) -> Option<usize> {
        debug_assert!(id != 0);
        let mut at = self.home(id);
        loop {
            match self.places[at].id {
                found if found == id => return Some(at),
                0 => return None,
                _ => at = (at + 1) & (self.places.len() - 1),
            }
        }
    }

    #[inline]
    pub(super) fn find(&self, id: u32) -> Option<&Stream> {
        self.place(id).map(|at| &self.places[at])
    }

    #[inline]
    pub(super) fn find_mut(&mut self, id: u32) -> Option<&mut Stream> {
        self.place(id).map(|at| &mut self.places[at])
    }

    /// Adds a stream that is not in the table.
    pub(super) fn insert(&mut self, stream: Stream) {
        debug_assert!(self.place(stream.id).is_none());
        if 5 * (self.len + 1) > 4 * self.places.len() {
            let double = vec![Stream::default(); 2 * self.places.len()].into_boxed_slice();
            let before = std::mem::replace(&mut self.places, double);
            self.displaced = 0;
            before.iter().filter(|stream| stream.id != 0).for_each(|stream| self.put(*stream));
        }
        self.put(stream);
        self.len += 1;
    }

    fn put(&mut self, stream: Stream) {
        let home = self.home(stream.id);
        let mut at = home;
        while self.places[at].id != 0 {
            at = (at + 1) & (self.places.len() - 1);
        }
        self.displaced += usize::from(at != home);
        self.places[at] = stream;
    }

    /// Removes a stream and remembers that it is closed, and if this side reset it.
    pub(super) fn close(&mut self, id: u32, reset: bool) -> Option<Stream> {
        let place = self.place(id)?;
        let stream = self.places[place];
        self.displaced -= usize::from(place != self.home(id));
        let gap = if self.displaced == 0 { place } else { self.fill(place) };
        self.places[gap] = Stream::default();
        self.len -= 1;
        self.remember(id, reset);
        Some(stream)
    }

    /// Moves each stream that `gap` would hide from its home into the gap, which is then where that stream was. Returns
    /// the last gap.
    fn fill(&mut self, mut gap: usize) -> usize {
        let mask = self.places.len() - 1;
        let mut at = gap;
        loop {
            at = (at + 1) & mask;
            if self.places[at].id == 0 {
                return gap;
            }
            let home = self.home(self.places[at].id);
            if (at.wrapping_sub(home) & mask) >= (at.wrapping_sub(gap) & mask) {
                self.displaced -= usize::from(gap == home);
                self.places[gap] = self.places[at];
                gap = at;
            }
        }
    }

    /// Remembers a closed stream, which need not have been in the table.
    pub(super) fn remember(&mut self, id: u32, reset: bool) {
        self.closed[self.closed_at] = if reset { id | RESET_MARK } else { id };
        self.closed_at = (self.closed_at + 1) % CLOSED_STREAMS;
    }

    /// Returns true if this side reset the stream lately.
    pub(super) fn was_reset(&self, id: u32) -> bool {
        self.closed.contains(&(id | RESET_MARK))
    }

    /// Returns true if the stream was closed lately.
    pub(super) fn was_closed(&self, id: u32) -> bool {
        self.closed.iter().any(|closed| closed & !RESET_MARK == id)
    }

    /// Adds `delta` to the send window of each stream. Returns false if a window would exceed the maximum.
    pub(super) fn adjust_send_windows(&mut self, delta: i64) -> bool {
        self.places.iter_mut().filter(|stream| stream.id != 0).all(|stream| {
            let window = i64::from(stream.send_window) + delta;
            // Windows never fall below -(2^31 - 1): an initial window is not negative, and at most its size was used.
            stream.send_window = window.clamp(-i64::from(WINDOW_BYTES_MAX), i64::from(WINDOW_BYTES_MAX)) as i32;
            window <= i64::from(WINDOW_BYTES_MAX)
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;
    use std::collections::HashMap;

    #[test]
    fn streams_are_found_after_any_closings_and_the_displaced_are_counted() {
        for (seed, skip_max) in [(1, 1), (2, 3), (3, 40), (4, 1000)] {
            let (mut streams, mut model, mut prng) = (Streams::new(), HashMap::new(), Prng::new(seed));
            let (mut id, mut displaced) = (1, 0);
            for _ in 0..20_000 {
                if model.len() < 100 && prng.chance(1, 2) {
                    id += 2 * (1 + prng.below(skip_max) as u32);
                    streams.insert(Stream { id, user: !id, ..Stream::default() });
                    model.insert(id, !id);
                } else if let Some(closed) = model.keys().copied().nth(prng.below(1 + model.len() as u64) as usize) {
                    assert_eq!(streams.close(closed, false).map(|stream| stream.user), model.remove(&closed));
                    assert!(streams.find(closed).is_none());
                }
                let at_home = |(at, stream): (usize, &Stream)| stream.id == 0 || streams.home(stream.id) == at;
                let counted = streams.places.iter().enumerate().filter(|place| !at_home(*place)).count();
                assert_eq!((streams.displaced, streams.len()), (counted, model.len()));
                displaced += counted;
                assert!(model.iter().all(|(id, user)| streams.find(*id).is_some_and(|stream| stream.user == *user)));
            }
            assert!(displaced > 1_000, "{displaced} are too few to prove anything");
        }
    }
}
