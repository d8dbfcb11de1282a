//! A client of the kernel's generic netlink: looks a family up by name, sends requests and reads attributes. Also lists
//! the queueing disciplines of the interfaces, by the kernel's routing netlink.
//!
//! ```text
//!   message   | length u32 | type u16 | flags u16 | sequence u32 | port u32 |
//!             | command u8 | version u8 | 0 u16 | attributes
//!   attribute | length u16 | kind u16 | payload, padded to 4 bytes |   the length includes the header, not the padding
//! ```
//! All numbers are in the byte order of the machine. Source: linux/netlink.h, linux/genetlink.h, linux/rtnetlink.h.
//!
//! Invariants: a message is accepted as the reply only if it has the request's sequence number. A message that is
//! shorter than its length field is refused.

use std::io::{Error, ErrorKind, Result};
use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::net::{AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, netlink, recv, send, socket_with};

/// Size of a message's header in bytes. The generic netlink header follows it.
const HEAD_BYTES: usize = 16;
const GENERIC_BYTES: usize = 4;
const ATTRIBUTE_BYTES: usize = 4;
/// Maximum size of a reply in bytes. Replies to the doctor's requests are much shorter.
const ANSWER_BYTES_MAX: usize = 32 << 10;
/// Maximum number of unrelated messages to skip before the reply to a request.
const OTHERS_MAX: u32 = 64;
/// The receive timeout. The kernel replies at once.
const PATIENCE: Duration = Duration::from_secs(2);

const REQUEST: u16 = 1;
/// The flag that requests an acknowledgement, even if the reply has no data.
const ACKNOWLEDGE: u16 = 4;
/// The type of a message that reports an error; code 0 means success.
const ERROR: u16 = 2;
/// The family that resolves other families by name.
const CONTROL: u16 = 16;
const GET_FAMILY: u8 = 3;
const FAMILY_ID: u16 = 1;
const FAMILY_NAME: u16 = 2;
/// The bits of an attribute's type that hold its number. The other bits describe the payload.
const KIND: u16 = 0x3fff;
/// The flag of an attribute whose payload is attributes.
pub const NESTED: u16 = 1 << 15;

/// A family of generic netlink messages, for example `ethtool`.
#[derive(Debug)]
pub struct Family {
    socket: OwnedFd,
    id: u16,
    sequence: u32,
    buffer: Vec<u8>,
}

/// Encodes an attribute, padded to 4 bytes.
pub fn attribute(kind: u16, payload: &[u8]) -> Vec<u8> {
    let length = u16::try_from(ATTRIBUTE_BYTES + payload.len()).expect("what is asked is short");
    let mut bytes = [length.to_ne_bytes(), kind.to_ne_bytes()].concat();
    bytes.extend_from_slice(payload);
    bytes.resize(bytes.len().next_multiple_of(4), 0);
    bytes
}

/// Returns the attributes in a payload, each with its kind. The iterator ends at an incomplete attribute.
pub fn attributes(mut bytes: &[u8]) -> impl Iterator<Item = (u16, &[u8])> {
    std::iter::from_fn(move || {
        let length = usize::from(u16::from_ne_bytes(bytes.first_chunk().copied()?));
        let kind = u16::from_ne_bytes(bytes.get(2..4)?.try_into().ok()?) & KIND;
        let payload = bytes.get(ATTRIBUTE_BYTES..length)?;
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
        Some((kind, payload))
    })
}

/// Returns the payload of the first attribute of a kind.
pub fn find(bytes: &[u8], kind: u16) -> Option<&[u8]> {
    attributes(bytes).find_map(|(known, payload)| (known == kind).then_some(payload))
}

/// Returns the 32-bit number in the first attribute of a kind.
pub fn number(bytes: &[u8], kind: u16) -> Option<u32> {
    find(bytes, kind)?.try_into().ok().map(u32::from_ne_bytes)
}

/// A queueing discipline of an interface.
#[derive(Debug, PartialEq, Eq)]
pub struct Qdisc {
    /// The number of the interface.
    pub interface: i32,
    /// True if it is the root of its interface, and false if it is below another one, as that of a device's queue is.
    pub is_root: bool,
    /// Its name, as in `fq`.
    pub kind: String,
}

/// The flags of a request for all objects.
const DUMP: u16 = 0x300;
/// The type of a message that ends a list.
const DONE: u16 = 3;
const GET_QDISC: u16 = 38;
const QDISC: u16 = 36;
/// Size of the header that follows the message's header in messages about queueing disciplines, in bytes.
const TRAFFIC_BYTES: usize = 20;
/// The parent of a root.
const ROOT: u32 = u32::MAX;
const QDISC_KIND: u16 = 1;

/// Returns the queueing disciplines of all interfaces of this network namespace.
///
/// # Errors
/// If the kernel returns an error or its reply cannot be parsed.
pub fn qdiscs() -> Result<Vec<Qdisc>> {
    // Without a protocol, the socket is one of the routing netlink, whose number is 0.
    let socket = socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, None)?;
    rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))?;
    let mut message = ((HEAD_BYTES + TRAFFIC_BYTES) as u32).to_ne_bytes().to_vec();
    message.extend([GET_QDISC.to_ne_bytes(), (REQUEST | DUMP).to_ne_bytes()].concat());
    message.extend([1u32.to_ne_bytes(), [0; 4]].concat());
    message.resize(HEAD_BYTES + TRAFFIC_BYTES, 0);
    send(&socket, &message, SendFlags::empty())?;
    let (mut found, mut buffer) = (Vec::new(), vec![0; ANSWER_BYTES_MAX]);
    for _ in 0..QDISC_PARTS_MAX {
        let (bytes, _) = recv(&socket, &mut buffer[..], RecvFlags::empty())?;
        if qdiscs_in(&buffer[..bytes], &mut found)? {
            return Ok(found);
        }
    }
    Err(garbage())
}

/// Maximum number of parts of the list of queueing disciplines.
const QDISC_PARTS_MAX: u32 = 4096;

/// Adds the queueing disciplines of one part of the list to `found`. Returns true if the part ends the list.
fn qdiscs_in(mut bytes: &[u8], found: &mut Vec<Qdisc>) -> Result<bool> {
    while !bytes.is_empty() {
        let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or_else(garbage);
        let length = u32::from_ne_bytes(word(0)?) as usize;
        let message = bytes.get(HEAD_BYTES..length).ok_or_else(garbage)?;
        let kind = u16::from_ne_bytes([bytes[4], bytes[5]]);
        match kind {
            DONE => return Ok(true),
            ERROR => return Err(Error::from_raw_os_error(i32::from_ne_bytes(word(HEAD_BYTES)?).saturating_neg())),
            QDISC => {
                let interface = i32::from_ne_bytes(word(HEAD_BYTES + 4)?);
                let parent = u32::from_ne_bytes(word(HEAD_BYTES + 12)?);
                let name = find(message.get(TRAFFIC_BYTES..).ok_or_else(garbage)?, QDISC_KIND).ok_or_else(garbage)?;
                let kind = String::from_utf8_lossy(name).trim_end_matches('\0').to_owned();
                found.push(Qdisc { interface, is_root: parent == ROOT, kind });
            }
            _ => {}
        }
        bytes = bytes.get(length.next_multiple_of(4)..).unwrap_or_default();
    }
    Ok(false)
}

fn garbage() -> Error {
    Error::new(ErrorKind::InvalidData, "cannot parse the kernel's reply")
}

impl Family {
    /// Opens the family of this name.
    ///
    /// # Errors
    /// If the kernel has no family of this name, or netlink sockets are not available.
    pub fn open(name: &str) -> Result<Self> {
        let socket =
            socket_with(AddressFamily::NETLINK, SocketType::RAW, SocketFlags::CLOEXEC, Some(netlink::GENERIC))?;
        rustix::net::sockopt::set_socket_timeout(&socket, rustix::net::sockopt::Timeout::Recv, Some(PATIENCE))?;
        let mut family = Self { socket, id: CONTROL, sequence: 0, buffer: vec![0; ANSWER_BYTES_MAX] };
        let asked = attribute(FAMILY_NAME, &[name.as_bytes(), b"\0"].concat());
        let id = find(family.request(GET_FAMILY, &asked)?, FAMILY_ID).and_then(|id| id.try_into().ok());
        family.id = u16::from_ne_bytes(id.ok_or_else(garbage)?);
        Ok(family)
    }

    /// Sends a request and returns the attributes of the reply.
    ///
    /// # Errors
    /// If the kernel returns an error or the reply cannot be parsed.
    pub fn request(&mut self, command: u8, attributes: &[u8]) -> Result<&[u8]> {
        self.send(command, REQUEST, attributes)?;
        self.answer()
    }

    /// Sends a command and waits for its acknowledgement.
    ///
    /// # Errors
    /// If the kernel returns an error or the reply cannot be parsed.
    pub fn execute(&mut self, command: u8, attributes: &[u8]) -> Result<()> {
        self.send(command, REQUEST | ACKNOWLEDGE, attributes)?;
        self.answer().map(drop)
    }

    fn send(&mut self, command: u8, flags: u16, attributes: &[u8]) -> Result<()> {
        self.sequence += 1;
        let length = (HEAD_BYTES + GENERIC_BYTES + attributes.len()) as u32;
        let mut message = length.to_ne_bytes().to_vec();
        message.extend([self.id.to_ne_bytes(), flags.to_ne_bytes()].concat());
        message.extend([self.sequence.to_ne_bytes(), [0; 4]].concat());
        message.extend([command, 1, 0, 0]);
        message.extend_from_slice(attributes);
        send(&self.socket, &message, SendFlags::empty())?;
        Ok(())
    }

    /// Receives the reply to the last request.
    fn answer(&mut self) -> Result<&[u8]> {
        for _ in 0..OTHERS_MAX {
            let (bytes, _) = recv(&self.socket, &mut self.buffer[..], RecvFlags::empty())?;
            if let Some(range) = answer_in(&self.buffer[..bytes], self.sequence)? {
                return Ok(&self.buffer[range]);
            }
        }
        Err(garbage())
    }
}

/// Returns the range of the reply's attributes within the received bytes; `None` if it replies to another request.
fn answer_in(bytes: &[u8], sequence: u32) -> Result<Option<std::ops::Range<usize>>> {
    let word = |at: usize| bytes.get(at..at + 4).and_then(|word| word.try_into().ok()).ok_or_else(garbage);
    let length = u32::from_ne_bytes(word(0)?) as usize;
    if u32::from_ne_bytes(word(8)?) != sequence {
        return Ok(None);
    }
    if bytes.get(4..6) == Some(&ERROR.to_ne_bytes()) {
        return match i32::from_ne_bytes(word(HEAD_BYTES)?) {
            0 => Ok(Some(0..0)),
            code => Err(Error::from_raw_os_error(code.saturating_neg())),
        };
    }
    let attributes = HEAD_BYTES + GENERIC_BYTES..length;
    if attributes.start > attributes.end || attributes.end > bytes.len() {
        return Err(garbage());
    }
    Ok(Some(attributes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn netlink_attributes_parse_back_and_stop_at_a_truncated_attribute() {
        let bytes = [attribute(3, b"abc"), attribute(7 | NESTED, &attribute(1, &5u32.to_ne_bytes()))].concat();
        assert_eq!(bytes.len(), 8 + 12);
        assert_eq!(find(&bytes, 3), Some(&b"abc"[..]));
        assert_eq!(find(&bytes, 7).and_then(|inner| number(inner, 1)), Some(5));
        assert_eq!((number(&bytes, 3), find(&bytes, 9)), (None, None));
        for end in 0..bytes.len() {
            let count = attributes(&bytes[..end]).count();
            assert_eq!(count, usize::from(end >= 7), "{end}");
        }
        // Without a check, a length below the length of the header would make the parser loop for ever.
        assert_eq!(attributes(&[0, 0, 1, 0, 0, 0, 1, 0]).count(), 0);
    }

    #[test]
    fn truncated_netlink_reply_is_an_error() {
        let mut message = vec![0; 24];
        message[0] = 24;
        message[8] = 9;
        assert_eq!(answer_in(&message, 9).unwrap(), Some(20..24));
        assert_eq!(answer_in(&message, 8).unwrap(), None);
        assert!(answer_in(&message[..23], 9).is_err() && answer_in(&message[..10], 9).is_err());
        message[0] = 19;
        assert!(answer_in(&message, 9).is_err());
        (message[4], message[16]) = (2, 0);
        assert_eq!(answer_in(&message, 9).unwrap(), Some(0..0));
        message[16..20].copy_from_slice(&(-1i32).to_ne_bytes());
        assert_eq!(answer_in(&message, 9).unwrap_err().raw_os_error(), Some(1));
    }

    #[test]
    fn list_of_queueing_disciplines_is_parsed_in_parts_and_ends_with_its_last_message() {
        let message = |kind: u16, interface: i32, parent: u32, name: &[u8]| {
            let body = [[0; 4], interface.to_ne_bytes(), [0; 4], parent.to_ne_bytes(), [0; 4]].concat();
            let body = [body, attribute(QDISC_KIND, name), attribute(9, b"more")].concat();
            let head = [&((HEAD_BYTES + body.len()) as u32).to_ne_bytes()[..], &kind.to_ne_bytes(), &[0; 10]].concat();
            [head, body].concat()
        };
        let part = [message(QDISC, 4, ROOT, b"mq\0"), message(QDISC, 4, 1, b"fq_codel\0")].concat();
        let mut found = Vec::new();
        assert!(!qdiscs_in(&part, &mut found).unwrap());
        assert!(qdiscs_in(&message(DONE, 0, 0, b""), &mut found).unwrap());
        let of = |is_root, kind: &str| Qdisc { interface: 4, is_root, kind: kind.to_owned() };
        assert_eq!(found, [of(true, "mq"), of(false, "fq_codel")]);
        let first = message(QDISC, 4, ROOT, b"mq\0").len();
        for end in (1..part.len()).filter(|end| *end != first) {
            assert!(qdiscs_in(&part[..end], &mut Vec::new()).is_err(), "{end} bytes");
        }
        assert!(qdiscs_in(&message(ERROR, 0, 0, b""), &mut Vec::new()).is_err());
        let Ok(here) = qdiscs() else {
            eprintln!("skipped: no routing netlink here");
            return;
        };
        assert!(here.iter().all(|qdisc| !qdisc.kind.is_empty() && qdisc.interface > 0), "{here:?}");
    }

    #[test]
    fn netlink_family_is_found_by_name_and_an_unknown_family_is_an_error() {
        let Ok(mut family) = Family::open("nlctrl") else {
            eprintln!("skipped: no generic netlink here");
            return;
        };
        assert_eq!(family.id, CONTROL);
        let name = attribute(FAMILY_NAME, b"none such\0");
        assert_eq!(family.request(GET_FAMILY, &name).unwrap_err().kind(), ErrorKind::NotFound);
        assert!(Family::open("none such").is_err());
    }
}
