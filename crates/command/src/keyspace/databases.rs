//! The databases of Redis clients: the namespace of each.

use segment::Namespace;

/// The numbers of all databases.
const NUMBERS: std::ops::Range<u8> = 0..Namespace::MAX as u8;

/// The namespace of each database. Four bits for each number of a database, from the lowest on, are the number of its
/// namespace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Databases(u64);

const _: () = assert!(Namespace::MAX == 16, "four bits hold the number of a namespace");

impl Default for Databases {
    fn default() -> Self {
        Self(0xFEDC_BA98_7654_3210)
    }
}

impl Databases {
    /// Returns the namespaces that [`Databases::packed`] has packed. Returns `None` if two databases would have the
    /// same one.
    pub fn of(packed: u64) -> Option<Self> {
        let databases = Self(packed);
        let used = NUMBERS.fold(0_u32, |used, number| used | 1 << databases.namespace(number).0);
        (used == (1 << Namespace::MAX) - 1).then_some(databases)
    }

    /// Returns the namespaces as one number.
    pub fn packed(self) -> u64 {
        self.0
    }

    /// Returns the namespace of a database.
    pub fn namespace(self, database: u8) -> Namespace {
        Namespace((self.0 >> (4 * database)) as u8 & 15)
    }

    /// Returns the database that has a namespace.
    pub fn database(self, namespace: Namespace) -> u8 {
        NUMBERS.into_iter().find(|database| self.namespace(*database) == namespace).unwrap_or(namespace.0)
    }

    pub(crate) fn swapped(self, a: u8, b: u8) -> Self {
        let change = u64::from(self.namespace(a).0 ^ self.namespace(b).0);
        Self(self.0 ^ change << (4 * a) ^ change << (4 * b))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn swapped_databases_exchange_their_namespaces_and_no_others() {
        let mut after = Databases::default();
        for (a, b) in [(0, 3), (3, 15), (7, 7), (0, 3)] {
            let before = after;
            after = before.swapped(a, b);
            assert_eq!((after.namespace(a), after.namespace(b)), (before.namespace(b), before.namespace(a)));
            for number in NUMBERS {
                assert!([a, b].contains(&number) || after.namespace(number) == before.namespace(number));
                assert_eq!(after.database(after.namespace(number)), number);
            }
            assert_eq!(Databases::of(after.packed()), Some(after));
        }
        assert_eq!((after.namespace(0), after.namespace(3)), (Namespace(15), Namespace(3)));
        assert_eq!(Databases::of(0), None);
    }
}
