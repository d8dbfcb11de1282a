//! Finds the name that a misspelled name was probably meant to be.

/// The maximum length of compared names, in bytes. No setting or command has a longer name.
const NAME_LEN_MAX: usize = 64;

/// One row of edit distances, between a prefix of one name and all prefixes of the other. No distance exceeds
/// [`NAME_LEN_MAX`].
type Row = [u8; NAME_LEN_MAX + 1];

/// Returns the candidate with the smallest edit distance to `name`, if it is close enough to be a misspelling: at most
/// a third of the longer name's letters may differ.
///
/// A server calls this for each unknown command, so candidates whose length or letters alone make them too different
/// are skipped.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    if name.len() > NAME_LEN_MAX {
        return None;
    }
    let own_letters = letters(name);
    let mut best: Option<(usize, &str)> = None;
    for candidate in candidates {
        let third = name.len().max(candidate.len()) / 3;
        let limit = best.map_or(third, |(distance, _)| distance.min(third));
        if name.len().abs_diff(candidate.len()) <= limit
            && letters_apart(own_letters, letters(candidate)) <= limit
            && let Some(distance) = distance(name, candidate, limit)
            && best.is_none_or(|best| (distance, candidate) < best)
        {
            best = Some((distance, candidate));
        }
    }
    best.map(|(_, candidate)| candidate)
}

/// Returns the set of a name's letters in lower case: one bit for the letters with the same remainder of 32.
fn letters(name: &str) -> u32 {
    name.bytes().fold(0, |set, byte| set | 1 << (byte.to_ascii_lowercase() % 32))
}

/// Returns a lower bound of the distance between names with these sets of letters: an edit adds at most one letter that
/// is only in the one name, and removes at most one that is only in the other.
fn letters_apart(a: u32, b: u32) -> usize {
    (a & !b).count_ones().max((b & !a).count_ones()) as usize
}

/// Returns the number of insertions, deletions, substitutions and swaps of neighbours that turn `a` into `b`; `None` if
/// it exceeds `limit`.
fn distance(a: &str, b: &str, limit: usize) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > NAME_LEN_MAX || b.len() > NAME_LEN_MAX {
        return None;
    }
    let (mut before, mut above, mut current): (Row, Row, Row) = ([0; _], [0; _], [0; _]);
    above.iter_mut().zip(0..).for_each(|(cell, column)| *cell = column);
    let mut least_above = 0;
    for row in 1..=a.len() {
        current[0] = row as u8;
        let mut least = row as u8;
        for column in 1..=b.len() {
            let same = a[row - 1].eq_ignore_ascii_case(&b[column - 1]);
            let mut cell = (above[column - 1] + u8::from(!same)).min(above[column] + 1).min(current[column - 1] + 1);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                cell = cell.min(before[column - 2] + 1);
            }
            current[column] = cell;
            least = least.min(cell);
        }
        // A swap reads two rows back and every other edit one row. So no later cell can be below the minimum of both
        // rows.
        if usize::from(least.min(least_above)) > limit {
            return None;
        }
        least_above = least;
        (before, above, current) = (above, current, before);
    }
    Some(usize::from(above[b.len()])).filter(|distance| *distance <= limit)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_typo_finds_its_name_and_nonsense_finds_none() {
        let names = ["maxconns", "memory", "workers"];
        assert_eq!(nearest("max_conns", names), Some("maxconns"));
        assert_eq!(nearest("memroy", names), Some("memory"));
        assert_eq!(nearest("Workers", names), Some("workers"));
        assert_eq!(nearest("colour", names), None);
        assert_eq!(nearest("", names), None);
        assert_eq!(nearest("", [""]), Some(""));
        assert_eq!(nearest(&"m".repeat(5000), names), None);
    }

    #[test]
    fn distance_limit_skips_only_names_that_are_too_different() {
        let words =
            ["", "a", "ab", "ba", "abc", "bac", "abcd", "badc", "abcdef", "bcdefgh", "xxxxabcdef", "abcdefxxxx"];
        let long = ["m".repeat(NAME_LEN_MAX), "m".repeat(NAME_LEN_MAX + 1)];
        let all: Vec<&str> = words.into_iter().chain(long.iter().map(String::as_str)).collect();
        for name in &all {
            for candidate in &all {
                let whole = distance(name, candidate, usize::MAX);
                for limit in 0..12 {
                    assert_eq!(
                        distance(name, candidate, limit),
                        whole.filter(|all| *all <= limit),
                        "{name} {candidate}"
                    );
                }
                let apart = letters_apart(letters(name), letters(candidate));
                assert!(whole.is_none_or(|all| apart <= all), "{name} {candidate}: {apart}");
                let is_near = whole.is_some_and(|all| all * 3 <= name.len().max(candidate.len()));
                assert_eq!(nearest(name, [*candidate]).is_some(), is_near, "{name} {candidate}");
            }
        }
        assert_eq!(distance(&long[0], "", usize::MAX), Some(NAME_LEN_MAX));
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        assert_eq!(distance("ab", "ba", 9), Some(1));
        assert_eq!(distance("kitten", "sitting", 9), Some(3));
        assert_eq!(distance("", "abc", 9), Some(3));
    }
}
