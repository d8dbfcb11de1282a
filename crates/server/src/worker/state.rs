//! The queues and lists of one worker. This module does not serve sessions.

use crate::buffers::Input;
use crate::buffers::LENT_NS_MAX;
use command::clients::client_info::ClientMemory;
use command::context::IN_PLACE_RECEIVES_MAX;
use command::metrics::counters::WorkerCounters;
use segment::Awaited;
use std::collections::VecDeque;
use std::time::Duration;

/// The time after which setting bytes aside is retried, if the limit was reached.
pub(super) const RETRY_NS: u64 = 25_000_000;

/// Sessions that have begun in-place receives. Some of the receives may have ended.
pub(super) struct InPlaceReceives {
    pub(super) sessions: Vec<u32>,
    pub(super) checked_ns: u64,
    /// The number of bytes received in place since the last call of `take_bytes`.
    pub(super) bytes: usize,
}

impl InPlaceReceives {
    pub(super) fn new() -> Self {
        Self { sessions: Vec::with_capacity(IN_PLACE_RECEIVES_MAX), checked_ns: 0, bytes: 0 }
    }

    /// Returns the number of bytes received in place since the last call.
    pub(super) fn take_bytes(&mut self) -> usize {
        std::mem::take(&mut self.bytes)
    }
}

/// The sessions of one worker that wait for flash.
#[derive(Debug, Default)]
pub(super) struct FlashWaiting {
    /// Each session that waits for a read, with the hash of the key that is being read.
    pub(super) reads: Vec<(u64, u32)>,
    pub(super) room: VecDeque<u32>,
    /// The hashes of keys whose reads have completed. This vector and `called` are empty between two calls; they keep
    /// their capacity.
    pub(super) landed: Vec<u64>,
    pub(super) called: Vec<u32>,
}

impl FlashWaiting {
    pub(super) fn wait(&mut self, awaited: Awaited, session: u32) {
        match awaited {
            Awaited::Read(hash) => self.reads.push((hash, session)),
            Awaited::Room => self.room.push_back(session),
        }
    }

    /// Returns true if a session waits for room to start a read. Such a session has not started a read whose completion
    /// would resume it.
    pub(super) fn wants_room(&self) -> bool {
        !self.room.is_empty()
    }

    pub(super) fn is_empty(&self) -> bool {
        self.reads.is_empty() && self.room.is_empty()
    }
}

/// A list of sessions in the order in which they were added, each once.
pub(super) struct SessionList {
    /// Each session, with the instant from which its time in the list counts, in ns since the worker started.
    pub(super) queue: VecDeque<(u32, u64)>,
    pub(super) has: Vec<bool>,
}

impl SessionList {
    pub(super) fn new(sessions_max: usize) -> Self {
        Self { queue: VecDeque::with_capacity(sessions_max), has: vec![false; sessions_max] }
    }

    pub(super) fn note(&mut self, index: u32, now_ns: u64) {
        if !std::mem::replace(&mut self.has[index as usize], true) {
            self.queue.push_back((index, now_ns));
        }
    }

    /// Puts the session that was last removed from the front back to the front.
    pub(super) fn put_back(&mut self, index: u32, since_ns: u64) {
        self.has[index as usize] = true;
        self.queue.push_front((index, since_ns));
    }

    pub(super) fn pop(&mut self) -> Option<(u32, u64)> {
        let (index, since_ns) = self.queue.pop_front()?;
        self.has[index as usize] = false;
        Some((index, since_ns))
    }
}

/// The sessions that hold lent buffers without being served, and those whose bytes are set aside.
pub(super) struct Holders {
    /// Sessions with a lent receive buffer: the list for small buffers, then the list for big buffers. A session that
    /// has received a buffer of the other class since the session was added moves to the other list when its entry is
    /// reached.
    pub(super) inputs: [SessionList; 2],
    /// Sessions with an output that are blocked.
    pub(super) outputs: SessionList,
    /// Sessions whose input or output is set aside.
    pub(super) aside: SessionList,
    /// The last instant at which bytes could not be set aside because the limit was reached, in ns since the worker
    /// started. 0: the limit was not reached, or [`RETRY_NS`] have passed since.
    pub(super) full_ns: u64,
    /// True if a session has a lent receive buffer, or waits for a buffer.
    pub(super) is_busy: bool,
}

impl Holders {
    pub(super) fn new(sessions_max: usize) -> Self {
        Self {
            inputs: [(); 2].map(|()| SessionList::new(sessions_max)),
            outputs: SessionList::new(sessions_max),
            aside: SessionList::new(sessions_max),
            full_ns: 0,
            is_busy: false,
        }
    }

    /// Adds a session whose lent receive buffer contains an incomplete request.
    #[inline]
    pub(super) fn note_input(&mut self, index: u32, input: &Input, now_ns: u64) {
        if let Some(class) = input.class() {
            self.inputs[class.slot()].note(index, now_ns);
            self.is_busy = true;
        }
    }

    /// Adds a session with an output whose peer has just stopped accepting bytes.
    pub(super) fn note_output(&mut self, index: u32, now_ns: u64) {
        self.outputs.note(index, now_ns);
    }

    /// Returns the time until bytes may next have to be set aside.
    pub(super) fn quiet(&self, now_ns: u64) -> Duration {
        let fronts = self.inputs.iter().filter_map(|list| list.queue.front());
        let due_ns = fronts.map(|(_, since_ns)| since_ns + LENT_NS_MAX).min().unwrap_or(u64::MAX);
        let retry_ns = if self.full_ns > 0 { self.full_ns + RETRY_NS } else { 0 };
        Duration::from_nanos(due_ns.max(retry_ns).saturating_sub(now_ns))
    }
}

/// The number of passes over all sessions, one per second, of which the peaks are reported. Redis reports those of as
/// many seconds.
const PEAK_PASSES: usize = 8;

/// The most bytes that one Redis client had in its buffers in the last passes over all sessions.
#[derive(Debug, Default)]
pub(super) struct BufferPeaks {
    /// Received and sent bytes of each pass. The current pass is the first.
    passes: [(u64, u64); PEAK_PASSES],
}

impl BufferPeaks {
    /// Adds the memory of a client's connection to the current pass.
    pub(super) fn note(&mut self, memory: &ClientMemory) {
        let (input, output) = &mut self.passes[0];
        *input = (*input).max((memory.query_bytes + memory.args_bytes) as u64);
        *output = (*output).max(memory.reply_bytes + memory.held_bytes);
    }

    /// Publishes the peaks at the end of a pass, and begins the next one.
    pub(super) fn end_pass(&mut self, counters: &WorkerCounters) {
        let most = |of: fn(&(u64, u64)) -> u64| self.passes.iter().map(of).max().unwrap_or(0);
        counters.input_bytes_max.set(most(|pass| pass.0));
        counters.output_bytes_max.set(most(|pass| pass.1));
        self.passes.rotate_right(1);
        self.passes[0] = (0, 0);
    }
}

/// Blocked sessions with pinned values, each once.
pub(super) struct Pinners {
    pub(super) sessions: Vec<u32>,
    /// The instant since which each session is in the list, in ns since the worker started. 0: not in the list.
    pub(super) since_ns: Vec<u64>,
}

impl Pinners {
    pub(super) fn new(sessions_max: usize) -> Self {
        Self { sessions: Vec::with_capacity(sessions_max), since_ns: vec![0; sessions_max] }
    }
}
