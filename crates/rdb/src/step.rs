//! The element that was read last, and its strings.

use std::io::Read;
use std::ops::Range;

use crate::event::{Element, StreamId};
use crate::input::{Input, decimal};
use crate::packed::Piece;
use crate::{Damage, malformed};

/// The facts of a group besides its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct GroupHead {
    pub(crate) last_id: StreamId,
    pub(crate) entries_read: Option<u64>,
}

/// The facts of a consumer besides its name.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ConsumerHead {
    pub(crate) seen_at_ms: u64,
    pub(crate) active_at_ms: Option<u64>,
}

/// The kind of an element whose strings are in [`Strings`].
#[derive(Clone, Copy, Debug)]
pub(crate) enum ElementStep {
    Text,
    Member,
    Scored(f64),
    Field(Option<u64>),
    /// An element that needs no string besides the first.
    Other(fn(&[u8]) -> Element<'_>),
    /// An element without strings.
    Whole(Element<'static>),
    Group(GroupHead),
    Consumer(ConsumerHead),
    Produced(StreamId),
}

/// The place of one of an element's strings.
#[derive(Clone, Debug, Default)]
enum Source {
    #[default]
    Own,
    Packed(Range<usize>),
}

/// The strings of the current element, and the packed string that it may be in.
#[derive(Debug, Default)]
pub(crate) struct Strings {
    pub(crate) packed: Vec<u8>,
    own: [Vec<u8>; 2],
    sources: [Source; 2],
}

impl Strings {
    /// Reads the string with number `at` of an element.
    pub(crate) fn read<R: Read>(&mut self, input: &mut Input<R>, at: usize) -> Result<(), Damage> {
        self.sources[at] = Source::Own;
        input.string(&mut self.own[at])
    }

    /// Makes an element of the packed string the string with number `at`.
    pub(crate) fn take(&mut self, piece: Piece, at: usize) {
        self.sources[at] = match piece {
            Piece::Bytes(range) => Source::Packed(range),
            Piece::Number(number) => {
                decimal(number, &mut self.own[at]);
                Source::Own
            }
        };
    }

    fn text(&self, at: usize) -> &[u8] {
        match &self.sources[at] {
            Source::Own => &self.own[at],
            Source::Packed(range) => &self.packed[range.clone()],
        }
    }

    /// Returns the element.
    pub(crate) fn element(&self, step: ElementStep) -> Element<'_> {
        // An element without strings must not look at those of an earlier one, whose packed string may be gone.
        let first = || self.text(0);
        match step {
            ElementStep::Text => Element::Text(first()),
            ElementStep::Member => Element::Member(first()),
            ElementStep::Scored(score) => Element::Scored { member: first(), score },
            ElementStep::Field(expire_at_ms) => Element::Field { name: first(), value: self.text(1), expire_at_ms },
            ElementStep::Other(make) => make(first()),
            ElementStep::Whole(element) => element,
            ElementStep::Group(head) => {
                Element::Group { name: first(), last_id: head.last_id, entries_read: head.entries_read }
            }
            ElementStep::Consumer(head) => {
                Element::Consumer { name: first(), seen_at_ms: head.seen_at_ms, active_at_ms: head.active_at_ms }
            }
            ElementStep::Produced(id) => Element::Produced { name: first(), id },
        }
    }
}

/// Returns the damage of a packed value that began at `at`.
pub(crate) fn broken(at: u64) -> Damage {
    malformed(at, "cannot unpack a value in packed form")
}
