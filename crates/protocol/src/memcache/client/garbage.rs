//! Why bytes are no answer.

/// Why what came is no answer to what was asked. The stream cannot be followed any more: close it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Garbage {
    /// No line end within [`super::REPLY_LINE_BYTES_MAX`].
    LineTooLong,
    /// A line that ends in a newline alone.
    BareNewline,
    /// A line that begins with no word of the protocol.
    UnknownReply,
    /// A line whose first word is known and whose other words do not fit it.
    Malformed,
    /// A value longer than any that the protocol can carry.
    ValueTooLong,
    /// A value without its `\r\n`.
    ValueEnd,
    /// A well-formed reply that is none to this request.
    Unexpected,
}

impl Garbage {
    /// All of them, for tests and documents.
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
            Self::LineTooLong => "a reply line without an end in 4096 bytes",
            Self::BareNewline => "a reply line that ends in \\n without \\r",
            Self::UnknownReply => "a reply line that begins with no word of the memcached protocol",
            Self::Malformed => "a memcached reply line with words that do not fit its first one",
            Self::ValueTooLong => "a reply that announces a value of 2 GiB or more",
            Self::ValueEnd => "a value without \\r\\n behind it",
            Self::Unexpected => "a memcached reply that does not answer this request",
        }
    }
}

impl std::fmt::Display for Garbage {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(self.text())
    }
}

impl std::error::Error for Garbage {}
