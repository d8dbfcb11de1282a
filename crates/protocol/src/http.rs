//! Recognition of HTTP. A web page can make a browser send an HTTP request to any address that the browser reaches.
//! The request's body may be commands. To the memcached and Redis protocols, the lines before the body are unknown
//! commands, so only a server that closes the connection at such a line never executes the body.

/// Methods of HTTP that no command has as its name, in their only valid case.
const METHODS: [&[u8]; 9] = [b"CONNECT", b"DELETE", b"HEAD", b"OPTIONS", b"PATCH", b"PRI", b"PUT", b"TRACE", b"GET"];

/// Returns true if a client of HTTP sent `line`, whose end is not included:
/// - `POST` or `Host:` as the first word, in any case, as in Redis;
/// - another method, then a target that begins with `/` or is `*`; not `GET`, which is a command with any key;
/// - any method, and a last word that begins with `HTTP/`.
#[cold]
pub fn is_http(line: &[u8]) -> bool {
    let mut words = line.split(u8::is_ascii_whitespace).filter(|word| !word.is_empty());
    let Some(first) = words.next() else { return false };
    if first.eq_ignore_ascii_case(b"POST") || first.get(..5).is_some_and(|name| name.eq_ignore_ascii_case(b"Host:")) {
        return true;
    }
    let (target, last) = (words.next(), words.next_back());
    let has_target = target.is_some_and(|target| target.starts_with(b"/") || target == b"*");
    METHODS.contains(&first)
        && (first != b"GET" && has_target || last.or(target).is_some_and(|last| last.starts_with(b"HTTP/")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_line_by_which_a_browser_begins_is_http() {
        for line in [
            "GET / HTTP/1.1",
            "GET /a%20b?c=d HTTP/1.0",
            "POST /set HTTP/1.1",
            "POST",
            "post x",
            "PUT /k HTTP/1.1",
            "PUT /k",
            "DELETE /k HTTP/1.1",
            "HEAD http://cache/ HTTP/1.1",
            "OPTIONS *",
            "OPTIONS * HTTP/1.1",
            "CONNECT cache:11211 HTTP/1.1",
            "PRI * HTTP/2.0",
            "Host: cache:6379",
            "host:cache",
            "  GET\t/  HTTP/1.1",
        ] {
            assert!(is_http(line.as_bytes()), "{line}");
        }
    }

    #[test]
    fn commands_are_not_http() {
        for line in [
            "",
            " ",
            "GET /",
            "GET /index HTTP",
            "GET Host:",
            "get / HTTP/1.1",
            "DELETE key",
            "PUT",
            "SET /k HTTP/1.1",
            "set Host: 0 0 5",
            "Hos",
            "postpone",
        ] {
            assert!(!is_http(line.as_bytes()), "{line}");
        }
    }
}
