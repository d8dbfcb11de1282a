//! A fast path for nearly all requests: `GET key` and `SET key value`.

use super::number;

/// A request in its simplest form.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lone<'b> {
    /// `GET`.
    Get {
        /// The key to look up.
        key: &'b [u8],
    },
    /// `SET` without options.
    Set {
        /// The key to store.
        key: &'b [u8],
        /// The value to store.
        value: &'b [u8],
    },
}

impl<'b> Lone<'b> {
    /// Returns the key.
    #[inline(always)]
    pub fn key(&self) -> &'b [u8] {
        match self {
            Self::Get { key } | Self::Set { key, .. } => key,
        }
    }
}

const GET: u64 = u64::from_le_bytes(*b"*2\r\n$3\r\n");
const SET: u64 = u64::from_le_bytes(*b"*3\r\n$3\r\n");
/// The bit that distinguishes lower-case from upper-case letters, in each of the three letters of a name.
const SMALL: u64 = 0x0020_2020;

/// Parses the request at the start of `buf`, if it is complete, has one of the forms of [`Lone`], and has a value of
/// less than `value_bytes_end` bytes. Returns the request and its length in bytes. Returns `None` for all other
/// requests: the caller passes them to [`super::Parser`], which gives the same result for these forms.
#[inline(always)]
pub fn lone(buf: &[u8], value_bytes_end: usize) -> Option<(Lone<'_>, usize)> {
    let (head, rest) = buf.split_first_chunk::<8>()?;
    let (head, words) = (u64::from_le_bytes(*head), rest.split_first_chunk::<8>()?.0);
    // Three letters, a line end and the key's type; the two further bytes are masked out.
    let words = u64::from_le_bytes(*words) & 0xffff_ffff_ffff | SMALL;
    const KEY: u64 = u64::from_le_bytes(*b"\0\0\0\r\n$\0\0");
    match (head, words ^ KEY) {
        (GET, name) if name == u64::from_le_bytes(*b"get\0\0\0\0\0") => {
            let (key, end) = bulk(buf, 14, usize::MAX)?;
            Some((Lone::Get { key }, end))
        }
        (SET, name) if name == u64::from_le_bytes(*b"set\0\0\0\0\0") => {
            let (key, end) = bulk(buf, 14, usize::MAX)?;
            if buf.get(end) != Some(&b'$') {
                return None;
            }
            let (value, end) = bulk(buf, end + 1, value_bytes_end)?;
            Some((Lone::Set { key, value }, end))
        }
        _ => None,
    }
}

/// Returns the string whose length begins at `at`, and the offset of its end. Returns `None` unless the string is
/// complete and shorter than `bytes_end` bytes.
#[inline(always)]
fn bulk(buf: &[u8], at: usize, bytes_end: usize) -> Option<(&[u8], usize)> {
    let (len, bytes) = number::plain(&buf[at..])?;
    let (from, len) = (at + bytes, len as usize);
    let end = from + len;
    match buf.get(end..end + 2) {
        Some(b"\r\n") if len < bytes_end => Some((&buf[from..end], end + 2)),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Limits, Parsed, Parser};
    use super::*;

    #[test]
    fn resp_fast_path_matches_parser() {
        let mut read = 0;
        for request in [
            "*2\r\n$3\r\nGET\r\n$1\r\na\r\n",
            "*2\r\n$3\r\ngEt\r\n$0\r\n\r\n",
            "*2\r\n$3\r\nGET\r\n$12\r\nlonger\r\nkeys\r\n",
            "*3\r\n$3\r\nset\r\n$1\r\na\r\n$3\r\nabc\r\n",
            "*3\r\n$3\r\nSET\r\n$2\r\nab\r\n$0\r\n\r\n",
        ] {
            let whole = [request, "*1\r\n"].concat();
            let (lone, consumed) = lone(whole.as_bytes(), 100).expect("one of the plain forms");
            let Parsed::Request { mut args, consumed: bytes } = Parser::new().parse(whole.as_bytes(), &Limits::REDIS)
            else {
                panic!("{request}")
            };
            assert_eq!((consumed, Some(lone.key())), (bytes, args.nth(1)));
            if let Lone::Set { value, .. } = lone {
                assert_eq!(Some(value), args.next());
            }
            read += 1;
        }
        assert_eq!(read, 5);
    }

    #[test]
    fn fast_path_leaves_other_requests_to_parser() {
        for request in [
            "*3\r\n$3\r\nGET\r\n$1\r\na\r\n$1\r\nb\r\n",
            "*2\r\n$3\r\nSET\r\n$1\r\na\r\n",
            "*2\r\n$3\r\nGEX\r\n$1\r\na\r\n",
            "*2\r\n$3\r\nGET\r\n+1\r\na\r\n",
            "*2\r\n$3\r\nGET\r\n$01\r\na\r\n",
            "*2\r\n$3\r\nGET\r\n$-1\r\n",
            "*2\r\n$3\r\nGET\r\n$1\r\nabc",
            "*3\r\n$3\r\nSET\r\n$1\r\na\r\n$5\r\nabcde\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\na\r\n:5\r\nabcde\r\n",
            "*3\r\n$3\r\nSET\r\n$1\r\na\r\n",
            "get a\r\n",
        ] {
            assert_eq!(lone(request.as_bytes(), 5), None, "{}", request.escape_debug());
            // An incomplete request is never read past its end.
            (0..request.len()).for_each(|end| assert_eq!(lone(&request.as_bytes()[..end], 5), None));
        }
    }
}
