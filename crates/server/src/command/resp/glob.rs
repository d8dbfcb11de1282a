//! Patterns as Redis has them: `*`, `?`, `[abc]`, `[^a-z]`, and a backslash before what stands for itself.
//!
//! Time is bounded by the pattern's length times the text's: of the stars only the last one is ever taken back, which
//! is enough, since what is between two stars may as well match as early as it can.

/// Whether all of `text` matches `pattern`.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut at, mut place) = (0, 0);
    // Behind the last star, and how far the text had been matched when it was met.
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(at) == Some(&b'*') {
            at += 1;
            star = Some((at, place));
            continue;
        }
        if place == text.len() {
            return at == pattern.len();
        }
        match one(&pattern[at..], text[place]) {
            Some(len) => (at, place) = (at + len, place + 1),
            None => {
                let Some((behind, from)) = &mut star else { return false };
                *from += 1;
                (at, place) = (*behind, *from);
            }
        }
    }
}

/// How long the first element of the pattern is, if it matches the byte.
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

/// The length of a set behind its bracket, and whether the byte is in it. One without an end goes to the pattern's.
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
    use super::matches;

    #[test]
    fn patterns_mean_what_they_mean_in_redis() {
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

    #[test]
    fn many_stars_take_no_longer_than_pattern_times_text() {
        let pattern = [&b"*a"[..]; 2000].concat();
        assert!(!matches(&pattern, &[&[b'a'; 1999][..], b"b"].concat()));
    }
}
