//! The check of a request's `Host` and `Origin`, which keeps web pages from using the admin port through a browser on
//! this machine.
//!
//! ```text
//!   page of evil.example, whose name now resolves to 127.0.0.1 (DNS rebinding)
//!     ──> GET /config  Host: evil.example:9555                          421: neither an IP address nor a listed name
//!   page of evil.example
//!     ──> GET /config  Host: 127.0.0.1:9555  Origin: http://evil.example    403: another origin
//!   curl, Prometheus, gannet top, a tab at http://127.0.0.1:9555/
//!     ──> GET /config  Host: 127.0.0.1:9555                             200
//! ```
//! A browser takes the host from the page's address. An attacker can let a name resolve to any address, but an IP
//! address in place of a name resolves only to itself.

use std::net::{Ipv4Addr, Ipv6Addr};

use httparse::Header;

use super::http::Response;

/// The refusal of a request by which a web page would change something.
const FROM_A_PAGE: &str = "web pages may not change anything here\n";

/// Checks the host and the origin of a request. `version` is the minor version of HTTP/1. `changes` is true if the
/// method changes state. `is_listed` returns true for a lower-case name in `listen.admin_hosts`.
///
/// # Errors
/// If the request is refused: the response.
pub fn check(
    version: u8,
    headers: &[Header<'_>],
    changes: bool,
    is_listed: impl FnOnce(&str) -> bool,
) -> Result<(), Response> {
    let refused = |status, line: &str| Err(Response::text(status, line));
    let mut hosts = values(headers, "Host");
    let host = match (hosts.next(), hosts.next()) {
        (None, _) if version > 0 => return refused(400, "an HTTP/1.1 request needs a Host header\n"),
        (None, _) => None,
        (Some(host), None) => Some(host),
        (Some(_), Some(_)) => return refused(400, "the request has more than one Host header\n"),
    };
    if let Some(host) = host {
        match RequestHost::parse(host) {
            None => return refused(400, "the Host header is not a host name or an IP address\n"),
            Some(RequestHost::Name(name)) if name != "localhost" && !is_listed(&name) => {
                return refused(
                    421,
                    "this host name is not accepted; use an IP address or localhost, or add the name to \
                     listen.admin_hosts\n",
                );
            }
            Some(_) => {}
        }
    }
    let mut origins = values(headers, "Origin").peekable();
    if changes && origins.peek().is_some() {
        return refused(403, FROM_A_PAGE);
    }
    if origins.any(|origin| !is_same(origin, host)) {
        return refused(403, "web pages of other hosts may not read anything here\n");
    }
    Ok(())
}

/// Returns the values of all headers `name`, without spaces around them.
fn values<'h>(headers: &'h [Header<'_>], name: &'static str) -> impl Iterator<Item = &'h [u8]> {
    headers.iter().filter(move |header| header.name.eq_ignore_ascii_case(name)).map(|header| header.value.trim_ascii())
}

/// Returns true if the page at `origin` was loaded from `host`, with the same port.
fn is_same(origin: &[u8], host: Option<&[u8]>) -> bool {
    let authority = origin.windows(3).position(|bytes| bytes == b"://").map(|at| &origin[at + 3..]);
    authority.zip(host).is_some_and(|(authority, host)| authority.eq_ignore_ascii_case(host))
}

/// The host of a request.
#[derive(Debug, PartialEq, Eq)]
enum RequestHost {
    /// An IP address.
    Address,
    /// A name in lower case, without the final dot.
    Name(String),
}

impl RequestHost {
    /// Parses the value of a `Host` header: a host with an optional port.
    fn parse(value: &[u8]) -> Option<Self> {
        let text = std::str::from_utf8(value).ok()?;
        let (host, rest) = match text.strip_prefix('[') {
            Some(inner) => {
                let (address, rest) = inner.split_once(']')?;
                // Some clients send the zone of a link-local address: fe80::1%eth0.
                let address = address.split('%').next().unwrap_or_default();
                address.parse::<Ipv6Addr>().ok()?;
                (None, rest)
            }
            None => {
                let host = text.split(':').next().unwrap_or_default();
                (Some(host), &text[host.len()..])
            }
        };
        let is_port = |port: &str| port.is_empty() || (port.parse::<u16>().is_ok() && !port.starts_with('+'));
        if !rest.is_empty() && !rest.strip_prefix(':').is_some_and(is_port) {
            return None;
        }
        let Some(host) = host else { return Some(Self::Address) };
        let letter = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
        if host.is_empty() || !host.bytes().all(letter) {
            return None;
        }
        if host.parse::<Ipv4Addr>().is_ok() {
            return Some(Self::Address);
        }
        Some(Self::Name(host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn status(version: u8, lines: &[(&'static str, &str)], changes: bool) -> u16 {
        let headers: Vec<Header<'_>> =
            lines.iter().map(|(name, value)| Header { name, value: value.as_bytes() }).collect();
        let listed = |name: &str| name == "cache1.example";
        check(version, &headers, changes, listed).map_or_else(|refused| refused.status, |()| 200)
    }

    #[test]
    fn only_addresses_localhost_and_listed_names_are_accepted_hosts() {
        for host in [
            "127.0.0.1",
            "127.0.0.1:9555",
            "192.0.2.7:80",
            "[::1]",
            "[::1]:9555",
            "[fe80::1%eth0]:9555",
            "localhost",
            "LOCALHOST:9555",
            "localhost.",
            "localhost:",
            " cache1.example:9555 ",
            "Cache1.Example.",
        ] {
            assert_eq!(status(1, &[("host", host)], false), 200, "{host}");
        }
        for host in [
            "evil.example",
            "evil.example:9555",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "cache1.example.evil",
            "1.2.3",
            "2130706433",
            "0x7f.0.0.1",
        ] {
            assert_eq!(status(1, &[("Host", host)], false), 421, "{host}");
        }
        for host in
            ["", ":9555", "::1", "[::1", "[x]", "[::1]x", "a b", "a/b", "u@localhost", "a:99999", "a:+1", "a:1:2"]
        {
            assert_eq!(status(1, &[("Host", host)], false), 400, "{host}");
        }
    }

    #[test]
    fn one_host_is_required_from_http_1_1_on() {
        assert_eq!((status(1, &[], false), status(0, &[], false)), (400, 200));
        assert_eq!(status(0, &[("Host", "evil.example")], false), 421);
        assert_eq!(status(1, &[("Host", "localhost"), ("HOST", "localhost")], false), 400);
    }

    #[test]
    fn a_page_reads_only_its_own_host_and_changes_nothing() {
        let host = ("Host", "127.0.0.1:9555");
        let own = ("Origin", "http://127.0.0.1:9555");
        assert_eq!((status(1, &[host, own], false), status(1, &[host, own], true)), (200, 403));
        for origin in [
            "null",
            "http://evil.example",
            "http://127.0.0.1",
            "http://127.0.0.1:80",
            "http://127.0.0.1:9555.evil.example",
            "127.0.0.1:9555",
            "",
        ] {
            assert_eq!(status(1, &[host, ("origin", origin)], false), 403, "{origin}");
            assert_eq!(status(1, &[host, own, ("Origin", origin)], false), 403, "{origin}");
        }
        assert_eq!(status(0, &[own], false), 403);
    }
}
