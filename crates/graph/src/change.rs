//! Changes of edges, and how an edge's value follows from them whatever their order.
//!
//! An edge has two registers, each with the time of its last change: its state, and its attributes. In each register
//! the newest change wins. Of two changes at one time the greater value wins, so a value follows from the set of
//! changes alone: their order and repetitions have no effect.
//!
//! The text that a record stores is empty if the attributes are empty and were set with the state. Otherwise it is:
//!
//! ```text
//!   [time of the attributes, 6 bytes] [attributes, 0 to 255 bytes]
//! ```

use crate::leaf::EdgeState;
use crate::schema::TypeId;

/// A change of an edge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeChange<'a> {
    /// The identifier of the source.
    pub source: u64,
    /// The type.
    pub edge_type: TypeId,
    /// The identifier of the destination.
    pub destination: u64,
    /// The time of the change, in milliseconds since the epoch.
    pub time_ms: u64,
    /// The action.
    pub action: EdgeAction<'a>,
}

/// The action of a change.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeAction<'a> {
    /// Makes the edge live, with these attributes.
    Add(&'a [u8]),
    /// Makes the edge negative, with these attributes.
    AddNegative(&'a [u8]),
    /// Removes the edge and its attributes.
    Remove,
    /// Archives the edge. Its attributes stay.
    Archive,
    /// Makes the edge live. Its attributes stay.
    Restore,
}

impl<'a> EdgeAction<'a> {
    /// Returns the state that the action sets.
    pub(crate) fn state(self) -> EdgeState {
        match self {
            Self::Add(_) | Self::Restore => EdgeState::Live,
            Self::AddNegative(_) => EdgeState::Negative,
            Self::Remove => EdgeState::Removed,
            Self::Archive => EdgeState::Archived,
        }
    }

    /// Returns the attributes that the action sets, if it sets them.
    pub(crate) fn attributes(self) -> Option<&'a [u8]> {
        match self {
            Self::Add(attributes) | Self::AddNegative(attributes) => Some(attributes),
            Self::Remove => Some(&[]),
            Self::Archive | Self::Restore => None,
        }
    }
}

/// The bytes of a time in the stored text.
pub(crate) const TEXT_TIME_BYTES: usize = 6;

/// The value of an edge: both registers.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct EdgeValue {
    pub(crate) state: EdgeState,
    pub(crate) time: u64,
    pub(crate) attributes_time: u64,
    pub(crate) attributes: Vec<u8>,
}

/// Splits a stored text into the time and the bytes of the attributes.
pub(crate) fn split_text(text: &[u8], edge_time: u64) -> (u64, &[u8]) {
    match text.split_first_chunk::<TEXT_TIME_BYTES>() {
        Some(([a, b, c, d, e, f], attributes)) => (u64::from_le_bytes([*a, *b, *c, *d, *e, *f, 0, 0]), attributes),
        None => (edge_time, &[]),
    }
}

impl EdgeValue {
    /// Returns the value that a change alone causes.
    pub(crate) fn of(action: EdgeAction<'_>, time: u64) -> Self {
        let (attributes_time, attributes) = action.attributes().map_or((0, &[][..]), |attributes| (time, attributes));
        Self { state: action.state(), time, attributes_time, attributes: attributes.to_vec() }
    }

    /// Returns the value in a record.
    pub(crate) fn stored(state: EdgeState, time: u64, text: &[u8]) -> Self {
        let (attributes_time, attributes) = split_text(text, time);
        Self { state, time, attributes_time, attributes: attributes.to_vec() }
    }

    /// Merges another value into this one. Returns true if this value changed.
    pub(crate) fn merge(&mut self, other: &Self) -> bool {
        let wins = (other.time, other.state) > (self.time, self.state);
        if wins {
            (self.time, self.state) = (other.time, other.state);
        }
        let has_newer = (other.attributes_time, &other.attributes) > (self.attributes_time, &self.attributes);
        if has_newer {
            self.attributes_time = other.attributes_time;
            self.attributes.clone_from(&other.attributes);
        }
        wins || has_newer
    }

    /// Returns true if this value results from a merge with another one.
    pub(crate) fn replaces(&self, other: &Self) -> bool {
        let mut merged = other.clone();
        merged.merge(self) && merged == *self
    }

    /// Appends the stored text to `out`. A type without a schema stores none.
    pub(crate) fn push_text(&self, has_schema: bool, out: &mut Vec<u8>) {
        if has_schema && (self.attributes_time != self.time || !self.attributes.is_empty()) {
            out.extend(&self.attributes_time.to_le_bytes()[..TEXT_TIME_BYTES]);
            out.extend(&self.attributes);
        }
    }
}
