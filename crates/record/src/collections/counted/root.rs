//! The root of a tree under change. Most changes of a small collection replace one range of the root, so the root is
//! copied only if that range is not enough.

use super::edit::{copy, replace};
use std::cell::OnceCell;
use std::ops::Range;

/// The root of a tree under change.
#[derive(Debug, Default)]
pub(super) struct Root<'e> {
    /// The stored bytes.
    old: &'e [u8],
    /// The range of `old` that is replaced, and the bytes that replace it.
    change: Option<(Range<usize>, Vec<u8>)>,
    /// All bytes, if they were needed in one piece after a change.
    whole: OnceCell<Vec<u8>>,
}

impl<'e> Root<'e> {
    /// Returns the unchanged root with these bytes.
    pub(super) fn of(old: &'e [u8]) -> Self {
        Self { old, ..Self::default() }
    }

    /// Replaces all bytes.
    pub(super) fn set(&mut self, bytes: Vec<u8>) {
        (self.change, self.whole) = (None, OnceCell::from(bytes));
    }

    /// Returns the bytes.
    pub(super) fn bytes(&self) -> &[u8] {
        match (&self.change, self.whole.get()) {
            (_, Some(whole)) => whole,
            (None, None) => self.old,
            (Some((range, with)), None) => self.whole.get_or_init(|| {
                let mut whole = copy(self.old);
                replace(&mut whole, range.clone(), with);
                whole
            }),
        }
    }

    /// Returns the number of bytes.
    pub(super) fn len(&self) -> usize {
        match (&self.change, self.whole.get()) {
            (Some((range, with)), None) => self.old.len() - range.len() + with.len(),
            _ => self.bytes().len(),
        }
    }

    /// Returns the bytes, of which the caller may change any.
    pub(super) fn to_mut(&mut self) -> &mut Vec<u8> {
        if self.change.is_some() {
            self.bytes();
            self.change = None;
        }
        self.whole.get_or_init(|| copy(self.old));
        self.whole.get_mut().expect("it was set above")
    }

    /// Returns the bytes. The root is empty afterwards.
    pub(super) fn take(&mut self) -> Vec<u8> {
        let bytes = std::mem::take(self.to_mut());
        *self = Self::default();
        bytes
    }

    /// Replaces a range, which ends within the root.
    pub(super) fn replace(&mut self, range: Range<usize>, with: impl AsRef<[u8]> + Into<Vec<u8>>) {
        if self.change.is_none() && self.whole.get().is_none() {
            self.change = Some((range, with.into()));
        } else {
            replace(self.to_mut(), range, with.as_ref());
        }
    }

    /// Appends the bytes to `to`.
    pub(super) fn append_to(&self, to: &mut Vec<u8>) {
        match (&self.change, self.whole.get()) {
            (Some((range, with)), None) => {
                to.reserve(self.len());
                to.extend_from_slice(&self.old[..range.start]);
                to.extend_from_slice(with);
                to.extend_from_slice(&self.old[range.end..]);
            }
            _ => to.extend_from_slice(self.bytes()),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Every sequence of up to four calls, compared with a vector.
    #[test]
    fn a_root_has_the_bytes_of_a_vector_after_any_sequence_of_changes() {
        const ACTIONS: usize = 6;
        let old = b"0123456789";
        for sequence in 0..ACTIONS.pow(4) {
            let (mut root, mut model) = (Root::of(old), old.to_vec());
            for action in (0..4).map(|at| sequence / ACTIONS.pow(at) % ACTIONS) {
                let end = model.len();
                match action {
                    0 => {
                        root.replace(end..end, b"after".to_vec());
                        model.extend_from_slice(b"after");
                    }
                    1 => {
                        root.replace(end / 3..end / 2, b"x");
                        model.splice(end / 3..end / 2, *b"x");
                    }
                    2 => assert_eq!(root.bytes(), model),
                    3 => {
                        root.to_mut().push(b'!');
                        model.push(b'!');
                    }
                    4 => {
                        assert_eq!(root.take(), model);
                        assert_eq!(root.len(), 0);
                        model.clear();
                    }
                    _ => {
                        root.set(b"new".to_vec());
                        model = b"new".to_vec();
                    }
                }
                assert_eq!(root.len(), model.len(), "{sequence}");
                let mut all = b">".to_vec();
                root.append_to(&mut all);
                assert_eq!(all, [b">", &model[..]].concat(), "{sequence}");
            }
        }
    }
}
