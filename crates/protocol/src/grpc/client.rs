//! The client's side of a call: the fields of a request, and the status of a reply.

use super::percent;
use super::status::Status;
use crate::http2::hpack::{FieldList, FieldName, encode};

/// Indexes of the static table (RFC 7541, appendix A).
mod index {
    pub(super) const AUTHORITY: u8 = 1;
    pub(super) const METHOD_POST: u8 = 3;
    pub(super) const PATH: u8 = 4;
    pub(super) const SCHEME_HTTP: u8 = 6;
    pub(super) const SCHEME_HTTPS: u8 = 7;
    pub(super) const AUTHORIZATION: u8 = 23;
    pub(super) const CONTENT_TYPE: u8 = 31;
    pub(super) const USER_AGENT: u8 = 58;
}

/// The greatest number of a `grpc-timeout`.
const TIMEOUT_COUNT_MAX: u64 = 99_999_999;

/// The fields of a call's request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CallFields<'f> {
    /// `/package.Service/Method`.
    pub path: &'f str,
    /// The host and port that the client names.
    pub authority: &'f str,
    /// True if the connection is encrypted.
    pub is_secure: bool,
    /// The name of the client's program.
    pub user_agent: &'f str,
    /// The credential; empty for none.
    pub authorization: &'f str,
    /// The cache; empty for that of the listener.
    pub cache: &'f str,
    /// The time after which the client no longer waits.
    pub timeout_ns: Option<u64>,
}

impl CallFields<'_> {
    /// Returns the header block of the request. It uses no table, so it is valid for each call with these fields.
    pub fn block(&self) -> Vec<u8> {
        let mut block = Vec::new();
        encode::indexed(&mut block, index::METHOD_POST);
        encode::indexed(&mut block, if self.is_secure { index::SCHEME_HTTPS } else { index::SCHEME_HTTP });
        encode::with_indexed_name(&mut block, index::PATH, self.path.as_bytes());
        encode::with_indexed_name(&mut block, index::AUTHORITY, self.authority.as_bytes());
        encode::literal(&mut block, b"te", b"trailers");
        encode::with_indexed_name(&mut block, index::CONTENT_TYPE, b"application/grpc");
        encode::with_indexed_name(&mut block, index::USER_AGENT, self.user_agent.as_bytes());
        if let Some(timeout_ns) = self.timeout_ns {
            encode::literal(&mut block, b"grpc-timeout", timeout_text(timeout_ns).as_bytes());
        }
        if !self.cache.is_empty() {
            encode::literal(&mut block, b"cache", self.cache.as_bytes());
        }
        if !self.authorization.is_empty() {
            encode::with_indexed_name(&mut block, index::AUTHORIZATION, self.authorization.as_bytes());
        }
        block
    }
}

/// Returns the value of `grpc-timeout`: up to eight digits in the finest unit that has room, rounded up.
fn timeout_text(timeout_ns: u64) -> String {
    let units = [(1, 'n'), (1_000, 'u'), (1_000_000, 'm'), (1_000_000_000, 'S'), (60_000_000_000, 'M')];
    let found = units.into_iter().find(|(unit_ns, _)| timeout_ns.div_ceil(*unit_ns) <= TIMEOUT_COUNT_MAX);
    let (unit_ns, unit) = found.unwrap_or((3_600_000_000_000, 'H'));
    format!("{}{unit}", timeout_ns.div_ceil(unit_ns))
}

/// Returns the status of a reply from its last fields. Without a valid `grpc-status` it follows from the HTTP status,
/// as gRPC's mapping says.
pub fn reply_status(fields: &FieldList) -> Status {
    if let Some(status) = fields.value(FieldName::GrpcStatus) {
        return Status::parse(status).unwrap_or(Status::Unknown);
    }
    match fields.value(FieldName::Status) {
        Some(b"400") => Status::Internal,
        Some(b"401") => Status::Unauthenticated,
        Some(b"403") => Status::PermissionDenied,
        Some(b"404") => Status::Unimplemented,
        Some(b"429" | b"502" | b"503" | b"504") => Status::Unavailable,
        _ => Status::Unknown,
    }
}

/// Appends the decoded `grpc-message` of a reply, if it has one.
pub fn put_reply_message(fields: &FieldList, out: &mut Vec<u8>) {
    if let Some(text) = fields.value(FieldName::GrpcMessage) {
        percent::decode(out, text);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::grpc::{Call, parse_timeout_ns};
    use crate::http2::hpack::HpackDecoder;

    #[test]
    fn fields_of_a_call_are_those_that_a_server_reads() {
        let mut fields = FieldList::new(4096);
        let sent = CallFields {
            path: "/gannet.v1.Cache/Get",
            authority: "127.0.0.1:7000",
            is_secure: true,
            user_agent: "test",
            authorization: "me:secret",
            cache: "shop",
            timeout_ns: Some(500_000_000),
        };
        HpackDecoder::new().decode(&sent.block(), &mut fields).expect("a valid block");
        assert!(fields.is_request() && !fields.is_response());
        let call = Call::of(&fields).expect("a call");
        assert_eq!((call.service, call.method), (&b"gannet.v1.Cache"[..], &b"Get"[..]));
        assert_eq!(call.timeout_ns, Some(500_000_000));
        assert_eq!(fields.value(FieldName::Cache), Some(&b"shop"[..]));
        assert_eq!(fields.value(FieldName::Authorization), Some(&b"me:secret"[..]));
        assert_eq!(fields.value(FieldName::Scheme), Some(&b"https"[..]));
        let plain = CallFields { is_secure: false, authorization: "", cache: "", timeout_ns: None, ..sent };
        HpackDecoder::new().decode(&plain.block(), &mut fields).expect("a valid block");
        assert_eq!(fields.value(FieldName::Cache), None);
        assert_eq!(fields.value(FieldName::Authorization), None);
        assert_eq!(Call::of(&fields).expect("a call").timeout_ns, None);
    }

    #[test]
    fn timeout_is_never_shortened_and_has_at_most_eight_digits() {
        for (timeout_ns, text) in [
            (1, "1n"),
            (99_999_999, "99999999n"),
            (100_000_001, "100001u"),
            (500_000_000, "500000u"),
            (10_000_000_000, "10000000u"),
            (100_000_000_000, "100000m"),
            (86_400_000_000_000, "86400000m"),
            (200_000_000_000_000, "200000S"),
        ] {
            assert_eq!(timeout_text(timeout_ns), text);
            assert!(parse_timeout_ns(text.as_bytes()).is_some_and(|parsed| parsed >= timeout_ns));
        }
        let longest = timeout_text(u64::MAX);
        assert_eq!(parse_timeout_ns(longest.as_bytes()), Some(u64::MAX), "{longest}");
    }

    #[test]
    fn reply_without_a_grpc_status_has_that_of_its_http_status() {
        let status_of = |sent: &[(&[u8], &[u8])]| {
            let (mut block, mut fields) = (Vec::new(), FieldList::new(4096));
            sent.iter().for_each(|(name, value)| encode::literal(&mut block, name, value));
            HpackDecoder::new().decode(&block, &mut fields).expect("a valid block");
            reply_status(&fields)
        };
        assert_eq!(status_of(&[(b":status", b"200"), (b"grpc-status", b"14")]), Status::Unavailable);
        assert_eq!(status_of(&[(b":status", b"503")]), Status::Unavailable);
        assert_eq!(status_of(&[(b":status", b"401")]), Status::Unauthenticated);
        assert_eq!(status_of(&[(b":status", b"200")]), Status::Unknown);
        assert_eq!(status_of(&[(b"grpc-status", b"x")]), Status::Unknown);
    }
}
