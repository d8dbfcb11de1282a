//! Redis's glob patterns: `*`, `?`, `[abc]`, `[^a-z]`. A backslash escapes the next byte.
//!
//! ```text
//!   h?llo * wor[lk]d * [!.]        every element except a star matches one byte, so
//!   ----- - -------- - ----        - the first part matches the text's beginning, the last part its end,
//!   first     middle   last        - each middle part is matched as early as possible, without backtracking
//! ```
//!
//! The time is bounded. The first and the last part take one step for each of their bytes. The search for a middle part
//! first compares byte by byte, for a limited number of comparisons. After that, a bit-parallel search continues. It
//! holds one bit for each element and takes one step for each byte of the text and each 64 elements of the part.
//! Therefore no pattern that [`is_bounded`] accepts takes more than [`steps_max`] steps.

/// The maximum number of bytes between the first and the last star of a pattern that [`is_bounded`] accepts.
pub const MIDDLE_BYTES_MAX: usize = 512;

/// The number of elements whose bits fit into one word.
const WORD: usize = u64::BITS as usize;
const WORDS_MAX: usize = MIDDLE_BYTES_MAX / WORD;

/// Returns true if a pattern takes at most [`steps_max`] steps for any text.
pub(crate) fn is_bounded(pattern: &[u8]) -> bool {
    let (mut at, mut stars) = (0, None);
    while at < pattern.len() {
        if pattern[at] == b'*' {
            stars = Some(stars.map_or((at, at), |(first, _)| (first, at)));
        }
        at += element_len(&pattern[at..]);
    }
    stars.is_none_or(|(first, last)| last - first <= MIDDLE_BYTES_MAX)
}

/// Returns the approximate maximum number of steps to match `pattern` with `text`.
pub(crate) fn steps_max(pattern: &[u8], text: &[u8]) -> usize {
    let each = pattern.len().min(NAIVE_STEPS + pattern.len().div_ceil(WORD));
    pattern.len() + text.len().saturating_mul(each)
}

/// The number of byte-by-byte comparisons for each byte of a middle part. After them, the search continues
/// bit-parallel.
const NAIVE_STEPS: usize = 8;

/// Returns true if `pattern` matches the whole `text`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let Some((mut at, mut place)) = match_here(pattern, text) else { return false };
    if at == pattern.len() {
        return place == text.len();
    }
    loop {
        while pattern.get(at) == Some(&b'*') {
            at += 1;
        }
        let (bytes, elements) = part(&pattern[at..]);
        let here = &pattern[at..at + bytes];
        at += bytes;
        let rest = &text[place..];
        if at == pattern.len() {
            let from = rest.len().checked_sub(elements);
            return from.is_some_and(|from| match_here(here, &rest[from..]).is_some_and(|(len, _)| len == bytes));
        }
        match find(here, elements, rest) {
            Some(from) => place += from + elements,
            None => return false,
        }
    }
}

/// Matches the elements before the first star with the beginning of `text`. Returns the matched lengths of pattern and
/// text, in bytes.
fn match_here(pattern: &[u8], text: &[u8]) -> Option<(usize, usize)> {
    let (mut at, mut place) = (0, 0);
    while at < pattern.len() && pattern[at] != b'*' {
        at += one(&pattern[at..], *text.get(place)?)?;
        place += 1;
    }
    Some((at, place))
}

/// Returns the number of bytes and the number of elements of a pattern before its first star.
fn part(pattern: &[u8]) -> (usize, usize) {
    let (mut at, mut elements) = (0, 0);
    while at < pattern.len() && pattern[at] != b'*' {
        at += element_len(&pattern[at..]);
        elements += 1;
    }
    (at, elements)
}

/// Returns the position of the first match in `text` of a part without stars.
fn find(part: &[u8], elements: usize, text: &[u8]) -> Option<usize> {
    let last = text.len().checked_sub(elements)?;
    let mut steps = NAIVE_STEPS * part.len();
    for from in 0..=last {
        let (mut at, mut place) = (0, from);
        while at < part.len() {
            steps = steps.saturating_sub(1);
            let Some(len) = one(&part[at..], text[place]) else { break };
            (at, place) = (at + len, place + 1);
        }
        if at == part.len() {
            return Some(from);
        }
        if steps == 0 && elements <= WORDS_MAX * WORD {
            let found = find_at_once(part, elements, &text[from..]);
            return found.map(|found| from + found);
        }
    }
    None
}

/// Returns the position of the first match, like [`find`], with a bit-parallel search. The bit of an element is set
/// while that element and all elements before it match the text up to the current byte.
fn find_at_once(part: &[u8], elements: usize, text: &[u8]) -> Option<usize> {
    let words = elements.div_ceil(WORD);
    let mut takes = [[0u64; WORDS_MAX]; 256];
    let (mut at, mut number) = (0, 0);
    while at < part.len() {
        let (word, bit) = (number / WORD, 1 << (number % WORD));
        for byte in 0..=u8::MAX {
            if one(&part[at..], byte).is_some() {
                takes[usize::from(byte)][word] |= bit;
            }
        }
        (at, number) = (at + element_len(&part[at..]), number + 1);
    }
    let (last_word, last_bit) = ((elements - 1) / WORD, 1u64 << ((elements - 1) % WORD));
    let mut matched = [0u64; WORDS_MAX];
    for (place, byte) in text.iter().enumerate() {
        let takes = &takes[usize::from(*byte)];
        let mut carry = 1;
        for word in 0..words {
            let next = matched[word] >> (WORD - 1);
            matched[word] = (matched[word] << 1 | carry) & takes[word];
            carry = next;
        }
        if matched[last_word] & last_bit != 0 {
            return Some(place + 1 - elements);
        }
    }
    None
}

/// Returns the length of the first element of a pattern, in bytes.
fn element_len(pattern: &[u8]) -> usize {
    match pattern {
        [b'[', set @ ..] => 1 + class(set, 0).0,
        [b'\\', _, ..] => 2,
        _ => 1,
    }
}

/// Returns the length in bytes of the first element of a pattern, if that element matches `byte`. The element is not a
/// star.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [] => None,
        [b'?', ..] => Some(1),
        [b'[', set @ ..] => {
            let (len, holds) = class(set, byte);
            holds.then_some(len + 1)
        }
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [first, ..] => (*first == byte).then_some(1),
    }
}

/// Returns the length in bytes of a set after its opening bracket, and true if the set contains `byte`. A set without a
/// closing bracket extends to the end of the pattern.
fn class(set: &[u8], byte: u8) -> (usize, bool) {
    let (negated, mut at) = match set {
        [b'^', ..] => (true, 1),
        _ => (false, 0),
    };
    let mut holds = false;
    loop {
        match &set[at..] {
            [] => return (at, holds != negated),
            [b']', ..] => return (at + 1, holds != negated),
            [b'\\', escaped, ..] => {
                holds |= *escaped == byte;
                at += 2;
            }
            [from, b'-', to, ..] => {
                holds |= (*from.min(to)..=*from.max(to)).contains(&byte);
                at += 3;
            }
            [only, ..] => {
                holds |= *only == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::prng::Prng;

    #[test]
    fn glob_patterns_match_as_in_redis() {
        let yes = [
            ("*", ""),
            ("*", "any"),
            ("a*", "abc"),
            ("*c", "abc"),
            ("a*c", "abc"),
            ("a**c", "ac"),
            ("a?c", "abc"),
            ("h[ae]llo", "hallo"),
            ("h[^e]llo", "hallo"),
            ("h[a-b]llo", "hbllo"),
            ("h[b-a]llo", "hallo"),
            ("\\*", "*"),
            ("[\\]]", "]"),
            ("*a*a*b", "aaaaab"),
            ("", ""),
            ("[abc", "b"),
            ("user:*:name", "user:1:2:name"),
        ];
        for (pattern, text) in yes {
            assert!(matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
        let no = [
            ("", "a"),
            ("a", ""),
            ("a", "b"),
            ("a*", "ba"),
            ("?", ""),
            ("?", "ab"),
            ("h[^e]llo", "hello"),
            ("h[ae]llo", "hillo"),
            ("\\*", "a"),
            ("a*b", "abc"),
            ("A", "a"),
            ("[]", "a"),
        ];
        for (pattern, text) in no {
            assert!(!matches(pattern.as_bytes(), text.as_bytes()), "{pattern} {text}");
        }
    }

    /// Matches by the definition of a star: tries every number of bytes for each star, from 0 up.
    fn by_definition(pattern: &[u8], text: &[u8]) -> bool {
        match pattern.first() {
            None => text.is_empty(),
            Some(b'*') => (0..=text.len()).any(|from| by_definition(&pattern[1..], &text[from..])),
            Some(_) => text
                .first()
                .and_then(|byte| one(pattern, *byte))
                .is_some_and(|len| by_definition(&pattern[len..], &text[1..])),
        }
    }

    #[test]
    fn random_patterns_match_as_by_definition() {
        let mut prng = Prng::new(1);
        let mut outcomes = [0; 2];
        for round in 0..60_000 {
            let mut draw = |letters: &[u8], len: u64| -> Vec<u8> {
                (0..prng.below(len)).map(|_| letters[prng.below(letters.len() as u64) as usize]).collect()
            };
            let (pattern, text) = (draw(b"aab**?[]^-\\", 12), draw(b"aab]", 24));
            let expected = by_definition(&pattern, &text);
            let shown = format!("round {round}: {} {}", pattern.escape_ascii(), text.escape_ascii());
            assert_eq!(matches(&pattern, &text), expected, "{shown}");
            outcomes[usize::from(expected)] += 1;
            let (bytes, elements) = part(&pattern);
            if elements > 0 && elements <= text.len() {
                let naive =
                    (0..=text.len() - elements).find(|from| match_here(&pattern[..bytes], &text[*from..]).is_some());
                assert_eq!(find_at_once(&pattern[..bytes], elements, &text), naive, "{shown}");
            }
        }
        assert!(outcomes[0] > 10_000 && outcomes[1] > 1000, "{outcomes:?}");
    }

    #[test]
    fn pattern_parts_longer_than_a_machine_word_match() {
        let text = [&vec![b'a'; 5000][..], b"b", &vec![b'a'; 300]].concat();
        for (wild, elements) in [(&b"?"[..], 200), (b"[a-z]", 60), (b"a", 200)] {
            let middle = [&wild.repeat(elements)[..], b"b"].concat();
            assert!(matches(&[b"*", &middle[..], b"*"].concat(), &text));
            assert!(!matches(&[b"*", &middle[..], b"b*"].concat(), &text));
        }
    }

    #[test]
    fn pattern_bound_counts_only_the_bytes_between_stars() {
        let long = vec![b'a'; 30_000];
        assert!(is_bounded(&long) && is_bounded(&[&long[..], b"*", &long].concat()));
        assert!(is_bounded(&[b"*", &long[..MIDDLE_BYTES_MAX - 1], b"*"].concat()));
        assert!(!is_bounded(&[b"*", &long[..MIDDLE_BYTES_MAX], b"*"].concat()));
        assert!(!is_bounded(&b"*a".repeat(MIDDLE_BYTES_MAX)));
        // Escaped stars do not count as stars.
        assert!(is_bounded(&b"[*]\\*".repeat(1000)));
        assert!(is_bounded(b"*") && !is_bounded(&b"*?".repeat(15_000)));
    }

    /// Measures the thread's CPU time, so that other load on the host does not affect the result.
    #[test]
    fn accepted_patterns_match_a_long_name_in_bounded_time() {
        let cpu_ns = || {
            let now = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
            now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
        };
        let text = vec![b'a'; 60_000];
        let middle = MIDDLE_BYTES_MAX - 2;
        let patterns = [
            [b"*", &vec![b'a'; middle][..], b"b*"].concat(),
            [b"*", &vec![b'?'; middle][..], b"b*"].concat(),
            [&b"*a".repeat(middle / 2)[..], b"b*"].concat(),
            [&b"*aab".repeat(middle / 4)[..], b"*"].concat(),
            [&b"*[a-z]?[b-z]"[..], &b"*[^b]aaaaaaaaaaaaab".repeat(middle / 20)[..], b"*"].concat(),
            [b"*", &vec![b'a'; 30_000][..]].concat(),
        ];
        for pattern in patterns {
            assert!(is_bounded(&pattern));
            let begun = cpu_ns();
            let _ = std::hint::black_box(matches(std::hint::black_box(&pattern), &text));
            let ns = cpu_ns() - begun;
            // The limit allows for a build without optimisation. A byte-by-byte search would take more than a second.
            assert!(ns < 200_000_000, "{} ... takes {ns} ns", pattern[..20].escape_ascii());
        }
    }
}
