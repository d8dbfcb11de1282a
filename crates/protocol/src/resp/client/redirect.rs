//! Cluster errors that redirect a request to another server.

use crate::number::{parse_u32, parse_u64};

/// The redirection `MOVED SLOT HOST:PORT` or `ASK SLOT HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'b> {
    /// The hash slot, below 16,384.
    pub slot: u16,
    /// The host. If it is empty, use the host that replied.
    pub host: &'b [u8],
    /// The port.
    pub port: u16,
    /// True for this request only, after `ASKING`; false for all later requests of the slot.
    pub once: bool,
}

impl<'b> Redirect<'b> {
    /// Parses the text of an error. Returns `None` if it is not a redirection.
    pub fn new(error: &'b [u8]) -> Option<Self> {
        let mut words = error.split(|byte| *byte == b' ');
        let once = match words.next()? {
            b"MOVED" => false,
            b"ASK" => true,
            _ => return None,
        };
        let slot = parse_u32(words.next()?).filter(|slot| *slot < 16_384)? as u16;
        let address = words.next()?;
        // An IPv6 address contains colons.
        let colon = address.iter().rposition(|byte| *byte == b':')?;
        let port = parse_u64(&address[colon + 1..]).and_then(|port| u16::try_from(port).ok())?;
        Some(Self { slot, host: &address[..colon], port, once })
    }
}
