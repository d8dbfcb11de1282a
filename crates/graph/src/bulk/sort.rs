//! Sorts the entries of a batch by list and node number, in slices: a radix sort from the lowest digit.

/// The entry of an edge in one list.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct EdgeRef {
    /// The list's node.
    pub(crate) node: u32,
    /// The number of the neighbour.
    pub(crate) id: u32,
    /// The edge's index in its batch, and in the highest bit its side: 1 in the list of the reverse type.
    tag: u32,
}

const SIDE: u32 = 1 << 31;

impl EdgeRef {
    pub(crate) fn new(node: u32, id: u32, edge: usize, is_reverse: bool) -> Self {
        Self { node, id, tag: edge as u32 | if is_reverse { SIDE } else { 0 } }
    }

    #[inline]
    pub(crate) fn edge(self) -> usize {
        (self.tag & !SIDE) as usize
    }

    #[inline]
    pub(crate) fn is_reverse(self) -> bool {
        self.tag & SIDE != 0
    }

    /// Returns true if both entries are of one list.
    #[inline]
    pub(crate) fn is_beside(self, other: Self) -> bool {
        self.node == other.node && self.is_reverse() == other.is_reverse()
    }
}

const DIGIT_BITS: u32 = 11;
const DIGITS: usize = 1 << DIGIT_BITS;

/// The part of an entry that a pass sorts by.
#[derive(Clone, Copy, Debug)]
enum Digit {
    Id(u32),
    Node(u32),
    Side,
}

/// The sort, with its entries.
#[derive(Debug, Default)]
pub(crate) struct RefSort {
    pub(crate) refs: Vec<EdgeRef>,
    spare: Vec<EdgeRef>,
    /// The passes that are left, the next last.
    passes: Vec<Digit>,
    /// For each pass that is left the number of entries of each digit, then the place of the next one.
    places: Vec<[u32; DIGITS]>,
    is_counted: bool,
    at: usize,
}

/// Adds the entries of each digit.
fn count(refs: &[EdgeRef], places: &mut [u32; DIGITS], digit: impl Fn(&EdgeRef) -> u32) {
    refs.iter().for_each(|entry| places[digit(entry) as usize % DIGITS] += 1);
}

/// Moves entries to their places.
fn scatter(refs: &[EdgeRef], spare: &mut [EdgeRef], places: &mut [u32; DIGITS], digit: impl Fn(&EdgeRef) -> u32) {
    for entry in refs {
        let place = &mut places[digit(entry) as usize % DIGITS];
        spare[*place as usize] = *entry;
        *place += 1;
    }
}

impl RefSort {
    /// Begins to sort the entries, whose numbers are all below `nodes`.
    pub(crate) fn begin(&mut self, nodes: u32, has_sides: bool) {
        let shifts: Vec<u32> = (0..u32::BITS - nodes.leading_zeros()).step_by(DIGIT_BITS as usize).collect();
        self.passes.clear();
        self.passes.extend(has_sides.then_some(Digit::Side));
        self.passes.extend(shifts.iter().rev().map(|shift| Digit::Node(*shift)));
        self.passes.extend(shifts.iter().rev().map(|shift| Digit::Id(*shift)));
        self.places.clear();
        self.places.resize(self.passes.len(), [0; DIGITS]);
        (self.is_counted, self.at) = (false, 0);
    }

    /// Reserves memory for entries.
    pub(crate) fn reserve(&mut self, refs: usize) {
        self.refs.reserve(refs);
        self.spare.reserve(refs);
    }

    /// Adds an entry. The room to move it to grows with the entries, so that no slice fills it at once.
    #[inline]
    pub(crate) fn push(&mut self, entry: EdgeRef) {
        self.refs.push(entry);
        self.spare.push(EdgeRef::default());
    }

    /// Removes all entries, and retains their memory.
    pub(crate) fn clear(&mut self) {
        self.refs.clear();
        self.spare.clear();
    }

    /// Reads or moves at most `refs_max` entries. Returns true if all are sorted.
    pub(crate) fn step(&mut self, refs_max: usize) -> bool {
        let end = self.refs.len().min(self.at + refs_max);
        let refs = &self.refs[self.at..end];
        if !self.is_counted {
            // All passes sort the same entries, so their digits are counted at once.
            for (digit, places) in self.passes.iter().zip(&mut self.places) {
                match *digit {
                    Digit::Id(shift) => count(refs, places, |entry| entry.id >> shift),
                    Digit::Node(shift) => count(refs, places, |entry| entry.node >> shift),
                    Digit::Side => count(refs, places, |entry| u32::from(entry.is_reverse())),
                }
            }
        } else if let Some((digit, places)) = self.passes.last().zip(self.places.last_mut()) {
            let spare = &mut self.spare;
            match *digit {
                Digit::Id(shift) => scatter(refs, spare, places, |entry| entry.id >> shift),
                Digit::Node(shift) => scatter(refs, spare, places, |entry| entry.node >> shift),
                Digit::Side => scatter(refs, spare, places, |entry| u32::from(entry.is_reverse())),
            }
        }
        self.at = end;
        if end < self.refs.len() {
            return false;
        }
        self.at = 0;
        if self.is_counted {
            std::mem::swap(&mut self.refs, &mut self.spare);
            self.passes.pop();
            self.places.pop();
        } else {
            for places in &mut self.places {
                let mut sum = 0;
                for place in places {
                    sum += std::mem::replace(place, sum);
                }
            }
            self.is_counted = true;
        }
        self.passes.is_empty()
    }
}

#[cfg(all(test, not(shuttle)))]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn entries_are_sorted_as_by_the_standard_library_in_slices_of_any_size() {
        let mut prng = Prng::new(1);
        for (nodes, count, slice) in
            [(1, 0, 1), (2, 5, 1), (3000, 2000, 77), (1 << 20, 5000, 4999), (u32::MAX, 900, 900)]
        {
            let mut one = |edge| {
                let (node, id) = (prng.below(u64::from(nodes)) as u32, prng.below(u64::from(nodes)) as u32);
                EdgeRef::new(node, id, edge, prng.chance(1, 3))
            };
            let refs: Vec<EdgeRef> = (0..count).map(&mut one).collect();
            let mut sort = RefSort::default();
            refs.iter().for_each(|entry| sort.push(*entry));
            sort.begin(nodes, true);
            let mut steps = 0;
            while !sort.step(slice) {
                steps += 1;
            }
            let mut expected = refs;
            expected.sort_by_key(|entry| (entry.is_reverse(), entry.node, entry.id));
            assert_eq!(sort.refs, expected);
            assert!(count == 0 || steps >= 2 * count / slice, "{steps} steps of {slice} entries");
        }
    }
}
