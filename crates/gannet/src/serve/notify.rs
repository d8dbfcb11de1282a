//! Reports the server's state to the service manager, as sd_notify(3) of systemd does: one datagram for each state, to
//! the socket that `NOTIFY_SOCKET` names. Without that variable, nothing is sent.

use std::ffi::OsStr;
use std::io::{Error, ErrorKind, Result};
use std::os::linux::net::SocketAddrExt;
use std::os::unix::ffi::OsStrExt;
use std::os::unix::net::{SocketAddr, UnixDatagram};
use std::sync::OnceLock;
use std::time::Duration;

/// The environment variable with the path of the socket, or `@` and the name of an abstract socket.
const SOCKET: &str = "NOTIFY_SOCKET";
/// The time limit for a service manager that does not read its socket.
const PATIENCE: Duration = Duration::from_secs(1);

/// Creates the socket, if there is a service manager. In a sandbox, the process can create none once it serves.
pub fn open() {
    if std::env::var_os(SOCKET).is_some_and(|name| !name.is_empty()) {
        // The first report logs the error.
        let _ = socket();
    }
}

/// Reports that clients can connect, and that this process is the main process of the service.
pub fn ready() {
    notify(&format!("READY=1\nMAINPID={}\nSTATUS=serving", std::process::id()));
}

/// Reports that the server stops.
pub fn stopping() {
    notify("STOPPING=1\nSTATUS=stopping");
}

/// Reports that another process has taken over, and is the main process of the service now.
pub fn taken_over(pid: u32) {
    notify(&format!("MAINPID={pid}"));
}

/// Sends a state. If that fails, logs a warning: the service manager then acts as if the state had not been reached.
fn notify(state: &str) {
    let Some(name) = std::env::var_os(SOCKET).filter(|name| !name.is_empty()) else { return };
    if let Err(error) = send(&name, state) {
        let name = name.display();
        tracing::warn!("cannot notify the service manager at {name}: {error}; unset {SOCKET} if there is none");
    }
}

fn send(name: &OsStr, state: &str) -> Result<()> {
    let socket = socket()?;
    socket.set_write_timeout(Some(PATIENCE))?;
    socket.send_to_addr(state.as_bytes(), &address(name)?).map(drop)
}

/// Returns the socket, which is created by the first call.
fn socket() -> Result<&'static UnixDatagram> {
    static OPENED: OnceLock<UnixDatagram> = OnceLock::new();
    match OPENED.get() {
        Some(socket) => Ok(socket),
        None => UnixDatagram::unbound().map(|socket| OPENED.get_or_init(|| socket)),
    }
}

fn address(name: &OsStr) -> Result<SocketAddr> {
    match name.as_bytes() {
        [b'@', name @ ..] => SocketAddr::from_abstract_name(name),
        [b'/', ..] => SocketAddr::from_pathname(name),
        _ => Err(Error::new(ErrorKind::Unsupported, "neither a path nor the name of an abstract socket")),
    }
}
