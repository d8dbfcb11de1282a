//! The part of HTTP/1.1 that the admin port needs: one GET, HEAD, PUT or DELETE for each connection.

use super::host;
use super::users::Credentials;

/// The maximum size of a request head, in bytes.
pub const HEAD_BYTES_MAX: usize = 8 << 10;
/// The maximum size of a request body, in bytes.
pub const BODY_BYTES_MAX: usize = 8 << 10;
/// The maximum number of header lines of a request.
const HEADERS_MAX: usize = 64;

/// The result of parsing the bytes received so far.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ParsedHttp {
    /// The bytes are the beginning of a request.
    Partial,
    /// The bytes contain a complete request.
    Request {
        /// The path of the URL, without the query.
        path: String,
        /// The query: the part of the URL after the `?`.
        query: String,
        /// True if the request is a HEAD, whose response has no body.
        head_only: bool,
        /// True if the request is a DELETE.
        delete: bool,
        /// The body of a PUT request; `None` for other methods.
        body: Option<String>,
        /// The user's name and password; `None` if the request has none.
        credentials: Option<Credentials>,
    },
    /// The bytes are not a supported request. The variant contains the response to send.
    Refused(Response),
}

/// An HTTP response.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The HTTP status code.
    pub status: u16,
    /// The body's media type.
    pub content_type: &'static str,
    /// The body of the response.
    pub body: String,
}

/// The headers that limit what a browser does with a response. Every page is plain text or JSON. It loads nothing, runs
/// nothing, is not part of another page, and its address is not sent to other hosts.
const BROWSER_RULES: &str = "\
    Content-Security-Policy: default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'\r\n\
    X-Frame-Options: DENY\r\nX-Content-Type-Options: nosniff\r\nReferrer-Policy: no-referrer\r\n";

/// The media type of plain text.
pub const TEXT: &str = "text/plain; charset=utf-8";

impl Response {
    /// Creates a response of plain text.
    pub fn text(status: u16, body: impl Into<String>) -> Self {
        Self { status, content_type: TEXT, body: body.into() }
    }

    /// Returns the encoded response, without the body if `head_only`.
    pub fn bytes(&self, head_only: bool) -> Vec<u8> {
        let more = match self.status {
            401 => "WWW-Authenticate: Basic realm=\"gannet\", charset=\"UTF-8\"\r\n",
            405 => "Allow: GET, HEAD, PUT, DELETE\r\n",
            _ => "",
        };
        let mut bytes = format!(
            "HTTP/1.1 {} {}\r\nContent-Type: {}\r\nContent-Length: {}\r\n{more}{BROWSER_RULES}\
             Cache-Control: no-store\r\nConnection: close\r\n\r\n",
            self.status,
            reason(self.status),
            self.content_type,
            self.body.len()
        )
        .into_bytes();
        if !head_only {
            bytes.extend_from_slice(self.body.as_bytes());
        }
        bytes
    }
}

fn reason(status: u16) -> &'static str {
    match status {
        200 => "OK",
        400 => "Bad Request",
        401 => "Unauthorized",
        403 => "Forbidden",
        404 => "Not Found",
        405 => "Method Not Allowed",
        408 => "Request Timeout",
        409 => "Conflict",
        411 => "Length Required",
        413 => "Content Too Large",
        421 => "Misdirected Request",
        429 => "Too Many Requests",
        431 => "Request Header Fields Too Large",
        500 => "Internal Server Error",
        503 => "Service Unavailable",
        _ => "Other",
    }
}

/// Parses the bytes received so far. `is_listed` returns true for a name in `listen.admin_hosts`.
pub fn parse(bytes: &[u8], is_listed: impl FnOnce(&str) -> bool) -> ParsedHttp {
    let mut headers = [httparse::EMPTY_HEADER; HEADERS_MAX];
    let mut request = httparse::Request::new(&mut headers);
    let refused = |status, line: &str| ParsedHttp::Refused(Response::text(status, line));
    match request.parse(bytes) {
        Ok(httparse::Status::Partial) if bytes.len() >= HEAD_BYTES_MAX => {
            refused(431, "the request's head is longer than 8 KiB\n")
        }
        Ok(httparse::Status::Partial) => ParsedHttp::Partial,
        Ok(httparse::Status::Complete(head_bytes)) => {
            let (method, target) = (request.method.unwrap_or_default(), request.path.unwrap_or_default());
            let changes = !matches!(method, "GET" | "HEAD");
            if let Err(response) = host::check(request.version.unwrap_or(1), request.headers, changes, is_listed) {
                return ParsedHttp::Refused(response);
            }
            if !matches!(method, "GET" | "HEAD" | "PUT" | "DELETE") {
                return refused(405, "only GET, HEAD, PUT and DELETE are answered here\n");
            }
            let delete = method == "DELETE";
            let body = match (method == "PUT").then(|| body(request.headers, &bytes[head_bytes..])) {
                None => None,
                Some(Ok(Some(body))) => Some(body),
                Some(Ok(None)) => return ParsedHttp::Partial,
                Some(Err((status, line))) => return refused(status, line),
            };
            let target = target.split('#').next().unwrap_or_default();
            let (path, query) = target.split_once('?').unwrap_or((target, ""));
            let (path, query) = (path.to_owned(), query.to_owned());
            let credentials =
                header(request.headers, "Authorization").and_then(|header| Credentials::parse(header.value));
            ParsedHttp::Request { path, query, head_only: method == "HEAD", delete, body, credentials }
        }
        Err(httparse::Error::TooManyHeaders) => refused(431, "the request has more than 64 header lines\n"),
        Err(_) => refused(400, "this is not an HTTP/1.1 request; try: curl http://HOST:PORT/\n"),
    }
}

/// Returns the first header with this name, in any case.
fn header<'h, 'b>(headers: &'h [httparse::Header<'b>], name: &str) -> Option<&'h httparse::Header<'b>> {
    headers.iter().find(|header| header.name.eq_ignore_ascii_case(name))
}

/// Returns the body that follows a request's head, or `None` if the body is incomplete. An error is the status code and
/// the text of the refusal.
fn body(headers: &[httparse::Header<'_>], arrived: &[u8]) -> Result<Option<String>, (u16, &'static str)> {
    let length = header(headers, "Content-Length")
        .and_then(|header| std::str::from_utf8(header.value).ok()?.trim().parse().ok());
    let length: usize =
        length.ok_or((411, "the request has no valid Content-Length; try: curl --upload-file FILE URL\n"))?;
    if length > BODY_BYTES_MAX {
        return Err((413, "the body is longer than 8 KiB\n"));
    }
    let Some(body) = arrived.get(..length) else { return Ok(None) };
    let text = std::str::from_utf8(body).map_err(|_| (400, "the body is not UTF-8 text\n"))?;
    Ok(Some(text.to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(bytes: &[u8]) -> ParsedHttp {
        super::parse(bytes, |_| false)
    }

    fn status(bytes: &[u8]) -> Option<u16> {
        match parse(bytes) {
            ParsedHttp::Refused(response) => Some(response.status),
            _ => None,
        }
    }

    #[test]
    fn a_request_cut_anywhere_is_partial_until_it_is_whole() {
        let whole = b"GET /metrics?x=1 HTTP/1.1\r\nHost: [::1]:9\r\nAccept: */*\r\n\r\n";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), ParsedHttp::Partial, "{end}");
        }
        let get = ParsedHttp::Request {
            path: "/metrics".to_owned(),
            query: "x=1".to_owned(),
            head_only: false,
            delete: false,
            body: None,
            credentials: None,
        };
        assert_eq!(parse(whole), get);
        let head = parse(b"HEAD / HTTP/1.0\r\n\r\n");
        assert!(matches!(head, ParsedHttp::Request { path, head_only: true, delete: false, .. } if path == "/"));
        let delete = parse(b"DELETE /namespaces/a?keep=true HTTP/1.1\r\nHost: localhost\r\n\r\n");
        assert!(matches!(delete, ParsedHttp::Request { query, delete: true, .. } if query == "keep=true"));
    }

    #[test]
    fn truncated_http_request_is_partial_and_trailing_bytes_are_ignored() {
        let whole = b"PUT /config HTTP/1.1\r\nHost: localhost\r\ncontent-length: 5\r\n\r\nhello";
        for end in 0..whole.len() {
            assert_eq!(parse(&whole[..end]), ParsedHttp::Partial, "{end}");
        }
        let body = Some("hello".to_owned());
        let request = ParsedHttp::Request {
            path: "/config".to_owned(),
            query: String::new(),
            head_only: false,
            delete: false,
            body,
            credentials: None,
        };
        assert_eq!(parse(whole), request);
        assert_eq!(parse(&[&whole[..], b" and more"].concat()), request);
    }

    #[test]
    fn a_put_without_a_length_too_long_or_from_a_web_page_is_refused() {
        assert_eq!(status(b"PUT /config HTTP/1.1\r\nHost: localhost\r\n\r\nx"), Some(411));
        assert_eq!(status(b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\nx"), Some(411));
        assert_eq!(status(b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 8193\r\n\r\n"), Some(413));
        assert_eq!(
            status(b"PUT /config HTTP/1.1\r\nHost: localhost\r\nOrigin: http://a\r\nContent-Length: 0\r\n\r\n"),
            Some(403)
        );
        assert_eq!(status(b"DELETE /namespaces/a HTTP/1.1\r\nHost: localhost\r\norigin: http://a\r\n\r\n"), Some(403));
        assert_eq!(status(b"PUT /config HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1\r\n\r\n\xff"), Some(400));
    }

    #[test]
    fn invalid_http_request_gets_an_error_status() {
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: localhost\r\n\r\n"), Some(405));
        assert_eq!(status(b"set k 0 0 5\r\nhello\r\n"), Some(400));
        assert_eq!(status(b"\x16\x03\x01\x02\x00\x01\x00\x01\xfc"), Some(400));
        assert_eq!(status(&[b'G'; HEAD_BYTES_MAX]), Some(431));
        let many = format!("GET / HTTP/1.1\r\n{}\r\n", "a: b\r\n".repeat(HEADERS_MAX + 1));
        assert_eq!(status(many.as_bytes()), Some(431));
    }

    #[test]
    fn a_foreign_host_is_refused_before_anything_else_of_the_request() {
        assert_eq!(status(b"POST / HTTP/1.1\r\nHost: evil.example\r\n\r\n"), Some(421));
        assert_eq!(status(b"PUT /config HTTP/1.1\r\nHost: evil.example\r\nContent-Length: 5\r\n\r\n"), Some(421));
        assert_eq!(status(b"GET / HTTP/1.1\r\n\r\n"), Some(400));
        let whole = b"GET / HTTP/1.1\r\nHost: cache1\r\n\r\n";
        assert!(matches!(super::parse(whole, |name| name == "cache1"), ParsedHttp::Request { .. }));
    }

    #[test]
    fn head_response_has_the_content_length_of_the_omitted_body() {
        let response = Response::text(200, "12345");
        let (whole, head) = (response.bytes(false), response.bytes(true));
        assert_eq!(&whole[..head.len()], &head[..]);
        assert_eq!(&whole[head.len()..], b"12345");
        assert!(String::from_utf8(head).unwrap().contains("Content-Length: 5\r\n"));
    }

    #[test]
    fn garbage_never_panics() {
        let mut prng = base::prng::Prng::new(5);
        let mut refused = 0;
        for _ in 0..20_000 {
            let mut bytes = vec![0; prng.below(200) as usize];
            prng.fill(&mut bytes);
            refused += usize::from(status(&bytes).is_some());
        }
        assert!(refused > 10_000);
    }
}
