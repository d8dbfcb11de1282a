//! The static table (RFC 7541, appendix A).

use super::name::FieldName::{self, *};

/// An entry of the static table.
#[derive(Clone, Copy)]
pub(super) struct StaticField {
    /// The class of the name.
    pub(super) name: FieldName,
    /// The name.
    pub(super) text: &'static str,
    /// The value.
    pub(super) value: &'static str,
}

/// The number of entries of the static table. The first index of the dynamic table follows.
pub(super) const LEN: usize = 61;

const fn field(name: FieldName, text: &'static str, value: &'static str) -> StaticField {
    StaticField { name, text, value }
}

/// The entries; index 1 is the first.
pub(super) static FIELDS: [StaticField; LEN] = [
    field(Authority, ":authority", ""),
    field(Method, ":method", "GET"),
    field(Method, ":method", "POST"),
    field(Path, ":path", "/"),
    field(Path, ":path", "/index.html"),
    field(Scheme, ":scheme", "http"),
    field(Scheme, ":scheme", "https"),
    field(Status, ":status", "200"),
    field(Status, ":status", "204"),
    field(Status, ":status", "206"),
    field(Status, ":status", "304"),
    field(Status, ":status", "400"),
    field(Status, ":status", "404"),
    field(Status, ":status", "500"),
    field(Other, "accept-charset", ""),
    field(Other, "accept-encoding", "gzip, deflate"),
    field(Other, "accept-language", ""),
    field(Other, "accept-ranges", ""),
    field(Other, "accept", ""),
    field(Other, "access-control-allow-origin", ""),
    field(Other, "age", ""),
    field(Other, "allow", ""),
    field(Authorization, "authorization", ""),
    field(Other, "cache-control", ""),
    field(Other, "content-disposition", ""),
    field(Other, "content-encoding", ""),
    field(Other, "content-language", ""),
    field(ContentLength, "content-length", ""),
    field(Other, "content-location", ""),
    field(Other, "content-range", ""),
    field(ContentType, "content-type", ""),
    field(Other, "cookie", ""),
    field(Other, "date", ""),
    field(Other, "etag", ""),
    field(Other, "expect", ""),
    field(Other, "expires", ""),
    field(Other, "from", ""),
    field(Other, "host", ""),
    field(Other, "if-match", ""),
    field(Other, "if-modified-since", ""),
    field(Other, "if-none-match", ""),
    field(Other, "if-range", ""),
    field(Other, "if-unmodified-since", ""),
    field(Other, "last-modified", ""),
    field(Other, "link", ""),
    field(Other, "location", ""),
    field(Other, "max-forwards", ""),
    field(Other, "proxy-authenticate", ""),
    field(Other, "proxy-authorization", ""),
    field(Other, "range", ""),
    field(Other, "referer", ""),
    field(Other, "refresh", ""),
    field(Other, "retry-after", ""),
    field(Other, "server", ""),
    field(Other, "set-cookie", ""),
    field(Other, "strict-transport-security", ""),
    field(ConnectionSpecific, "transfer-encoding", ""),
    field(UserAgent, "user-agent", ""),
    field(Other, "vary", ""),
    field(Other, "via", ""),
    field(Other, "www-authenticate", ""),
];
