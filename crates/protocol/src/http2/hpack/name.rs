//! Names of header fields, classified once: when a literal is decoded, not each time when its index is used.

/// A class of header fields: a name that gRPC or HTTP/2 gives a meaning, or any other name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum FieldName {
    /// `:method`.
    Method,
    /// `:scheme`.
    Scheme,
    /// `:authority`.
    Authority,
    /// `:path`.
    Path,
    /// `:status`, in responses only.
    Status,
    /// `content-type`.
    ContentType,
    /// `content-length`.
    ContentLength,
    /// `te`, which must be `trailers` (RFC 9113, 8.2.2).
    Te,
    /// `user-agent`.
    UserAgent,
    /// `authorization`.
    Authorization,
    /// `cache`, the name of a cache.
    Cache,
    /// `grpc-timeout`.
    GrpcTimeout,
    /// `grpc-encoding`.
    GrpcEncoding,
    /// `grpc-accept-encoding`.
    GrpcAcceptEncoding,
    /// `grpc-status`, in responses only.
    GrpcStatus,
    /// `grpc-message`, in responses only.
    GrpcMessage,
    /// Any other valid name.
    Other,
    /// A field of the connection, which HTTP/2 forbids (RFC 9113, 8.2.2).
    ConnectionSpecific,
    /// A name that HTTP/2 forbids: empty, with an uppercase letter, with another byte that no token has, or an unknown
    /// pseudo-header (RFC 9113, 8.2.1 and 8.3).
    Invalid,
}

impl FieldName {
    /// The number of names with a fixed text, which are the first ones.
    pub(super) const KNOWN: usize = Self::Other as usize;

    /// The texts of the known names, in the order of their definition.
    const TEXTS: [&'static str; Self::KNOWN] = [
        ":method",
        ":scheme",
        ":authority",
        ":path",
        ":status",
        "content-type",
        "content-length",
        "te",
        "user-agent",
        "authorization",
        "cache",
        "grpc-timeout",
        "grpc-encoding",
        "grpc-accept-encoding",
        "grpc-status",
        "grpc-message",
    ];

    /// Returns the text of a known name; `None` for the classes of other names.
    #[inline(always)]
    pub fn text(self) -> Option<&'static str> {
        Self::TEXTS.get(self as usize).copied()
    }

    /// Returns true for a name that begins with a colon and is known.
    #[inline(always)]
    pub fn is_pseudo(self) -> bool {
        self <= Self::Status
    }

    /// Classifies `name`.
    pub(super) fn of(name: &[u8]) -> Self {
        match name {
            b":method" => Self::Method,
            b":scheme" => Self::Scheme,
            b":authority" => Self::Authority,
            b":path" => Self::Path,
            b":status" => Self::Status,
            b"content-type" => Self::ContentType,
            b"content-length" => Self::ContentLength,
            b"te" => Self::Te,
            b"user-agent" => Self::UserAgent,
            b"authorization" => Self::Authorization,
            b"cache" => Self::Cache,
            b"grpc-timeout" => Self::GrpcTimeout,
            b"grpc-encoding" => Self::GrpcEncoding,
            b"grpc-accept-encoding" => Self::GrpcAcceptEncoding,
            b"grpc-status" => Self::GrpcStatus,
            b"grpc-message" => Self::GrpcMessage,
            b"connection" | b"keep-alive" | b"proxy-connection" | b"transfer-encoding" | b"upgrade" => {
                Self::ConnectionSpecific
            }
            _ if !name.is_empty() && name.iter().all(|byte| is_lowercase_token(*byte)) => Self::Other,
            _ => Self::Invalid,
        }
    }
}

/// Returns true for a byte of a token (RFC 9110, 5.6.2) that is no uppercase letter.
fn is_lowercase_token(byte: u8) -> bool {
    byte.is_ascii_lowercase() || byte.is_ascii_digit() || b"!#$%&'*+-.^_`|~".contains(&byte)
}

/// Returns true if a field may have `value`: no NUL, line feed or carriage return, and no white space around it
/// (RFC 9113, 8.2.1).
#[inline]
pub(super) fn is_valid_value(value: &[u8]) -> bool {
    let is_blank = |byte: Option<&u8>| matches!(byte, Some(b' ' | b'\t'));
    // No early return, so that the compiler compares many bytes at once.
    let forbidden = value.iter().fold(false, |any, byte| any | matches!(byte, 0 | b'\n' | b'\r'));
    !forbidden && !is_blank(value.first()) && !is_blank(value.last())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_known_name_is_found_by_its_text() {
        for text in FieldName::TEXTS {
            assert_eq!(FieldName::of(text.as_bytes()).text(), Some(text));
            assert_eq!(FieldName::of(text.as_bytes()).is_pseudo(), text.starts_with(':'));
        }
        for (name, class) in [
            ("x-b3-traceid", FieldName::Other),
            ("grpc-trace-bin", FieldName::Other),
            ("", FieldName::Invalid),
            ("Te", FieldName::Invalid),
            (":protocol", FieldName::Invalid),
            ("a b", FieldName::Invalid),
            ("a\0", FieldName::Invalid),
            ("a:b", FieldName::Invalid),
            ("é", FieldName::Invalid),
            ("upgrade", FieldName::ConnectionSpecific),
            ("connection", FieldName::ConnectionSpecific),
        ] {
            assert_eq!(FieldName::of(name.as_bytes()), class, "{name}");
            assert_eq!(class.text(), None);
        }
    }

    #[test]
    fn value_that_would_split_a_header_is_invalid() {
        for value in ["a\nb", "a\rb", "a\0", " a", "a ", "\ta", "a\t"] {
            assert!(!is_valid_value(value.as_bytes()), "{value:?}");
        }
        for value in ["", "a", "a b", "\u{ff}"] {
            assert!(is_valid_value(value.as_bytes()), "{value:?}");
        }
    }
}
