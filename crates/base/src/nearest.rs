//! The name that a misspelled one was probably meant to be.

/// Longer names are not compared: no setting is that long.
const NAME_LEN_MAX: usize = 64;

/// The candidate with the smallest edit distance to `name`, if it is near enough to be a misspelling: a third of the
/// longer name's letters at most.
pub fn nearest<'c>(name: &str, candidates: impl IntoIterator<Item = &'c str>) -> Option<&'c str> {
    let (distance, best) =
        candidates.into_iter().filter_map(|candidate| Some((distance(name, candidate)?, candidate))).min()?;
    let letters = name.len().max(best.len());
    (distance * 3 <= letters).then_some(best)
}

/// Insertions, deletions, substitutions and swaps of neighbours (each counted 1) that turn `a` into `b`.
fn distance(a: &str, b: &str) -> Option<usize> {
    let (a, b) = (a.as_bytes(), b.as_bytes());
    if a.len() > NAME_LEN_MAX || b.len() > NAME_LEN_MAX {
        return None;
    }
    let mut before = [0usize; NAME_LEN_MAX + 1];
    let mut above = [0usize; NAME_LEN_MAX + 1];
    for (column, cell) in above.iter_mut().enumerate() {
        *cell = column;
    }
    for row in 1..=a.len() {
        let mut current = [0usize; NAME_LEN_MAX + 1];
        current[0] = row;
        for column in 1..=b.len() {
            let same = a[row - 1].eq_ignore_ascii_case(&b[column - 1]);
            let mut cell = (above[column - 1] + usize::from(!same)).min(above[column] + 1).min(current[column - 1] + 1);
            if row > 1 && column > 1 && a[row - 1] == b[column - 2] && a[row - 2] == b[column - 1] {
                cell = cell.min(before[column - 2] + 1);
            }
            current[column] = cell;
        }
        before = above;
        above = current;
    }
    Some(above[b.len()])
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
        assert_eq!(nearest(&"m".repeat(5000), names), None);
    }

    #[test]
    fn a_swap_of_neighbours_counts_once() {
        assert_eq!(distance("ab", "ba"), Some(1));
        assert_eq!(distance("kitten", "sitting"), Some(3));
        assert_eq!(distance("", "abc"), Some(3));
    }
}
