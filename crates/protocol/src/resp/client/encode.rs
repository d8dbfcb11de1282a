//! Encodes requests as arrays of bulk strings.

use crate::number::{Decimal, digits_in, put_u64, write_digits};
use crate::resp::{ARGS_MAX, BULK_BYTES_MAX};
use crate::sink::Sink;

const CRLF: &[u8] = b"\r\n";

/// A request under construction, argument by argument. The caller must put as many arguments as announced.
///
/// ```
/// use gannet_protocol::resp::client::CommandLine;
/// let mut out = Vec::new();
/// CommandLine::new(&mut out, 3).arg(b"SET").arg(b"a").number(7);
/// assert_eq!(out, b"*3\r\n$3\r\nSET\r\n$1\r\na\r\n$1\r\n7\r\n");
/// ```
#[derive(Debug)]
pub struct CommandLine<'s, S> {
    sink: &'s mut S,
}

#[inline(always)]
fn line(sink: &mut impl Sink, first: u8, number: u32) {
    let digits = digits_in(number.into());
    sink.fill(digits + 3, |line| {
        line[0] = first;
        write_digits(&mut line[1..1 + digits], number.into());
        line[1 + digits..].copy_from_slice(CRLF);
    });
}

#[inline(always)]
fn bulk(sink: &mut impl Sink, bytes: &[u8]) {
    assert!(bytes.len() <= BULK_BYTES_MAX as usize, "an argument has at most {BULK_BYTES_MAX} bytes");
    line(sink, b'$', bytes.len() as u32);
    sink.put(bytes);
    sink.put(CRLF);
}

impl<'s, S: Sink> CommandLine<'s, S> {
    /// Starts a request of `args` arguments, including the command's name.
    ///
    /// # Panics
    /// If `args` is 0 or more than [`ARGS_MAX`].
    #[inline]
    pub fn new(sink: &'s mut S, args: u32) -> Self {
        assert!((1..=ARGS_MAX).contains(&args), "a request has 1 to {ARGS_MAX} arguments");
        line(sink, b'*', args);
        Self { sink }
    }

    /// Puts an argument.
    ///
    /// # Panics
    /// If the argument has more than [`BULK_BYTES_MAX`] bytes.
    #[inline]
    pub fn arg(self, bytes: &[u8]) -> Self {
        bulk(self.sink, bytes);
        self
    }

    /// Puts a number as an argument.
    #[inline]
    pub fn number(self, value: i64) -> Self {
        let digits = Decimal::new(value.unsigned_abs());
        let digits = digits.as_slice();
        line(self.sink, b'$', digits.len() as u32 + u32::from(value < 0));
        if value < 0 {
            self.sink.put(b"-");
        }
        self.sink.put(digits);
        self.sink.put(CRLF);
        self
    }

    /// Puts the line before an argument of `len` bytes. The bytes must follow in pieces, then `\r\n`.
    ///
    /// # Panics
    /// If `len` is above [`BULK_BYTES_MAX`].
    #[inline]
    pub fn arg_head(self, len: u32) -> Self {
        assert!(len <= BULK_BYTES_MAX, "an argument has at most {BULK_BYTES_MAX} bytes");
        line(self.sink, b'$', len);
        self
    }
}

/// Encodes a complete request.
///
/// # Panics
/// If there is no argument, more than [`ARGS_MAX`] arguments, or one longer than [`BULK_BYTES_MAX`] bytes.
pub fn command<'a, I>(sink: &mut impl Sink, args: I)
where
    I: IntoIterator<Item = &'a [u8]>,
    I::IntoIter: ExactSizeIterator,
{
    let args = args.into_iter();
    let count = u32::try_from(args.len()).unwrap_or(u32::MAX);
    args.fold(CommandLine::new(sink, count), CommandLine::arg);
}

/// Encodes `GET KEY`.
#[inline]
pub fn get(sink: &mut impl Sink, key: &[u8]) {
    sink.put(b"*2\r\n$3\r\nGET\r\n");
    bulk(sink, key);
}

/// Encodes `SET KEY VALUE`, with `PX` if `ttl_ms` is given.
#[inline]
pub fn set(sink: &mut impl Sink, key: &[u8], value: &[u8], ttl_ms: Option<u64>) {
    sink.put(if ttl_ms.is_some() { b"*5\r\n$3\r\nSET\r\n" } else { b"*3\r\n$3\r\nSET\r\n" });
    bulk(sink, key);
    bulk(sink, value);
    if let Some(ttl_ms) = ttl_ms {
        sink.put(b"$2\r\nPX\r\n");
        line(sink, b'$', digits_in(ttl_ms) as u32);
        put_u64(sink, ttl_ms);
        sink.put(CRLF);
    }
}
