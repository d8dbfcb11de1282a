//! The fields of a request that make it a call.

use super::status::Status;
use super::timeout::parse_timeout_ns;
use crate::http2::hpack::{FieldList, FieldName};

/// A call, whose texts borrow from the list of the request's fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call<'f> {
    /// The full name of the service, with its package.
    pub service: &'f [u8],
    /// The name of the method.
    pub method: &'f [u8],
    /// The time after which the client no longer waits.
    pub timeout_ns: Option<u64>,
}

/// The causes by which a request is not a call, each with the answer that gRPC's mapping to HTTP/2 asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Refusal {
    /// A method other than POST: HTTP status 405.
    Method,
    /// A content type other than gRPC's: HTTP status 415.
    ContentType,
    /// More header fields than permitted.
    TooLong,
    /// A path without a service and a method.
    Path,
    /// A malformed `grpc-timeout`.
    Timeout,
    /// More than one `cache` or `grpc-timeout`: proxies differ in the one that they read.
    Duplicate,
}

impl Refusal {
    /// All causes.
    pub const ALL: [Self; 6] =
        [Self::Method, Self::ContentType, Self::TooLong, Self::Path, Self::Timeout, Self::Duplicate];

    /// Returns the HTTP status of the answer.
    pub fn http_status(self) -> u16 {
        match self {
            Self::Method => 405,
            Self::ContentType => 415,
            Self::TooLong | Self::Path | Self::Timeout | Self::Duplicate => 200,
        }
    }

    /// Returns the status of the call.
    pub fn status(self) -> Status {
        match self {
            Self::Method | Self::ContentType | Self::Timeout => Status::Internal,
            Self::TooLong => Status::ResourceExhausted,
            Self::Path => Status::Unimplemented,
            Self::Duplicate => Status::InvalidArgument,
        }
    }

    /// Returns the text for `grpc-message`.
    pub fn text(self) -> &'static str {
        match self {
            Self::Method => "the HTTP method is not POST; this port serves gRPC",
            Self::ContentType => {
                "the content-type is not application/grpc or application/grpc+proto; send Protocol Buffers"
            }
            Self::TooLong => "the headers are longer than 16 KiB; send less metadata",
            Self::Path => "the path is not /package.Service/Method",
            Self::Duplicate => "the request has more than one cache or grpc-timeout; send each once",
            Self::Timeout => "grpc-timeout is malformed; give 1 to 8 digits and a unit (H M S m u n)",
        }
    }
}

impl<'f> Call<'f> {
    /// Checks a request's fields. `te` is not required: proxies remove it, and clients exist that never send it.
    #[inline]
    pub fn of(fields: &'f FieldList) -> Result<Self, Refusal> {
        if fields.is_too_long() {
            return Err(Refusal::TooLong);
        }
        if fields.value(FieldName::Method) != Some(b"POST") {
            return Err(Refusal::Method);
        }
        if !fields.value(FieldName::ContentType).is_some_and(is_grpc) {
            return Err(Refusal::ContentType);
        }
        if [FieldName::Cache, FieldName::GrpcTimeout].into_iter().any(|name| fields.is_repeated(name)) {
            return Err(Refusal::Duplicate);
        }
        let (service, method) = fields.value(FieldName::Path).and_then(split).ok_or(Refusal::Path)?;
        let timeout_ns = match fields.value(FieldName::GrpcTimeout) {
            None => None,
            Some(value) => Some(parse_timeout_ns(value).ok_or(Refusal::Timeout)?),
        };
        Ok(Self { service, method, timeout_ns })
    }
}

/// Returns true for `application/grpc`, with or without the encoding of its messages (`+proto`) or parameters
/// (`;charset=utf-8`). Other encodings (`+json`) cannot be read, and gRPC-Web is another protocol.
fn is_grpc(content_type: &[u8]) -> bool {
    match content_type.split_at_checked(b"application/grpc".len()) {
        Some((kind, rest)) => {
            let end = rest.iter().position(|byte| *byte == b';').unwrap_or(rest.len());
            let encoding = rest[..end].trim_ascii_end();
            kind.eq_ignore_ascii_case(b"application/grpc")
                && (encoding.is_empty() || encoding.eq_ignore_ascii_case(b"+proto"))
        }
        None => false,
    }
}

/// Splits a path into service and method.
fn split(path: &[u8]) -> Option<(&[u8], &[u8])> {
    let rest = path.strip_prefix(b"/")?;
    let slash = memchr::memrchr(b'/', rest)?;
    let (service, method) = (&rest[..slash], &rest[slash + 1..]);
    (!service.is_empty() && !method.is_empty()).then_some((service, method))
}
