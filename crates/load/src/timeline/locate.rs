//! Finds the local process that listens at an address: the socket's inode from `/proc/net`, its owner from
//! `/proc/PID/fd`.

use std::net::{IpAddr, SocketAddr};
use std::path::Path;

/// Highest number of processes that are examined.
const PROCESSES_MAX: usize = 65_536;

/// The state of a listening socket in `/proc/net/tcp`.
const LISTEN: &str = "0A";

/// Returns the process that listens at `address`, such as `127.0.0.1:11211` or `unix:/run/socket`. Returns `None` if it
/// is not on this host or cannot be examined.
pub fn listener(address: &str) -> Option<u32> {
    if let Some(path) = address.strip_prefix("unix:") {
        let sockets = std::fs::read_to_string("/proc/net/unix").ok()?;
        return owner(&unix_inodes(&sockets, path));
    }
    let addr: SocketAddr = std::net::ToSocketAddrs::to_socket_addrs(address).ok()?.next()?;
    if !is_local(addr.ip()) {
        return None;
    }
    let tables = ["/proc/net/tcp", "/proc/net/tcp6"].map(|table| std::fs::read_to_string(table).unwrap_or_default());
    let inodes: Vec<u64> = tables.iter().flat_map(|table| tcp_inodes(table, addr.port())).collect();
    owner(&inodes)
}

/// Returns whether `ip` is an address of this host, by binding a socket to it.
fn is_local(ip: IpAddr) -> bool {
    std::net::UdpSocket::bind((ip, 0)).is_ok()
}

/// Returns the inodes of the sockets that listen on `port`.
pub fn tcp_inodes(table: &str, port: u16) -> Vec<u64> {
    let port = format!(":{port:04X}");
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = fields.filter(|fields| fields.len() > 9 && fields[1].ends_with(&port) && fields[3] == LISTEN);
    ours.filter_map(|fields| fields[9].parse().ok()).collect()
}

/// Returns the inodes of the sockets bound to `path`.
pub fn unix_inodes(table: &str, path: &str) -> Vec<u64> {
    let fields = table.lines().skip(1).map(|line| line.split_whitespace().collect::<Vec<_>>());
    let ours = fields.filter(|fields| fields.len() > 7 && fields[7] == path);
    ours.filter_map(|fields| fields[6].parse().ok()).collect()
}

fn owner(inodes: &[u64]) -> Option<u32> {
    if inodes.is_empty() {
        return None;
    }
    let wanted: Vec<String> = inodes.iter().map(|inode| format!("socket:[{inode}]")).collect();
    let processes = std::fs::read_dir("/proc").ok()?.flatten();
    let pids = processes.filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok());
    pids.take(PROCESSES_MAX).find(|pid| {
        let folder = format!("/proc/{pid}/fd");
        let Ok(links) = std::fs::read_dir(Path::new(&folder)) else { return false };
        links.flatten().any(|link| {
            let target = std::fs::read_link(link.path()).ok();
            target.is_some_and(|target| wanted.iter().any(|wanted| target.as_os_str() == wanted.as_str()))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::net::TcpListener;
    use std::os::unix::net::UnixListener;

    #[test]
    fn listening_process_is_found_by_port_and_by_path() {
        let tcp = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = tcp.local_addr().unwrap().to_string();
        assert_eq!(listener(&address), Some(std::process::id()));
        drop(tcp);
        let path = std::env::temp_dir().join(format!("gannet-locate-{}", std::process::id()));
        let _unix = UnixListener::bind(&path).unwrap();
        let found = listener(&format!("unix:{}", path.display()));
        std::fs::remove_file(&path).unwrap();
        assert_eq!(found, Some(std::process::id()));
    }

    #[test]
    fn an_address_elsewhere_has_no_process_here() {
        assert_eq!(listener("192.0.2.1:11211"), None);
        assert_eq!(listener("unix:/no/such/socket"), None);
        assert_eq!(listener("nonsense"), None);
    }

    #[test]
    fn only_sockets_that_listen_count() {
        let table = "  sl  local_address rem_address   st\n\
            0: 0100007F:2BCB 00000000:0000 0A 00000000:00000000 00:00000000 00000000 0 0 111 1 0\n\
            1: 0100007F:2BCB 0100007F:9999 01 00000000:00000000 00:00000000 00000000 0 0 222 1 0\n";
        assert_eq!(tcp_inodes(table, 11211), [111]);
    }
}
