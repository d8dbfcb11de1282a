//! Runs both sides of RESP over a byte stream, as a session and a connection do, and records the results. Shared by
//! tests and fuzz targets.

use gannet_protocol::resp::client::{Decoder, Event, Garbage, ParsedValue, Step, Value, lone_bulk, value};
use gannet_protocol::resp::{Args, Argument, INLINE_REWRITTEN_BYTES_MAX, Limits, Parsed, Parser, argument};

/// Limits for tests. They are so low that short inputs reach every code path.
pub const LIMITS: Limits =
    Limits { args_max: 64, bulk_bytes_max: 4096, request_bytes_max: 1024, long_bytes_min: 256, authenticated: true };

/// The reading side of a session.
#[derive(Default)]
struct RequestWalk {
    buffer: Vec<u8>,
    parser: Parser,
    /// The number of bytes of a long argument and its line end that have not been read yet.
    rest: usize,
    /// The number of arguments after the long argument, or of the arguments that did not fit into the buffer.
    left: u32,
    value: Vec<u8>,
    closed: bool,
    events: Vec<String>,
}

fn shown(args: Args<'_>) -> String {
    let len = args.len();
    let args: Vec<String> = args.map(|arg| arg.escape_ascii().to_string()).collect();
    assert!(args.len() == len && len > 0);
    format!("{args:?}")
}

impl RequestWalk {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.closed && self.step() {}
    }

    fn value(&mut self) -> bool {
        let len = self.rest.min(self.buffer.len());
        self.value.extend(self.buffer.drain(..len));
        self.rest -= len;
        if self.rest == 0 {
            let value = std::mem::take(&mut self.value);
            self.closed = !value.ends_with(b"\r\n");
            self.events.push(format!("long {}", value.escape_ascii()));
        }
        self.rest == 0
    }

    /// Reads an argument of a request that is read piece by piece.
    fn argument(&mut self) -> bool {
        let consumed = match argument(&self.buffer, &LIMITS) {
            Argument::Incomplete { want } => {
                assert!(want == 0 || (want > self.buffer.len() && want <= LIMITS.request_bytes_max));
                return false;
            }
            Argument::Whole { bytes, consumed } => {
                self.events.push(format!("one {}", bytes.escape_ascii()));
                consumed
            }
            Argument::Long { len, consumed } => {
                assert!((LIMITS.long_bytes_min..=LIMITS.bulk_bytes_max).contains(&len));
                self.rest = len as usize + 2;
                consumed
            }
            Argument::Fatal(error) => {
                self.events.push(format!("close: {error}"));
                self.closed = true;
                return false;
            }
        };
        assert!(consumed > 0);
        self.left -= 1;
        self.buffer.drain(..consumed);
        true
    }

    fn step(&mut self) -> bool {
        if self.rest > 0 {
            return self.value();
        }
        if self.left > 0 {
            return self.argument();
        }
        let taken = match self.parser.parse(&self.buffer, &LIMITS) {
            Parsed::Incomplete => return false,
            Parsed::Request { args, consumed } => {
                self.events.push(shown(args));
                consumed
            }
            Parsed::Head { args, value_len, left, consumed } => {
                assert!((LIMITS.long_bytes_min..=LIMITS.bulk_bytes_max).contains(&value_len));
                self.events.push(format!("{}, {value_len} and {left}", shown(args)));
                (self.rest, self.left, self.parser) = (value_len as usize + 2, left, Parser::new());
                consumed
            }
            Parsed::Long { args, left, consumed } => {
                assert!(consumed <= LIMITS.request_bytes_max && left > 0);
                self.events.push(format!("{} and {left}", shown(args)));
                self.left = left;
                consumed
            }
            Parsed::Inline { inline, consumed } => {
                let mut usual = Vec::new();
                inline.rewrite(&mut usual);
                assert!(usual.len() <= INLINE_REWRITTEN_BYTES_MAX);
                match Parser::new().parse(&usual, &Limits { long_bytes_min: u32::MAX, ..Limits::REDIS }) {
                    Parsed::Request { args, consumed } => {
                        assert_eq!((consumed, args.len() as u32), (usual.len(), inline.words()));
                        self.events.push(format!("inline {}", shown(args)));
                    }
                    other => panic!("an inline command is rewritten to {other:?}"),
                }
                consumed
            }
            Parsed::Nothing { consumed } => {
                self.events.push("nothing".to_owned());
                consumed
            }
            Parsed::Fatal(error) => {
                let mut line = Vec::new();
                error.put(&mut line);
                assert!(line.len() <= 80 && line.starts_with(b"-ERR Protocol error: ") && line.ends_with(b"\r\n"));
                self.events.push(format!("close: {error}"));
                self.closed = true;
                return false;
            }
        };
        assert!(taken > 0 && self.parser == Parser::new());
        self.buffer.drain(..taken);
        true
    }
}

/// Returns the requests that a server reads from `bytes`, fed in pieces that end at `cuts` (ascending).
pub fn requests(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let mut walk = RequestWalk::default();
    let mut from = 0;
    for &cut in cuts {
        walk.feed(&bytes[from..cut]);
        from = cut;
    }
    walk.feed(&bytes[from..]);
    walk.events
}

/// The reading side of a connection.
struct ReplyWalk {
    buffer: Vec<u8>,
    state: (u32, u64),
    string: Option<Vec<u8>>,
    broken: bool,
    events: Vec<String>,
}

impl ReplyWalk {
    fn feed(&mut self, bytes: &[u8]) {
        self.buffer.extend_from_slice(bytes);
        while !self.broken && self.step() {}
    }

    fn step(&mut self) -> bool {
        // A new decoder for each step proves that these two numbers are its whole state.
        let mut decoder = Decoder::resume(self.state);
        let Step { event, consumed, last } = match decoder.step(&self.buffer) {
            Ok(Some(step)) => step,
            Ok(None) => return false,
            Err(garbage) => {
                assert_eq!(decoder.state(), self.state);
                self.events.push(format!("garbage: {garbage}"));
                self.broken = true;
                return false;
            }
        };
        assert!(consumed > 0 && consumed <= self.buffer.len());
        match event {
            Event::Head(head) => {
                self.events.push(format!("{head:?}"));
                self.string = head.bytes().map(|_| Vec::new());
            }
            Event::Piece(piece) => {
                assert_eq!(piece.len(), consumed);
                self.string.as_mut().expect("a piece follows a head").extend_from_slice(piece);
            }
            Event::BulkEnd => {
                self.events.push(format!("{:?}", self.string.take().expect("an end follows a head")));
            }
        }
        assert_eq!(last, decoder.left() == 0);
        if last {
            self.events.push("last".to_owned());
            decoder = Decoder::new();
        }
        self.state = decoder.state();
        self.buffer.drain(..consumed);
        true
    }
}

/// Returns the replies that a client reads from `bytes`, fed in pieces that end at `cuts` (ascending).
pub fn replies(bytes: &[u8], cuts: &[usize]) -> Vec<String> {
    let (buffer, state) = (Vec::new(), Decoder::new().state());
    let mut walk = ReplyWalk { buffer, state, string: None, broken: false, events: Vec::new() };
    let mut from = 0;
    for &cut in cuts {
        walk.feed(&bytes[from..cut]);
        from = cut;
    }
    walk.feed(&bytes[from..]);
    walk.events
}

/// Decodes the reply at the start of `bytes` step by step and returns its length. Returns `None` if the reply is
/// incomplete.
fn stepped(bytes: &[u8]) -> Result<Option<usize>, Garbage> {
    let (mut decoder, mut at) = (Decoder::new(), 0);
    loop {
        match decoder.step(&bytes[at..])? {
            None => return Ok(None),
            Some(step) => {
                at += step.consumed;
                if step.last {
                    return Ok(Some(at));
                }
            }
        }
    }
}

/// Reads the whole tree, and counts its leaves.
fn leaves(value: &Value<'_>) -> u64 {
    let items = value.items();
    let (len, mut seen, mut count) = (items.len(), 0, u64::from(items.len() == 0));
    for item in items {
        seen += 1;
        count += leaves(&item);
    }
    assert_eq!(seen, len);
    count
}

/// Asserts that cuts at `cuts` do not change the requests and replies in `bytes`, and that all ways to decode a reply
/// agree.
pub fn assert_cut(bytes: &[u8], cuts: &[usize]) {
    assert_eq!(requests(bytes, cuts), requests(bytes, &[]), "cut at {cuts:?}: {}", bytes.escape_ascii());
    assert_eq!(replies(bytes, cuts), replies(bytes, &[]), "cut at {cuts:?}: {}", bytes.escape_ascii());
    match (value(bytes), stepped(bytes)) {
        (ParsedValue::Value { value, consumed }, steps) => {
            assert_eq!(steps, Ok(Some(consumed)));
            assert!(leaves(&value) > 0);
            if let Some((bulk, bytes)) = lone_bulk(bytes) {
                assert_eq!((value, consumed), (Value::Bulk(bulk), bytes));
            }
        }
        (ParsedValue::Incomplete, steps) => assert_eq!(steps, Ok(None)),
        // Only the tree limits the depth and checks the contents of verbatim strings.
        (ParsedValue::Garbage(Garbage::TooDeep | Garbage::Verbatim), _) => {}
        (ParsedValue::Garbage(garbage), steps) => assert_eq!(steps, Err(garbage)),
    }
}
