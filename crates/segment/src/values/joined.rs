//! Long parts of values, joined from their fragments.

use std::cell::{Cell, OnceCell};

use crate::core::facets::PartReads;
use crate::layout::key::Key;
use crate::values::parts::PartBytes;

/// The number of blocks; block `n` has room for `2^n` parts.
const BLOCKS: usize = 32;

/// The number of joined parts among which a part is searched.
const SEARCHED_MAX: usize = 64;

/// A part and its number.
type JoinedPart = (u64, Vec<u8>);

/// Joined parts of one value. They stay in their places, so that references to them are valid while others are added.
/// Their memory is bounded by what the caller reads before it drops them.
#[derive(Debug, Default)]
pub struct JoinedParts {
    blocks: [OnceCell<Box<[OnceCell<JoinedPart>]>>; BLOCKS],
    count: Cell<usize>,
}

impl JoinedParts {
    /// Returns the bytes of the part with a number, joined from its fragments.
    pub fn join(&self, number: u64, fragments: &[&[u8]]) -> Option<&[u8]> {
        self.part(number, || fragments.concat())
    }

    /// Returns the part with a number, which `bytes` returns unless it is one of the last ones.
    fn part(&self, number: u64, bytes: impl FnOnce() -> Vec<u8>) -> Option<&[u8]> {
        let count = self.count.get();
        let mut last = (count.saturating_sub(SEARCHED_MAX)..count).rev().filter_map(|index| self.place(index));
        let place = match last.find(|place| place.get().is_some_and(|(of, _)| *of == number)) {
            Some(there) => there,
            None => {
                self.count.set(count + 1);
                self.place(count)?
            }
        };
        Some(&place.get_or_init(|| (number, bytes())).1)
    }

    fn place(&self, index: usize) -> Option<&OnceCell<JoinedPart>> {
        let number = (index + 1).ilog2();
        let block = self.blocks.get(number as usize)?;
        let block = block.get_or_init(|| (0..1usize << number).map(|_| OnceCell::new()).collect());
        block.get(index + 1 - (1 << number))
    }
}

impl<'g> PartReads<'g, '_> {
    /// Returns the bytes of a part, as [`PartReads::part`] does. Those of a long part are joined in `joined`.
    pub fn joined_part<'j>(
        self,
        joined: &'j OnceCell<Box<JoinedParts>>,
        key: &Key<'_>,
        object: u64,
        part: u64,
    ) -> Option<&'j [u8]>
    where
        'g: 'j,
    {
        match self.part(key, object, part)? {
            PartBytes::Whole(bytes) => Some(bytes),
            PartBytes::Fragments(all) => joined.get_or_init(Box::default).join(part, &all),
        }
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;

    #[test]
    fn joined_parts_stay_in_their_places() {
        let joined = JoinedParts::default();
        let parts: Vec<&[u8]> =
            (0..100u64).map(|number| joined.part(number, || vec![number as u8; 3]).expect("room")).collect();
        assert!(parts.iter().zip(0u8..).all(|(part, number)| **part == [number; 3]));
        let again = joined.part(99, || unreachable!("it is the last one"));
        assert_eq!(again.map(<[u8]>::as_ptr), parts.last().map(|part| part.as_ptr()));
        assert_eq!(joined.part(40, || unreachable!("it is one of the last")), Some(&[40; 3][..]));
        assert_eq!(joined.part(3, || vec![7]), Some(&[7][..]));
    }
}
