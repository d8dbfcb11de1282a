//! Errors of a cluster that say where to ask.

use crate::number::{parse_u32, parse_u64};

/// `MOVED SLOT HOST:PORT` or `ASK SLOT HOST:PORT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Redirect<'b> {
    /// The hash slot, below 16,384.
    pub slot: u16,
    /// The host; empty: the one that was asked.
    pub host: &'b [u8],
    /// The port.
    pub port: u16,
    /// For this request alone, after `ASKING`; else from now on.
    pub once: bool,
}

impl<'b> Redirect<'b> {
    /// Reads the text of an error, which is `None` if it says something else.
    pub fn new(error: &'b [u8]) -> Option<Self> {
        let mut words = error.split(|byte| *byte == b' ');
        let once = match words.next()? {
            b"MOVED" => false,
            b"ASK" => true,
            _ => return None,
        };
        let slot = parse_u32(words.next()?).filter(|slot| *slot < 16_384)? as u16;
        let address = words.next()?;
        // An address of version 6 has colons in it.
        let colon = address.iter().rposition(|byte| *byte == b':')?;
        let port = parse_u64(&address[colon + 1..]).and_then(|port| u16::try_from(port).ok())?;
        Some(Self { slot, host: &address[..colon], port, once })
    }
}
