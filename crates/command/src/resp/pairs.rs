//! Arguments that come in pairs, such as names or keys with their values.

use protocol::resp::Args;

/// An iterator over pairs of arguments. The number of arguments is even.
#[derive(Clone)]
pub(super) struct Pairs<'c>(pub(super) Args<'c>);

impl<'c> Iterator for Pairs<'c> {
    type Item = (&'c [u8], &'c [u8]);

    fn next(&mut self) -> Option<Self::Item> {
        Some((self.0.next()?, self.0.next()?))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.0.len() / 2, Some(self.0.len() / 2))
    }
}

impl ExactSizeIterator for Pairs<'_> {}
