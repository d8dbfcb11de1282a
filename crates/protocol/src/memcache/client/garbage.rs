//! The errors of bytes that are not a valid response.

/// The reason why bytes are not a valid response to the request. The rest of the stream cannot be decoded, so the
/// caller must close the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Garbage {
    /// No line end within [`super::REPLY_LINE_BYTES_MAX`].
    LineTooLong,
    /// A line that ends in `\n` without `\r`.
    BareNewline,
    /// A line whose first word is not part of the protocol.
    UnknownReply,
    /// A line whose first word is known, but whose other words do not fit it.
    Malformed,
    /// A value that is longer than the protocol allows.
    ValueTooLong,
    /// A value without `\r\n` after it.
    ValueEnd,
    /// A well-formed reply that does not belong to this request.
    Unexpected,
}

impl Garbage {
    /// All variants, for tests and documentation.
    pub const ALL: [Self; 7] = [
        Self::LineTooLong,
        Self::BareNewline,
        Self::UnknownReply,
        Self::Malformed,
        Self::ValueTooLong,
        Self::ValueEnd,
        Self::Unexpected,
    ];

    /// Returns a description in words.
    pub const fn text(self) -> &'static str {
        match self {
            Self::LineTooLong => "a reply line without a line end within 4096 bytes",
            Self::BareNewline => "a reply line that ends in \\n without \\r",
            Self::UnknownReply => "a reply line whose first word is not in the memcached protocol",
            Self::Malformed => "a memcached reply line with invalid arguments",
            Self::ValueTooLong => "a reply that announces a value of 2 GiB or more",
            Self::ValueEnd => "a value without \\r\\n after it",
            Self::Unexpected => "a memcached reply that does not match the request",
        }
    }
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Garbage {}
