//! gRPC over HTTP/2: status codes, time limits and the texts of headers.
//!
//! ```text
//!   request   HEADERS :path /package.Service/Method, grpc-timeout, ...   DATA messages
//!   reply     HEADERS :status 200, content-type                          DATA messages   HEADERS grpc-status
//!   message   [ 0 | length, 4 bytes | bytes ]
//! ```
//!
//! `http2` has the frames and headers, `protobuf` the encoding of messages.
//!
//! Source: the document "gRPC over HTTP2" of the gRPC project.

pub mod http2;
pub mod protobuf;

/// The length of a message's prefix, in bytes.
pub const PREFIX_BYTES: usize = 5;
/// The maximum length of a message, in bytes.
pub const MESSAGE_BYTES_MAX: usize = 10 << 20;

/// The result of a call.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
#[expect(missing_docs, reason = "the names are those of gRPC")]
pub enum Status {
    Ok = 0,
    Cancelled = 1,
    Unknown = 2,
    InvalidArgument = 3,
    DeadlineExceeded = 4,
    NotFound = 5,
    AlreadyExists = 6,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    FailedPrecondition = 9,
    Aborted = 10,
    OutOfRange = 11,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
    DataLoss = 15,
    Unauthenticated = 16,
}

/// The state of a received message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Prefix {
    /// The prefix is incomplete.
    Incomplete,
    /// The message is compressed or longer than [`MESSAGE_BYTES_MAX`].
    Refused(Status, &'static str),
    /// The message has this length, prefix included.
    Message(usize),
}

/// Reads the prefix of a message.
pub fn prefix(bytes: &[u8]) -> Prefix {
    let Some([compressed, length @ ..]) = bytes.first_chunk::<PREFIX_BYTES>() else { return Prefix::Incomplete };
    let length = u32::from_be_bytes(*length) as usize;
    match *compressed {
        0 if length <= MESSAGE_BYTES_MAX => Prefix::Message(PREFIX_BYTES + length),
        0 => Prefix::Refused(Status::ResourceExhausted, "the message is longer than 10 MiB; send less in one call"),
        1 => Prefix::Refused(Status::Unimplemented, "the message is compressed; send it without compression"),
        _ => Prefix::Refused(Status::Internal, "the prefix of the message is malformed"),
    }
}

/// Reads the value of `grpc-timeout`: at most 8 digits and a unit. Returns the time in ns; `None` if it is malformed.
pub fn timeout_ns(text: &[u8]) -> Option<u64> {
    let (unit, digits) = text.split_last()?;
    if !(1..=8).contains(&digits.len()) || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    let number: u64 = std::str::from_utf8(digits).ok()?.parse().ok()?;
    let unit_ns = match unit {
        b'H' => 3_600_000_000_000,
        b'M' => 60_000_000_000,
        b'S' => 1_000_000_000,
        b'm' => 1_000_000,
        b'u' => 1_000,
        b'n' => 1,
        _ => return None,
    };
    Some(number.saturating_mul(unit_ns))
}

/// Appends a text in the form of `grpc-message`: percent-encoded, at most `bytes_max` bytes.
pub fn encode_text(text: &str, bytes_max: usize, to: &mut Vec<u8>) {
    let end = to.len() + bytes_max;
    for byte in text.bytes() {
        let is_plain = (b' '..=b'~').contains(&byte) && byte != b'%';
        if to.len() + if is_plain { 1 } else { 3 } > end {
            return;
        }
        if is_plain {
            to.push(byte);
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            to.extend_from_slice(&[b'%', DIGITS[usize::from(byte >> 4)], DIGITS[usize::from(byte & 15)]]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn time_limits_of_all_units_are_read_and_malformed_ones_refused() {
        for (text, ns) in [("1H", 3_600_000_000_000), ("2M", 120_000_000_000), ("3S", 3_000_000_000), ("4m", 4_000_000)]
        {
            assert_eq!(timeout_ns(text.as_bytes()), Some(ns), "{text}");
        }
        assert_eq!((timeout_ns(b"99999999n"), timeout_ns(b"0u")), (Some(99_999_999), Some(0)));
        for text in ["", "m", "1", "123456789m", "-1m", "1x", "1.5S", " 1S"] {
            assert_eq!(timeout_ns(text.as_bytes()), None, "{text:?}");
        }
    }

    #[test]
    fn prefixes_are_read_at_each_length() {
        assert_eq!(prefix(&[0, 0, 0, 0]), Prefix::Incomplete);
        assert_eq!(prefix(&[0, 0, 0, 1, 0]), Prefix::Message(261));
        assert_eq!(prefix(&[0, 0, 0xa0, 0, 0]), Prefix::Message(PREFIX_BYTES + MESSAGE_BYTES_MAX));
        assert!(matches!(prefix(&[0, 0, 0xa0, 0, 1]), Prefix::Refused(Status::ResourceExhausted, _)));
        assert!(matches!(prefix(&[1, 0, 0, 0, 0]), Prefix::Refused(Status::Unimplemented, _)));
    }

    #[test]
    fn texts_are_encoded_and_never_cut_within_a_code() {
        let encoded = |text, most| {
            let mut to = Vec::new();
            encode_text(text, most, &mut to);
            String::from_utf8(to).unwrap()
        };
        assert_eq!(encoded("a % é\n", 100), "a %25 %C3%A9%0A");
        assert_eq!((encoded("a%", 3), encoded("abc", 2)), ("a".into(), "ab".into()));
    }
}
