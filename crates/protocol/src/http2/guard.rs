//! Budgets against peers that make a server work without asking for anything.
//!
//! - Rapid reset: streams that the peer reset before their reply was complete. A complete reply takes one back, and
//!   time takes back as many as a client can reset whose calls all end at their deadlines: the concurrent streams in
//!   each [`DEADLINE_MS_MIN`]. The default maximum is what such a client resets in a second, because frames that were
//!   sent over that time may be read at once: after a pause of this side, or while a call of the connection waited. A
//!   reset stream costs less CPU time than an answered one, so that the budget bounds overhead and not work.
//! - Malformed requests: streams that were reset for the peer's errors. The default is 1,024.
//! - Floods of PING, SETTINGS, WINDOW_UPDATE, PRIORITY, empty DATA and unknown frames: the sum of their costs, from
//!   which frames of requests and replies take some back. The default is 10,000.
//!
//! There is no clock: the caller reports the elapsed time, and renews the other budgets about once a second.

/// The costs of frames that carry no part of a request, in units of an ignored frame.
pub(super) mod cost {
    pub(in super::super) const IGNORED: u32 = 1;
    pub(in super::super) const WINDOW_UPDATE: u32 = 1;
    pub(in super::super) const PING: u32 = 10;
    pub(in super::super) const CLOSED_STREAM: u32 = 10;
    pub(in super::super) const SETTINGS: u32 = 100;
    pub(in super::super) const EMPTY_DATA: u32 = 100;
}

/// The shortest deadline at which all calls of a client may end, again and again.
pub(super) const DEADLINE_MS_MIN: u32 = 10;

/// The amount by which each frame of a request or reply reduces the sum of costs. A client that pings once for each
/// reply, to measure its bandwidth, is never at fault.
const CREDIT: u32 = 20;

/// An exceeded budget, with the text for the peer's operator.
pub(super) type Exceeded = &'static str;

/// The budgets of one connection.
#[derive(Clone, Copy, Debug)]
pub(super) struct Guard {
    remote_resets: u32,
    remote_resets_max: u32,
    local_resets: u32,
    local_resets_max: u32,
    overhead: u32,
    overhead_max: u32,
}

impl Guard {
    pub(super) fn new(remote_resets_max: u32, local_resets_max: u32, overhead_max: u32) -> Self {
        Self { remote_resets: 0, remote_resets_max, local_resets: 0, local_resets_max, overhead: 0, overhead_max }
    }

    /// Counts a frame that carries no part of a request.
    #[inline]
    pub(super) fn add_overhead(&mut self, cost: u32) -> Result<(), Exceeded> {
        self.overhead += cost;
        if self.overhead > self.overhead_max { Err("too many frames without requests") } else { Ok(()) }
    }

    /// Counts a frame of a request or a reply.
    #[inline(always)]
    pub(super) fn add_useful(&mut self) {
        self.overhead = self.overhead.saturating_sub(CREDIT);
    }

    /// Counts a stream that the peer reset before its reply was complete.
    pub(super) fn add_remote_reset(&mut self) -> Result<(), Exceeded> {
        self.remote_resets += 1;
        if self.remote_resets > self.remote_resets_max { Err("too many streams reset by the client") } else { Ok(()) }
    }

    /// Counts a complete reply.
    #[inline(always)]
    pub(super) fn add_reply(&mut self) {
        self.remote_resets = self.remote_resets.saturating_sub(1);
    }

    /// Counts a stream that was reset for an error of the peer.
    pub(super) fn add_local_reset(&mut self) -> Result<(), Exceeded> {
        self.local_resets += 1;
        if self.local_resets > self.local_resets_max { Err("too many malformed streams") } else { Ok(()) }
    }

    /// Takes back `count` streams that the peer reset, because of the time since then.
    pub(super) fn forget_remote_resets(&mut self, count: u32) {
        self.remote_resets = self.remote_resets.saturating_sub(count);
    }

    /// Renews the budgets: overhead in full, streams that were reset for errors by half.
    pub(super) fn tick(&mut self) {
        self.overhead = 0;
        self.local_resets /= 2;
    }
}
