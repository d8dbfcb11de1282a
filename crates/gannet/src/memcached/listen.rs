//! Determines the addresses to listen on from `-l`, `-p` and `-s`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener, ToSocketAddrs};

use server::config::kinds::ListenAddress;

use super::atoi::number;
use super::refusal::{Refusal, code};

/// Returns the addresses in the texts of `-l`, each with its own port or with `port`. Without a text, returns all
/// addresses of this machine. With TLS (`-Z`), an address after `notls:` has none.
pub fn addresses(texts: &[String], port: i64, has_tls: bool) -> Result<Vec<ListenAddress>, Refusal> {
    let mut addresses = Vec::new();
    let mut add = |found: Vec<SocketAddr>, is_tls: bool| {
        for address in found {
            let address = if is_tls { ListenAddress::Tls(address) } else { ListenAddress::Tcp(address) };
            // An address with port 0 may occur several times, because the kernel chooses another port for each.
            if address.ip().is_some_and(|ip| ip.port() == 0) || !addresses.contains(&address) {
                addresses.push(address);
            }
        }
    };
    if texts.is_empty() {
        add(wildcards(port_of(port)?), has_tls);
    }
    for part in texts.iter().flat_map(|text| text.split([',', ';'])).filter(|part| !part.is_empty()) {
        match part.strip_prefix("notls:") {
            Some(address) => add(one(address, port)?, false),
            None => add(one(part, port)?, has_tls),
        }
    }
    if addresses.is_empty() {
        return Err((code::USAGE, "-l: the address is missing; write one, as in -l 127.0.0.1".to_owned()));
    }
    Ok(addresses)
}

fn wrong(part: &str, what: &str, remedy: &str) -> Refusal {
    (code::SYSTEM, format!("-l {part}: {what}; {remedy}"))
}

/// Converts a port number. As in memcached, with -1 the kernel chooses the port.
fn port_of(port: i64) -> Result<u16, Refusal> {
    if port < -1 {
        let remedy = "write one from 1 to 65535, or -1 for a free port";
        return Err((code::SYSTEM, format!("the port {port} does not exist; {remedy}")));
    }
    u16::try_from(port.max(0))
        .map_err(|_| (code::SYSTEM, format!("the port {port} is too high; write one up to 65535")))
}

/// Parses `HOST`, `HOST:PORT`, `[IPV6]`, `[IPV6]:PORT` or an IPv6 address; the host `*` is any address.
fn one(part: &str, port: i64) -> Result<Vec<SocketAddr>, Refusal> {
    if part.starts_with("proto[") || part.starts_with("tag[") {
        return Err(wrong(part, "tags of listeners are not supported", "write only the address"));
    }
    let (host, rest) = match part.strip_prefix('[') {
        Some(inner) => inner
            .split_once(']')
            .ok_or_else(|| wrong(part, "the IPv6 address has no closing bracket", "write it as in [::1]:11211"))?,
        None => match part.split_once(':') {
            Some((host, port)) if !port.contains(':') => (host, &part[host.len()..]),
            _ => (part, ""),
        },
    };
    let port = match rest.strip_prefix(':') {
        None if rest.is_empty() => port_of(port)?,
        Some(text) if number(text).1 => port_of(number(text).0)?,
        _ => return Err(wrong(part, "the port is not a number", "write it as in 127.0.0.1:11211")),
    };
    if host == "*" {
        return Ok(wildcards(port));
    }
    let found = (host, port).to_socket_addrs().map_err(|error| {
        wrong(
            part,
            &format!("it is not an address of this machine ({error})"),
            "choose an address that `ip addr` lists",
        )
    })?;
    let found: Vec<SocketAddr> = found.filter(|address| address.is_ipv4() || has_ipv6()).collect();
    if found.is_empty() {
        Err(wrong(part, "this machine does not support IPv6", "choose an IPv4 address"))
    } else {
        Ok(found)
    }
}

fn wildcards(port: u16) -> Vec<SocketAddr> {
    let mut both = vec![SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)];
    if has_ipv6() {
        both.push(SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), port));
    }
    both
}

/// Returns whether this machine has IPv6. A machine without IPv6 refuses even the IPv6 loopback address.
fn has_ipv6() -> bool {
    TcpListener::bind((Ipv6Addr::UNSPECIFIED, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn told(texts: &[&str]) -> String {
        let texts: Vec<String> = texts.iter().map(|text| (*text).to_owned()).collect();
        match addresses(&texts, 11211, false) {
            Ok(found) => found.iter().map(ListenAddress::to_string).collect::<Vec<_>>().join(" "),
            Err((code, line)) => format!("{code} {line}"),
        }
    }

    #[test]
    fn addresses_are_read_with_and_without_ports() {
        assert_eq!(told(&["127.0.0.1"]), "127.0.0.1:11211");
        assert_eq!(told(&["127.0.0.1:7,10.0.0.1;10.0.0.2"]), "127.0.0.1:7 10.0.0.1:11211 10.0.0.2:11211");
        assert_eq!(told(&["127.0.0.1", "127.0.0.1", "127.0.0.1:8"]), "127.0.0.1:11211 127.0.0.1:8");
        assert_eq!(told(&["127.0.0.1:0", "127.0.0.1:-1"]), "127.0.0.1:0 127.0.0.1:0");
        let every = if has_ipv6() { "0.0.0.0:11211 [::]:11211" } else { "0.0.0.0:11211" };
        assert_eq!((told(&[]), told(&["*"])), (every.to_owned(), every.to_owned()));
        assert_eq!(told(&["*:5"]), every.replace("11211", "5"));
        if has_ipv6() {
            assert_eq!(told(&["::1,[::1]:9,[::1]"]), "[::1]:11211 [::1]:9");
        }
    }

    #[test]
    fn listeners_with_tls_may_be_excepted() {
        let found = addresses(&["127.0.0.1,notls:127.0.0.1:7".to_owned()], 11211, true).unwrap();
        assert_eq!(found.iter().map(ToString::to_string).collect::<Vec<_>>(), ["tls:127.0.0.1:11211", "127.0.0.1:7"]);
        assert_eq!(told(&["notls:127.0.0.1"]), "127.0.0.1:11211");
    }

    #[test]
    fn invalid_listen_address_is_rejected_with_the_reason() {
        for (text, code, part) in [
            ("127.0.0.1:xx", 71, "the port is not a number"),
            ("127.0.0.1:99999", 71, "port 99999 is too high"),
            ("[::1", 71, "no closing bracket"),
            ("[::1]x", 71, "the port is not a number"),
            ("no.such.invalid", 71, "not an address of this machine"),
            ("tag[x]:127.0.0.1", 71, "tags of listeners"),
            (",", 64, "the address is missing"),
        ] {
            let told = told(&[text]);
            assert!(told.starts_with(&format!("{code} ")) && told.contains(part), "{text}: {told}");
        }
    }
}
