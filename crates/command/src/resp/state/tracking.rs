//! A session's part in client-side caching.

use crate::push::tracking::{Tracking, TrackingClient};
use segment::GuardsMet;
use std::sync::Arc;

/// The choice of the keys that a client tracks.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(in crate::resp) enum TrackedReads {
    /// The keys of all reads.
    #[default]
    All,
    /// The keys of reads after `CLIENT CACHING YES`.
    OptIn,
    /// The keys of all reads except those after `CLIENT CACHING NO`.
    OptOut,
    /// None: the client receives all changes of some prefixes.
    Broadcast,
}

/// The state of a client that tracks keys. When it is dropped, the client tracks keys no longer.
pub(in crate::resp) struct SessionTracking {
    pub(in crate::resp) tracking: Arc<Tracking>,
    pub(in crate::resp) client: Arc<TrackingClient>,
    pub(in crate::resp) reads: TrackedReads,
    /// True if the client has called `CLIENT CACHING` for the next request.
    pub(in crate::resp) is_caching_given: bool,
    /// The prefixes of which the client receives all changes, in order.
    pub(in crate::resp) prefixes: Vec<Box<[u8]>>,
    /// The guards that must end before the client may read keys.
    pub(in crate::resp) awaits: Option<GuardsMet>,
}

impl TrackedReads {
    /// All choices, in the order of their numbers.
    pub(in crate::resp) const ALL: [Self; 4] = [Self::All, Self::OptIn, Self::OptOut, Self::Broadcast];
}

impl SessionTracking {
    /// Returns true if the keys of the current request are tracked, if it reads.
    pub(in crate::resp) fn tracks_request(&self) -> bool {
        match self.reads {
            TrackedReads::All => true,
            TrackedReads::OptIn => self.is_caching_given,
            TrackedReads::OptOut => !self.is_caching_given,
            TrackedReads::Broadcast => false,
        }
    }
}

impl Drop for SessionTracking {
    fn drop(&mut self) {
        self.prefixes.iter().for_each(|prefix| self.tracking.remove_prefix(prefix, &self.client));
        self.tracking.end(&self.client);
    }
}
