//! Reads edges from text without I/O, from chunks of bytes of any size.
//!
//! ```text
//!   CSV    source,destination[,time in ms[,attribute..]]     an optional header; fields may be quoted
//!                                                            "" is an empty attribute, and an empty field none
//!   list   source destination [time in ms]                   separated by spaces or tabs; comments begin with # or %
//! ```
//!
//! A line ends with a line feed, even within quotes. A carriage return before it is ignored, as are empty lines.

use std::borrow::Cow;
use std::fmt;

use crate::ids::check_node;
use crate::limits::{LINE_BYTES_MAX, TIME_MS_MAX};

/// The number of bytes of a field that an error shows.
const SHOWN_BYTES_MAX: usize = 32;

/// The form of a file of edges.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum EdgeFormat {
    /// Fields separated by commas.
    Csv,
    /// Fields separated by spaces or tabs.
    List,
}

/// An edge of a file.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EdgeLine<'a> {
    /// The identifier of the source.
    pub source: u64,
    /// The identifier of the destination.
    pub destination: u64,
    /// The time in milliseconds since the epoch, if the line has one.
    pub time_ms: Option<u64>,
    /// The text of the attributes, as the line has it: see [`EdgeLine::attributes`].
    text: &'a [u8],
}

impl<'a> EdgeLine<'a> {
    /// Returns the attributes, in the order of the fields, without quotes. A line without attributes has none. An empty
    /// field is an absent attribute, `None`, unless it has quotes.
    pub fn attributes(&self) -> impl Iterator<Item = Option<Cow<'a, [u8]>>> + use<'a> {
        let mut rest = (!self.text.is_empty()).then_some(self.text);
        std::iter::from_fn(move || {
            let has_quotes = rest?.starts_with(b"\"");
            let (field, after) = field(rest?).ok()?;
            rest = after;
            Some((has_quotes || !field.is_empty()).then_some(field))
        })
    }
}

/// The reason why a line is not an edge.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum EdgeLineCause {
    /// The line has one field only.
    NoDestination,
    /// A field that must be a number is not one: its name, and its first bytes.
    NotANumber(&'static str, String),
    /// Node identifiers 0 and 2^64 - 1 are reserved.
    ReservedNode(u64),
    /// An edge from a node to itself.
    SelfEdge(u64),
    /// A time after [`TIME_MS_MAX`].
    TimeOutOfRange(u64),
    /// A line of an edge list has more than three fields.
    TooManyFields,
    /// A quote is not closed on its line, or followed by text.
    BadQuote,
    /// The line is longer than [`LINE_BYTES_MAX`].
    TooLong,
}

/// An error of one line. The lines after it can be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EdgeLineError {
    /// The number of the line. The first is 1.
    pub line: u64,
    /// The cause.
    pub cause: EdgeLineCause,
}

impl fmt::Display for EdgeLineCause {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoDestination => f.write_str("it has no destination; write source and destination"),
            Self::NotANumber(name, text) => write!(f, "the {name} '{text}' is not a number; correct it"),
            Self::ReservedNode(id) => {
                write!(f, "node identifier {id} is reserved; use identifiers from 1 to 2^64 - 2")
            }
            Self::SelfEdge(id) => write!(f, "it leads from node {id} to itself; remove the line"),
            Self::TimeOutOfRange(ms) => {
                write!(f, "time {ms} is too late; use milliseconds since the epoch up to {TIME_MS_MAX}")
            }
            Self::TooManyFields => {
                f.write_str("an edge list has at most source, destination and time; remove the other fields")
            }
            Self::BadQuote => f.write_str("a quoted field does not end at a comma; close the quote"),
            Self::TooLong => write!(f, "it is longer than {LINE_BYTES_MAX} bytes; shorten it"),
        }
    }
}

impl fmt::Display for EdgeLineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "cannot read line {}: {}", self.line, self.cause)
    }
}

impl std::error::Error for EdgeLineError {}

/// A reader of edges.
///
/// # Example
/// ```
/// use gannet_graph::{EdgeFormat, EdgeReader};
///
/// let mut reader = EdgeReader::new(EdgeFormat::Csv);
/// let mut edges = Vec::new();
/// for chunk in [&b"src,dst\n1,2\n3,"[..], &b"4\n5,5\n"[..]] {
///     let mut input = chunk;
///     while let Some(edge) = reader.next(&mut input) {
///         edges.push(edge.map(|edge| (edge.source, edge.destination)).map_err(|error| error.line));
///     }
/// }
/// assert_eq!(edges, [Ok((1, 2)), Ok((3, 4)), Err(4)]);
/// assert_eq!((reader.position(), reader.line()), (20, 4));
/// ```
#[derive(Clone, Debug)]
pub struct EdgeReader {
    format: EdgeFormat,
    /// The bytes before the first line that was not read completely.
    position: u64,
    /// The number of complete lines.
    line: u64,
    /// The start of a line whose end is in a later chunk.
    start: Vec<u8>,
    /// The number of bytes of that start, which may be more than the buffer holds.
    start_bytes: usize,
    /// True if the buffer holds the line that was read last.
    is_read: bool,
}

/// A complete line.
enum CompleteLine<'i> {
    Whole(&'i [u8]),
    /// In the reader's buffer.
    Buffered,
    TooLong,
}

impl EdgeReader {
    /// Creates a reader of a file from its beginning.
    #[must_use]
    pub fn new(format: EdgeFormat) -> Self {
        Self::resume(format, 0, 0)
    }

    /// Creates a reader that continues at the position and line of an earlier one.
    #[must_use]
    pub fn resume(format: EdgeFormat, position: u64, line: u64) -> Self {
        Self { format, position, line, start: Vec::new(), start_bytes: 0, is_read: false }
    }

    /// Returns the number of bytes up to the end of the last line that was read. A reader that begins there reads the
    /// following lines.
    #[must_use]
    pub fn position(&self) -> u64 {
        self.position
    }

    /// Returns the number of the last line that was read.
    #[must_use]
    pub fn line(&self) -> u64 {
        self.line
    }

    /// Reads the next edge, and advances `input` behind it. Returns `None` if `input` has no further complete line. The
    /// reader then holds the start of the next line, and continues with the next chunk.
    ///
    /// # Errors
    /// If the line is not an edge.
    #[inline]
    pub fn next<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<EdgeLine<'s>, EdgeLineError>> {
        if self.start_bytes == 0
            && let Some((edge, bytes)) = plain_line(input, self.format)
        {
            *input = &input[bytes..];
            self.position += bytes as u64;
            self.line += 1;
            return Some(Ok(edge));
        }
        self.next_of_any_form(input)
    }

    fn next_of_any_form<'s, 'i: 's>(&'s mut self, input: &mut &'i [u8]) -> Option<Result<EdgeLine<'s>, EdgeLineError>> {
        let line = loop {
            let line = self.take_line(input)?;
            let bytes = match line {
                CompleteLine::Whole(bytes) => bytes,
                CompleteLine::Buffered => &self.start,
                CompleteLine::TooLong => break line,
            };
            if !self.is_skipped(bytes) {
                break line;
            }
        };
        let bytes = match line {
            CompleteLine::Whole(bytes) => bytes,
            CompleteLine::Buffered => &self.start,
            CompleteLine::TooLong => {
                return Some(Err(EdgeLineError { line: self.line, cause: EdgeLineCause::TooLong }));
            }
        };
        Some(parse(bytes, self.format).map_err(|cause| EdgeLineError { line: self.line, cause }))
    }

    /// Reads the last line of a file if it does not end with a line feed.
    ///
    /// # Errors
    /// If the line is not an edge.
    pub fn finish(&mut self) -> Option<Result<EdgeLine<'_>, EdgeLineError>> {
        if self.start_bytes == 0 {
            return None;
        }
        let line = self.take_line(&mut &b"\n"[..])?;
        // The line feed that completed the line is not in the file.
        self.position -= 1;
        let edge = match line {
            CompleteLine::TooLong => Err(EdgeLineCause::TooLong),
            _ if self.is_skipped(&self.start) => return None,
            _ => parse(&self.start, self.format),
        };
        Some(edge.map_err(|cause| EdgeLineError { line: self.line, cause }))
    }

    /// Returns the next complete line, and counts it.
    fn take_line<'i>(&mut self, input: &mut &'i [u8]) -> Option<CompleteLine<'i>> {
        if self.is_read {
            self.is_read = false;
            self.start.clear();
        }
        let end = input.iter().position(|byte| *byte == b'\n');
        let (line, rest) = input.split_at(end.unwrap_or(input.len()));
        *input = rest.get(1..).unwrap_or(&[]);
        let bytes = self.start_bytes + line.len();
        if end.is_some() && self.start_bytes == 0 {
            self.position += bytes as u64 + 1;
            self.line += 1;
            return Some(if bytes > LINE_BYTES_MAX { CompleteLine::TooLong } else { CompleteLine::Whole(line) });
        }
        // One byte more than the limit shows that the line is too long.
        let room = (LINE_BYTES_MAX + 1).saturating_sub(self.start.len());
        self.start.extend(&line[..line.len().min(room)]);
        self.start_bytes = bytes;
        end?;
        self.position += bytes as u64 + 1;
        self.line += 1;
        self.start_bytes = 0;
        self.is_read = true;
        Some(if bytes > LINE_BYTES_MAX { CompleteLine::TooLong } else { CompleteLine::Buffered })
    }

    /// Returns true for an empty line, a comment and a header.
    fn is_skipped(&self, line: &[u8]) -> bool {
        let line = without_mark(line).trim_ascii();
        let begins_name =
            |line: &[u8]| line.first().is_some_and(|byte| byte.is_ascii_alphabetic() || b"_#:~".contains(byte));
        match (line.first(), self.format) {
            (None, _) | (Some(b'#' | b'%'), EdgeFormat::List) => true,
            (Some(_), EdgeFormat::Csv) => self.line == 1 && begins_name(line.strip_prefix(b"\"").unwrap_or(line)),
            _ => false,
        }
    }
}

/// Returns a line without the byte order mark that some programs write at the start of a file.
fn without_mark(line: &[u8]) -> &[u8] {
    line.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(line)
}

/// Returns the number that `bytes` begin with, if it has at most 19 digits, and the number of digits.
#[inline]
fn leading_number(bytes: &[u8]) -> (u64, usize) {
    let (mut value, mut digits) = (0, 0);
    for byte in bytes.iter().take(19) {
        let digit = byte.wrapping_sub(b'0');
        if digit > 9 {
            break;
        }
        value = value * 10 + u64::from(digit);
        digits += 1;
    }
    (value, digits)
}

/// Reads a line of two or three plain numbers and one separator between them. Returns `None` for any other line.
#[inline]
fn plain_line(input: &[u8], format: EdgeFormat) -> Option<(EdgeLine<'static>, usize)> {
    let is_separator = |byte: u8| match format {
        EdgeFormat::Csv => byte == b',',
        EdgeFormat::List => byte == b' ' || byte == b'\t',
    };
    let (source, mut at) = leading_number(input);
    if at == 0 || !is_separator(*input.get(at)?) {
        return None;
    }
    let (destination, digits) = leading_number(&input[at + 1..]);
    at += 1 + digits;
    let mut time_ms = None;
    if is_separator(*input.get(at)?) {
        let (time, digits) = leading_number(&input[at + 1..]);
        at += 1 + digits;
        if digits == 0 || time > TIME_MS_MAX {
            return None;
        }
        time_ms = Some(time);
    }
    if *input.get(at)? == b'\r' {
        at += 1;
    }
    // Numbers of at most 19 digits are below 2^64 - 1.
    let is_edge = *input.get(at)? == b'\n' && digits > 0 && source != 0 && destination != 0 && source != destination;
    is_edge.then_some((EdgeLine { source, destination, time_ms, text: b"" }, at + 1))
}

/// A field without quotes, and the text after its comma, if it has one.
type Field<'a> = (Cow<'a, [u8]>, Option<&'a [u8]>);

/// Returns the first field of a CSV line.
fn field(line: &[u8]) -> Result<Field<'_>, EdgeLineCause> {
    let Some(quoted) = line.strip_prefix(b"\"") else {
        let end = line.iter().position(|byte| *byte == b',').unwrap_or(line.len());
        return Ok((Cow::Borrowed(&line[..end]), line.get(end + 1..)));
    };
    let mut text = Cow::Borrowed(&quoted[..0]);
    let mut at = 0;
    loop {
        let end = quoted[at..].iter().position(|byte| *byte == b'"').ok_or(EdgeLineCause::BadQuote)? + at;
        match text {
            Cow::Borrowed(_) => text = Cow::Borrowed(&quoted[..end]),
            Cow::Owned(ref mut text) => text.extend(&quoted[at..end]),
        }
        match quoted.get(end + 1) {
            None => return Ok((text, None)),
            Some(b',') => return Ok((text, Some(&quoted[end + 2..]))),
            Some(b'"') => text.to_mut().push(b'"'),
            Some(_) => return Err(EdgeLineCause::BadQuote),
        }
        at = end + 2;
    }
}

fn number(name: &'static str, text: &[u8]) -> Result<u64, EdgeLineCause> {
    let digits = text.trim_ascii();
    let add = |value: u64, byte: &u8| {
        let digit = byte.is_ascii_digit().then(|| u64::from(byte - b'0'))?;
        value.checked_mul(10)?.checked_add(digit)
    };
    let value = digits.iter().try_fold(0, add).filter(|_| !digits.is_empty());
    value.ok_or_else(|| {
        let shown = &digits[..digits.len().min(SHOWN_BYTES_MAX)];
        EdgeLineCause::NotANumber(name, shown.escape_ascii().to_string())
    })
}

/// Reads a line that is neither empty nor a comment nor a header.
fn parse(line: &[u8], format: EdgeFormat) -> Result<EdgeLine<'_>, EdgeLineCause> {
    let line = without_mark(line.strip_suffix(b"\r").unwrap_or(line));
    let (source, destination, time, text) = match format {
        EdgeFormat::Csv => {
            let (source, rest) = field(line)?;
            let (destination, rest) = field(rest.ok_or(EdgeLineCause::NoDestination)?)?;
            let (time, text) = rest.map_or(Ok((Cow::Borrowed(&b""[..]), None)), field)?;
            let mut rest = text;
            while let Some(text) = rest {
                rest = field(text)?.1;
            }
            (source, destination, time, text.unwrap_or(b""))
        }
        EdgeFormat::List => {
            let mut fields = line.split(u8::is_ascii_whitespace).filter(|field| !field.is_empty()).map(Cow::Borrowed);
            let source = fields.next().ok_or(EdgeLineCause::NoDestination)?;
            let destination = fields.next().ok_or(EdgeLineCause::NoDestination)?;
            let time = fields.next().unwrap_or(Cow::Borrowed(b""));
            if fields.next().is_some() {
                return Err(EdgeLineCause::TooManyFields);
            }
            (source, destination, time, &b""[..])
        }
    };
    let source = number("source", &source)?;
    let destination = number("destination", &destination)?;
    for node in [source, destination] {
        check_node(node).map_err(|_| EdgeLineCause::ReservedNode(node))?;
    }
    if source == destination {
        return Err(EdgeLineCause::SelfEdge(source));
    }
    let time_ms = if time.trim_ascii().is_empty() { None } else { Some(number("time", &time)?) };
    if let Some(time) = time_ms.filter(|time| *time > TIME_MS_MAX) {
        return Err(EdgeLineCause::TimeOutOfRange(time));
    }
    Ok(EdgeLine { source, destination, time_ms, text })
}
