//! Chooses ports for servers that cannot bind port 0 and report what they got. The tests of other crates include this
//! file.

use std::net::{Ipv4Addr, TcpListener};
use std::sync::atomic::{AtomicU32, Ordering};

/// The first port that is chosen: those of memcached, Redis and the admin port are below it.
const FIRST: u32 = 12_000;

/// Returns a port of the loopback address on which no program listens. No other call in this process returns it.
///
/// The port is below the range from which the kernel chooses. A port of that range is not reserved: until the caller's
/// server binds it, the kernel may give it to another program that binds port 0.
pub fn free_port() -> u16 {
    static CALLS: AtomicU32 = AtomicU32::new(0);
    let range = std::fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range").unwrap_or_default();
    let chosen_by_kernel = range.split_whitespace().next().and_then(|first| first.parse().ok());
    let end = chosen_by_kernel.filter(|first| *first > FIRST + 1000).unwrap_or(32_768);
    // Processes that run at the same time begin at different ports.
    let first_call = std::process::id().wrapping_mul(613);
    loop {
        let number = first_call.wrapping_add(CALLS.fetch_add(1, Ordering::Relaxed));
        let port = (FIRST + number % (end - FIRST)) as u16;
        if TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok() {
            return port;
        }
    }
}
