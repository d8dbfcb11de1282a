//! Lua's patterns: matches a pattern at one place of a text. Unlike the C library, a match can be interrupted, and the
//! depth of its recursion is bounded.

use crate::caller::Caller;

/// The maximum number of captures of a pattern.
const CAPTURES_MAX: usize = 32;
/// The maximum depth of the recursion, which is the number of repeated items and captures of a pattern.
const DEPTH_MAX: usize = 2_000;
/// The number of bytes of a set that are examined between two chances to suspend the script.
const SET_BYTES_AT_ONCE: usize = 4_096;
/// The number of bytes of a set whose examination is one unit of work.
const SET_BYTES_A_UNIT: usize = 8;

/// An error in a pattern, or the end of the script.
pub(super) enum Stop {
    /// The pattern is invalid, for this reason.
    Invalid(&'static str),
    /// The script must end.
    End(mlua::Error),
}

/// The end of a match, if there is one.
type Matched = Result<Option<usize>, Stop>;

/// The extent of a capture.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Extent {
    /// The end is not known yet.
    Unfinished,
    /// Only the position was captured.
    Position,
    /// The length in bytes.
    Length(usize),
}

/// A text and a pattern.
pub(super) struct Matcher<'m, 'y> {
    caller: &'m Caller<'y>,
    text: &'m [u8],
    pattern: &'m [u8],
    /// The captures of the last match: their starts and extents.
    pub(super) captures: Vec<(usize, Extent)>,
    depth: usize,
}

impl<'m, 'y> Matcher<'m, 'y> {
    /// Creates a matcher. As in C, the pattern ends at its first zero byte.
    ///
    /// # Errors
    /// If the script must end.
    pub(super) fn new(caller: &'m Caller<'y>, text: &'m [u8], pattern: &'m [u8]) -> mlua::Result<Self> {
        let end = caller.position_of(0, pattern)?.unwrap_or(pattern.len());
        Ok(Self { caller, text, pattern: &pattern[..end], captures: Vec::new(), depth: 0 })
    }

    /// Matches the pattern from its byte `from`, at the byte `at` of the text. Returns the end of the match.
    pub(super) fn match_at(&mut self, at: usize, from: usize) -> Matched {
        self.captures.clear();
        self.depth = 0;
        self.matches(at, from)
    }

    /// Returns a byte of the pattern; 0 behind its end.
    fn pattern_at(&self, place: usize) -> u8 {
        self.pattern.get(place).copied().unwrap_or(0)
    }

    fn work(&self, units: usize) -> Result<(), Stop> {
        self.caller.work(units).map_err(Stop::End)
    }

    /// Counts the bytes of a set between `counted` and `place`, once they are many. The examination of a set takes as
    /// long as the script chose to make the set.
    fn examine(&self, counted: &mut usize, place: usize) -> Result<(), Stop> {
        if place - *counted < SET_BYTES_AT_ONCE {
            return Ok(());
        }
        self.work((place - std::mem::replace(counted, place)) / SET_BYTES_A_UNIT)
    }

    fn matches(&mut self, at: usize, from: usize) -> Matched {
        if self.depth >= DEPTH_MAX {
            return Err(Stop::Invalid("pattern too complex"));
        }
        self.depth += 1;
        let matched = self.matches_here(at, from);
        self.depth -= 1;
        matched
    }

    fn matches_here(&mut self, mut at: usize, mut from: usize) -> Matched {
        loop {
            self.work(1)?;
            let Some(item) = self.pattern.get(from) else { return Ok(Some(at)) };
            match (item, self.pattern_at(from + 1)) {
                (b'(', b')') => return self.start_capture(at, from + 2, Extent::Position),
                (b'(', _) => return self.start_capture(at, from + 1, Extent::Unfinished),
                (b')', _) => return self.end_capture(at, from + 1),
                (b'%', b'b') => match self.balanced(at, from + 2)? {
                    Some(end) => (at, from) = (end, from + 4),
                    None => return Ok(None),
                },
                (b'%', b'f') => match self.frontier(at, from + 2)? {
                    Some(next) => from = next,
                    None => return Ok(None),
                },
                (b'%', digit @ b'0'..=b'9') => match self.same_as_capture(at, digit)? {
                    Some(end) => (at, from) = (end, from + 2),
                    None => return Ok(None),
                },
                (b'$', _) if from + 1 == self.pattern.len() => return Ok((at == self.text.len()).then_some(at)),
                _ => {
                    let end = self.item_end(from)?;
                    let is_single = self.is_single(at, from, end)?;
                    match self.pattern_at(end) {
                        b'?' => {
                            if is_single && let Some(end) = self.matches(at + 1, end + 1)? {
                                return Ok(Some(end));
                            }
                            from = end + 1;
                        }
                        b'*' => return self.longest(at, from, end),
                        b'+' => return if is_single { self.longest(at + 1, from, end) } else { Ok(None) },
                        b'-' => return self.shortest(at, from, end),
                        _ if is_single => (at, from) = (at + 1, end),
                        _ => return Ok(None),
                    }
                }
            }
        }
    }

    /// Returns the end of the item that begins at `from`.
    fn item_end(&self, from: usize) -> Result<usize, Stop> {
        let mut place = from + 1;
        match self.pattern[from] {
            b'%' if place == self.pattern.len() => return Err(Stop::Invalid("malformed pattern (ends with '%')")),
            b'%' => return Ok(place + 1),
            b'[' => {}
            _ => return Ok(place),
        }
        place += usize::from(self.pattern_at(place) == b'^');
        let mut counted = place;
        loop {
            self.examine(&mut counted, place)?;
            if place >= self.pattern.len() {
                return Err(Stop::Invalid("malformed pattern (missing ']')"));
            }
            let is_escape = self.pattern[place] == b'%';
            place += 1 + usize::from(is_escape && place + 1 < self.pattern.len());
            if self.pattern_at(place) == b']' {
                self.work((place - counted) / SET_BYTES_A_UNIT)?;
                return Ok(place + 1);
            }
        }
    }

    /// Returns true if the byte at `at` matches the item from `from` to `end`.
    fn is_single(&self, at: usize, from: usize, end: usize) -> Result<bool, Stop> {
        let Some(byte) = self.text.get(at).copied() else { return Ok(false) };
        match self.pattern[from] {
            b'.' => Ok(true),
            b'%' => Ok(is_in_class(byte, self.pattern_at(from + 1))),
            b'[' => self.is_in_set(byte, from, end - 1),
            other => Ok(other == byte),
        }
    }

    /// Returns true if a byte is in the set whose brackets are at `from` and `last`.
    fn is_in_set(&self, byte: u8, from: usize, last: usize) -> Result<bool, Stop> {
        let is_positive = self.pattern_at(from + 1) != b'^';
        let mut place = from + 1 + usize::from(!is_positive);
        let (mut counted, mut is_found) = (place, false);
        while place < last && !is_found {
            self.examine(&mut counted, place)?;
            let next;
            (is_found, next) = self.is_in_item_of_set(byte, place, last);
            place += next;
        }
        self.work((place - counted) / SET_BYTES_A_UNIT)?;
        Ok(is_found == is_positive)
    }

    /// Returns true if a byte is in the item at `place` of the set that ends at `last`, and the length of the item.
    fn is_in_item_of_set(&self, byte: u8, place: usize, last: usize) -> (bool, usize) {
        let item = self.pattern[place];
        if item == b'%' {
            (is_in_class(byte, self.pattern_at(place + 1)), 2)
        } else if self.pattern_at(place + 1) == b'-' && place + 2 < last {
            ((item..=self.pattern[place + 2]).contains(&byte), 3)
        } else {
            (item == byte, 1)
        }
    }

    /// Matches `%bxy`. `from` is the place of `x`.
    fn balanced(&self, at: usize, from: usize) -> Matched {
        if from + 1 >= self.pattern.len() {
            return Err(Stop::Invalid("unbalanced pattern"));
        }
        let (opens, closes) = (self.pattern[from], self.pattern[from + 1]);
        if self.text.get(at) != Some(&opens) {
            return Ok(None);
        }
        let mut depth = 1;
        for (place, byte) in self.text.iter().enumerate().skip(at + 1) {
            self.work(1)?;
            if *byte == closes {
                depth -= 1;
                if depth == 0 {
                    return Ok(Some(place + 1));
                }
            } else if *byte == opens {
                depth += 1;
            }
        }
        Ok(None)
    }

    /// Matches `%f[set]`. `from` is the place of the set. Returns the place behind the set.
    fn frontier(&self, at: usize, from: usize) -> Matched {
        if self.pattern_at(from) != b'[' {
            return Err(Stop::Invalid("missing '[' after '%f' in pattern"));
        }
        let end = self.item_end(from)?;
        let before = at.checked_sub(1).map_or(0, |place| self.text[place]);
        let byte = self.text.get(at).copied().unwrap_or(0);
        let is_frontier = !self.is_in_set(before, from, end - 1)? && self.is_in_set(byte, from, end - 1)?;
        Ok(is_frontier.then_some(end))
    }

    /// Matches `%1` to `%9`: the bytes of an earlier capture.
    fn same_as_capture(&self, at: usize, digit: u8) -> Matched {
        let capture = digit.checked_sub(b'1').and_then(|number| self.captures.get(usize::from(number)));
        match capture {
            None | Some((_, Extent::Unfinished)) => Err(Stop::Invalid("invalid capture index")),
            Some((_, Extent::Position)) => Ok(None),
            Some((start, Extent::Length(length))) => {
                self.work(length / 16)?;
                let is_same = self.text[at..].starts_with(&self.text[*start..start + length]);
                Ok(is_same.then_some(at + length))
            }
        }
    }

    fn longest(&mut self, at: usize, from: usize, end: usize) -> Matched {
        let mut count = 0;
        while self.is_single(at + count, from, end)? {
            self.work(1)?;
            count += 1;
        }
        for count in (0..=count).rev() {
            if let Some(end) = self.matches(at + count, end + 1)? {
                return Ok(Some(end));
            }
        }
        Ok(None)
    }

    fn shortest(&mut self, mut at: usize, from: usize, end: usize) -> Matched {
        loop {
            if let Some(end) = self.matches(at, end + 1)? {
                return Ok(Some(end));
            }
            if !self.is_single(at, from, end)? {
                return Ok(None);
            }
            at += 1;
        }
    }

    fn start_capture(&mut self, at: usize, from: usize, extent: Extent) -> Matched {
        if self.captures.len() >= CAPTURES_MAX {
            return Err(Stop::Invalid("too many captures"));
        }
        self.captures.push((at, extent));
        let count = self.captures.len();
        let matched = self.matches(at, from)?;
        if matched.is_none() {
            self.captures.truncate(count - 1);
        }
        Ok(matched)
    }

    fn end_capture(&mut self, at: usize, from: usize) -> Matched {
        let open = self.captures.iter().rposition(|(_, extent)| *extent == Extent::Unfinished);
        let open = open.ok_or(Stop::Invalid("invalid pattern capture"))?;
        self.captures[open].1 = Extent::Length(at - self.captures[open].0);
        let matched = self.matches(at, from)?;
        if matched.is_none() {
            self.captures[open].1 = Extent::Unfinished;
        }
        Ok(matched)
    }
}

/// Returns true if a byte is in the class of a letter, such as `d` for digits. An upper-case letter is the complement.
fn is_in_class(byte: u8, class: u8) -> bool {
    let is_in = match class.to_ascii_lowercase() {
        b'a' => byte.is_ascii_alphabetic(),
        b'c' => byte.is_ascii_control(),
        b'd' => byte.is_ascii_digit(),
        b'l' => byte.is_ascii_lowercase(),
        b'p' => byte.is_ascii_punctuation(),
        b's' => matches!(byte, b' ' | 9..=13),
        b'u' => byte.is_ascii_uppercase(),
        b'w' => byte.is_ascii_alphanumeric(),
        b'x' => byte.is_ascii_hexdigit(),
        b'z' => byte == 0,
        _ => return class == byte,
    };
    is_in != class.is_ascii_uppercase()
}
