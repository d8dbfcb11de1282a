//! The messages of a handover: each is a JSON text with file descriptors. The bytes of connections follow the text.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::time::Duration;

use io::listen::{AcceptedStream, ListenAddr, Listener};
use io::pass::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, Pass};
use serde_json::{Value, json};

use super::names::Names;
use super::{HandoverConnection, ReleasedConnection};
use crate::config::kinds::FlashPlace;

/// The version of these messages. Any other version is refused.
pub(super) const PROTOCOL: u64 = 2;
/// The time limit for a message that its sender can send without further work, and for socket room to send a message.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// The maximum number of connections in one message. The text that describes them always fits.
const CONNECTIONS_A_MESSAGE: usize = 32;

/// Sends a message of the kind `is`; see [`Pass::send`].
pub(super) fn send(pass: &Pass, is: &str, mut body: Value, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    body["is"] = json!(is);
    pass.send(body.to_string().as_bytes(), descriptors, PATIENCE)
}

/// A received message.
pub(super) struct ReceivedMessage {
    pub(super) is: String,
    pub(super) body: Value,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// Receives the next message.
///
/// # Errors
/// `UnexpectedEof` if the other end is closed; another kind if the wait fails or the message is not JSON.
pub(super) fn receive(pass: &Pass, patience: Duration) -> Result<ReceivedMessage> {
    let message = pass.receive(patience)?.ok_or(ErrorKind::UnexpectedEof)?;
    let body: Value = serde_json::from_slice(&message.bytes).map_err(Error::other)?;
    let is = body["is"].as_str().unwrap_or_default().to_owned();
    Ok(ReceivedMessage { is, body, descriptors: message.descriptors })
}

/// Encodes a listener's address as JSON.
pub(super) fn addr_json(addr: &ListenAddr) -> Value {
    match addr {
        ListenAddr::Tcp(addr) => json!({"tcp": addr.to_string()}),
        ListenAddr::Unix { path, mode } => json!({"unix": path.as_os_str().as_encoded_bytes(), "mode": mode}),
    }
}

/// Encodes a device of the second tier as JSON.
pub(super) fn device_json(place: &FlashPlace) -> Value {
    json!({"path": place.path.display().to_string(), "bytes": place.size.0})
}

/// Decodes a listener's address.
pub(super) fn addr_of(body: &Value) -> Option<ListenAddr> {
    use std::os::unix::ffi::OsStringExt;
    if let Some(addr) = body["tcp"].as_str() {
        return Some(ListenAddr::Tcp(addr.parse().ok()?));
    }
    let path: Vec<u8> = serde_json::from_value(body["unix"].clone()).ok()?;
    let mode = u32::try_from(body["mode"].as_u64()?).ok()?;
    Some(ListenAddr::Unix { path: PathBuf::from(std::ffi::OsString::from_vec(path)), mode })
}

/// Sends connections with their state.
pub(super) fn send_connections(pass: &Pass, connections: &[ReleasedConnection<AcceptedStream>]) -> Result<()> {
    for some in connections.chunks(CONNECTIONS_A_MESSAGE) {
        let (heads, bytes): (Vec<Value>, Vec<Vec<u8>>) = some.iter().map(|moved| moved.carried.encode()).unzip();
        let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|moved| moved.stream.as_fd()).collect();
        send(pass, "connections", json!({"connections": heads}), &descriptors)?;
        send_bytes(pass, &bytes.concat())?;
    }
    Ok(())
}

/// Sends bytes in as many messages as necessary. The receiver knows the number of bytes in advance.
pub(super) fn send_bytes(pass: &Pass, bytes: &[u8]) -> Result<()> {
    bytes.chunks(MESSAGE_BYTES_MAX).try_for_each(|part| pass.send(part, &[], PATIENCE))
}

/// Receives exactly `wanted` bytes, which [`send_bytes`] sent.
pub(super) fn receive_bytes(pass: &Pass, wanted: usize) -> Result<Vec<u8>> {
    let mut bytes = Vec::new();
    while bytes.len() < wanted {
        bytes.extend(pass.receive(PATIENCE)?.ok_or(ErrorKind::UnexpectedEof)?.bytes);
    }
    Ok(bytes)
}

/// Decodes the connections in a message, and receives the bytes that follow it.
pub(super) fn receive_connections(
    pass: &Pass,
    heard: ReceivedMessage,
) -> Result<Vec<ReleasedConnection<AcceptedStream>>> {
    let broken = || Error::new(ErrorKind::InvalidData, "the description of its connections is malformed");
    let body = heard.body["connections"].as_array().ok_or_else(broken)?;
    let carried = body.iter().map(HandoverConnection::decode_head).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
    if carried.len() != heard.descriptors.len() {
        return Err(broken());
    }
    let mut connections = Vec::new();
    let bytes = receive_bytes(pass, carried.iter().flat_map(|(_, lengths)| lengths).sum())?;
    let mut rest = &bytes[..];
    for ((mut carried, lengths), fd) in carried.into_iter().zip(heard.descriptors) {
        let own = rest.split_off(..lengths.iter().sum()).ok_or_else(broken)?;
        carried.decode_bytes(own, lengths).ok_or_else(broken)?;
        // A client that has disconnected meanwhile does not stop the handover.
        if let Ok(stream) = AcceptedStream::adopt(fd) {
            connections.push(ReleasedConnection::received(stream, carried));
        }
    }
    Ok(connections)
}

/// Sends descriptors that each belong to an address, in as many messages of the kind `is` as necessary.
fn send_descriptors<'a>(
    pass: &Pass,
    is: &str,
    places: impl Iterator<Item = (&'a ListenAddr, BorrowedFd<'a>)>,
) -> Result<()> {
    let places: Vec<_> = places.collect();
    for some in places.chunks(DESCRIPTORS_MAX) {
        let body: Vec<Value> = some.iter().map(|(addr, _)| addr_json(addr)).collect();
        let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|(_, fd)| *fd).collect();
        send(pass, is, json!({"addrs": body}), &descriptors)?;
    }
    Ok(())
}

/// Returns the descriptors of a message, each with its address.
fn places_of(heard: ReceivedMessage) -> Result<impl Iterator<Item = (OwnedFd, ListenAddr)>> {
    let broken = || Error::new(ErrorKind::InvalidData, "the description of its listeners is malformed");
    let body = heard.body["addrs"].as_array().ok_or_else(broken)?;
    let addrs = body.iter().map(addr_of).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
    if addrs.len() != heard.descriptors.len() {
        return Err(broken());
    }
    Ok(heard.descriptors.into_iter().zip(addrs))
}

/// Sends the sockets of listeners, each with its address.
pub(super) fn send_listeners(pass: &Pass, listeners: &[Listener]) -> Result<()> {
    send_descriptors(pass, "listeners", listeners.iter().map(|listener| (listener.addr(), listener.as_fd())))
}

/// Decodes the listeners in a message.
pub(super) fn listeners_of(heard: ReceivedMessage) -> Result<Vec<Listener>> {
    Ok(places_of(heard)?.map(|(fd, addr)| Listener::adopt(fd, addr)).collect())
}

/// Sends the abstract sockets by which a new process finds the server.
pub(super) fn send_names(pass: &Pass, names: &Names) -> Result<()> {
    send_descriptors(pass, "names", names.listed())
}

/// Decodes the abstract sockets in a message.
pub(super) fn names_of(heard: ReceivedMessage) -> Result<Names> {
    Ok(Names::adopt(places_of(heard)?))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_round_trip() {
        let tcp = ListenAddr::Tcp(([127, 0, 0, 1], 11211).into());
        let unix = ListenAddr::Unix { path: PathBuf::from("/x".repeat(90)), mode: 0o700 };
        for addr in [&tcp, &unix] {
            assert_eq!(addr_of(&addr_json(addr)).as_ref(), Some(addr));
        }
        assert_eq!(addr_of(&json!({"tcp": "nonsense"})), None);
    }
}
