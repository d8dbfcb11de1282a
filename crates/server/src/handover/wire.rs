//! The messages of a hand-over: one of text each, with descriptors; and what a connection had received, as bytes.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use io::listen::{ListenAddr, Listener, Stream};
use io::pass::{DESCRIPTORS_MAX, MESSAGE_BYTES_MAX, NAME_BYTES_MAX, Pass};
use serde_json::{Value, json};
use sha2::{Digest, Sha256};

use super::{Carried, Moved};

/// The version of these messages. Another one is refused.
pub(super) const PROTOCOL: u64 = 1;
/// How long the next message of a kind that needs no work is waited for.
pub(super) const PATIENCE: Duration = Duration::from_secs(5);
/// Connections that are told in one message: their texts fit, however long they are.
const TOLD_TOGETHER: usize = 32;

/// The name that is listened under for who wants to take over who listens at `addr`.
pub(super) fn name_of(addr: &ListenAddr) -> Vec<u8> {
    let place = match addr {
        ListenAddr::Tcp(addr) => format!("tcp/{addr}"),
        ListenAddr::Unix { path, .. } => {
            let path = path.canonicalize().unwrap_or_else(|_| path.clone());
            let digest = Sha256::digest(path.as_os_str().as_encoded_bytes());
            format!("unix/{}", digest.iter().map(|byte| format!("{byte:02x}")).collect::<String>())
        }
    };
    let name = format!("gannet-upgrade/{place}").into_bytes();
    assert!(name.len() <= NAME_BYTES_MAX, "a name of {} bytes", name.len());
    name
}

/// Sends a message of the kind `is`.
pub(super) fn say(pass: &Pass, is: &str, mut told: Value, descriptors: &[BorrowedFd<'_>]) -> Result<()> {
    told["is"] = json!(is);
    pass.send(told.to_string().as_bytes(), descriptors)
}

/// A message.
pub(super) struct Heard {
    pub(super) is: String,
    pub(super) told: Value,
    pub(super) descriptors: Vec<OwnedFd>,
}

/// The next message.
///
/// # Errors
/// `UnexpectedEof` when the other end is gone; `InvalidData` when it is none that there is.
pub(super) fn hear(pass: &Pass, patience: Duration) -> Result<Heard> {
    let message = pass.receive(patience)?.ok_or(ErrorKind::UnexpectedEof)?;
    let told: Value = serde_json::from_slice(&message.bytes).map_err(Error::other)?;
    let is = told["is"].as_str().unwrap_or_default().to_owned();
    Ok(Heard { is, told, descriptors: message.descriptors })
}

/// A listener's address as text.
pub(super) fn told_addr(addr: &ListenAddr) -> Value {
    match addr {
        ListenAddr::Tcp(addr) => json!({"tcp": addr.to_string()}),
        ListenAddr::Unix { path, mode } => json!({"unix": path.as_os_str().as_encoded_bytes(), "mode": mode}),
    }
}

/// The address that was told.
pub(super) fn addr_of(told: &Value) -> Option<ListenAddr> {
    use std::os::unix::ffi::OsStringExt;
    if let Some(addr) = told["tcp"].as_str() {
        return Some(ListenAddr::Tcp(addr.parse().ok()?));
    }
    let path: Vec<u8> = serde_json::from_value(told["unix"].clone()).ok()?;
    let mode = u32::try_from(told["mode"].as_u64()?).ok()?;
    Some(ListenAddr::Unix { path: PathBuf::from(std::ffi::OsString::from_vec(path)), mode })
}

/// Tells connections.
pub(super) fn say_connections(pass: &Pass, connections: &[Moved<Stream>]) -> Result<()> {
    for some in connections.chunks(TOLD_TOGETHER) {
        let told: Vec<Value> = some.iter().map(|moved| moved.carried.told()).collect();
        let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(|moved| moved.stream.as_fd()).collect();
        say(pass, "connections", json!({"connections": told}), &descriptors)?;
        let input: Vec<u8> = some.iter().flat_map(|moved| moved.carried.input.iter().copied()).collect();
        input.chunks(MESSAGE_BYTES_MAX).try_for_each(|part| pass.send(part, &[]))?;
    }
    Ok(())
}

/// The connections that a message tells, whose bytes follow it.
pub(super) fn hear_connections(pass: &Pass, heard: Heard) -> Result<Vec<Moved<Stream>>> {
    let broken = || Error::new(ErrorKind::InvalidData, "what it tells of its connections is not understood");
    let told = heard.told["connections"].as_array().ok_or_else(broken)?;
    let carried = told.iter().map(Carried::of).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
    if carried.len() != heard.descriptors.len() {
        return Err(broken());
    }
    let (mut input, mut connections) = (Vec::new(), Vec::new());
    let wanted: usize = carried.iter().map(|(_, bytes)| bytes).sum();
    while input.len() < wanted {
        input.extend(pass.receive(PATIENCE)?.ok_or(ErrorKind::UnexpectedEof)?.bytes);
    }
    let mut at = 0;
    for ((mut carried, bytes), fd) in carried.into_iter().zip(heard.descriptors) {
        carried.input = input.get(at..at + bytes).ok_or_else(broken)?.to_vec();
        at += bytes;
        // Who is gone meanwhile is no reason to stop.
        if let Ok(stream) = Stream::adopt(fd) {
            connections.push(Moved { stream, carried: Arc::new(carried) });
        }
    }
    Ok(connections)
}

/// Tells listeners, some at a time.
pub(super) fn say_listeners(pass: &Pass, listeners: &[Listener]) -> Result<()> {
    for some in listeners.chunks(DESCRIPTORS_MAX) {
        let told: Vec<Value> = some.iter().map(|listener| told_addr(listener.addr())).collect();
        let descriptors: Vec<BorrowedFd<'_>> = some.iter().map(AsFd::as_fd).collect();
        say(pass, "listeners", json!({"listeners": told}), &descriptors)?;
    }
    Ok(())
}

/// The listeners that a message tells.
pub(super) fn listeners_of(heard: Heard) -> Result<Vec<Listener>> {
    let broken = || Error::new(ErrorKind::InvalidData, "what it tells of its listeners is not understood");
    let told = heard.told["listeners"].as_array().ok_or_else(broken)?;
    let addrs = told.iter().map(addr_of).collect::<Option<Vec<_>>>().ok_or_else(broken)?;
    if addrs.len() != heard.descriptors.len() {
        return Err(broken());
    }
    Ok(heard.descriptors.into_iter().zip(addrs).map(|(fd, addr)| Listener::adopt(fd, addr)).collect())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_told_as_it_is_and_each_has_a_name_of_its_own() {
        let tcp = ListenAddr::Tcp(([127, 0, 0, 1], 11211).into());
        let long = "/x".repeat(90);
        let unix = ListenAddr::Unix { path: PathBuf::from(&long), mode: 0o700 };
        for addr in [&tcp, &unix] {
            assert_eq!(addr_of(&told_addr(addr)).as_ref(), Some(addr));
        }
        assert_eq!(name_of(&tcp), b"gannet-upgrade/tcp/127.0.0.1:11211");
        let other = ListenAddr::Unix { path: PathBuf::from(long + "y"), mode: 0o700 };
        assert_ne!(name_of(&unix), name_of(&other));
        assert_eq!(addr_of(&json!({"tcp": "nonsense"})), None);
    }
}
