//! A server of fixed frames: `null-grpc PORT REPLY_BYTES`. Its cost is the lower limit for any gRPC server.
//!
//! It finds the ends of requests by the heads of frames, and replies to each with the same header block, message of
//! `REPLY_BYTES` bytes and trailers, in one send a receive. It decodes no header fields, and keeps no state of streams.

use rustix::event::epoll;
use std::collections::HashMap;
use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};

const DATA: u8 = 0;
const HEADERS: u8 = 1;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const END_STREAM: u8 = 1;
const ACK: u8 = 1;
const END_HEADERS: u8 = 4;
const HEAD_BYTES: usize = 9;
const LISTENER: u64 = u64::MAX;
const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// The received bytes after which the connection's window is opened again.
const WINDOW_BYTES: usize = 1 << 20;

struct PeerConnection {
    stream: TcpStream,
    received: Vec<u8>,
    unsent: Vec<u8>,
    has_begun: bool,
    /// The received bytes of DATA since the connection's window was last opened.
    uncounted: usize,
    waits_for_room: bool,
}

fn frame(out: &mut Vec<u8>, kind: u8, flags: u8, stream: u32, payload: &[u8]) {
    out.extend_from_slice(&(payload.len() as u32).to_be_bytes()[1..]);
    out.extend_from_slice(&[kind, flags]);
    out.extend_from_slice(&stream.to_be_bytes());
    out.extend_from_slice(payload);
}

/// Returns a field that no table stores, as HPACK encodes it without Huffman's code.
fn field(name: &str, value: &str) -> Vec<u8> {
    [&[0, name.len() as u8][..], name.as_bytes(), &[value.len() as u8], value.as_bytes()].concat()
}

impl PeerConnection {
    fn new(stream: TcpStream) -> Self {
        let (received, unsent) = (Vec::new(), Vec::new());
        Self { stream, received, unsent, has_begun: false, uncounted: 0, waits_for_room: false }
    }

    /// Replies to all complete requests in the received bytes.
    fn reply(&mut self, reply: &dyn Fn(&mut Vec<u8>, u32)) {
        let mut at = 0;
        if !self.has_begun {
            if self.received.len() < PREFACE.len() {
                return;
            }
            at = PREFACE.len();
            self.has_begun = true;
            frame(&mut self.unsent, SETTINGS, 0, 0, &[0, 3, 0, 0, 0, 100]);
            frame(&mut self.unsent, WINDOW_UPDATE, 0, 0, &(1u32 << 30).to_be_bytes());
        }
        while let Some(head) = self.received.get(at..at + HEAD_BYTES) {
            let len = u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize;
            let (kind, flags) = (head[3], head[4]);
            let stream = u32::from_be_bytes([head[5], head[6], head[7], head[8]]);
            let Some(payload) = self.received.get(at + HEAD_BYTES..at + HEAD_BYTES + len) else { break };
            match kind {
                SETTINGS if flags & ACK == 0 => frame(&mut self.unsent, SETTINGS, ACK, 0, &[]),
                PING if flags & ACK == 0 => frame(&mut self.unsent, PING, ACK, 0, payload),
                DATA | HEADERS if flags & END_STREAM != 0 => reply(&mut self.unsent, stream),
                _ => {}
            }
            self.uncounted += if kind == DATA { len } else { 0 };
            at += HEAD_BYTES + len;
        }
        if self.uncounted >= WINDOW_BYTES {
            frame(&mut self.unsent, WINDOW_UPDATE, 0, 0, &(self.uncounted as u32).to_be_bytes());
            self.uncounted = 0;
        }
        self.received.drain(..at);
    }

    /// Receives once, replies, and sends what the socket accepts.
    fn serve(&mut self, buffer: &mut [u8], reply: &dyn Fn(&mut Vec<u8>, u32)) -> std::io::Result<()> {
        match self.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(read) => {
                self.received.extend_from_slice(&buffer[..read]);
                self.reply(reply);
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
        while !self.unsent.is_empty() {
            match self.stream.write(&self.unsent) {
                Ok(sent) => drop(self.unsent.drain(..sent)),
                Err(error) if error.kind() == ErrorKind::WouldBlock => break,
                Err(error) => return Err(error),
            }
        }
        Ok(())
    }
}

fn main() -> std::io::Result<()> {
    let mut arguments = std::env::args().skip(1).map(|argument| argument.parse::<u32>().expect("a number"));
    let (Some(port), Some(bytes)) = (arguments.next(), arguments.next()) else {
        panic!("usage: null-grpc PORT REPLY_BYTES");
    };
    // 0x88 is `:status: 200` of the static table.
    let begin = [vec![0x88], field("content-type", "application/grpc")].concat();
    let end = field("grpc-status", "0");
    let message = [&[0][..], &bytes.to_be_bytes(), &vec![b'x'; bytes as usize]].concat();
    let reply = move |out: &mut Vec<u8>, stream: u32| {
        frame(out, HEADERS, END_HEADERS, stream, &begin);
        frame(out, DATA, 0, stream, &message);
        frame(out, HEADERS, END_HEADERS | END_STREAM, stream, &end);
    };
    let listener = TcpListener::bind(("127.0.0.1", port as u16))?;
    listener.set_nonblocking(true)?;
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let (mut connections, mut next) = (HashMap::<u64, PeerConnection>::new(), 0);
    let (mut buffer, mut events) = (vec![0; 64 << 10], Vec::with_capacity(1024));
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            let number = event.data.u64();
            if number == LISTENER {
                while let Ok((stream, _)) = listener.accept() {
                    stream.set_nonblocking(true)?;
                    stream.set_nodelay(true)?;
                    epoll::add(&poll, &stream, epoll::EventData::new_u64(next), epoll::EventFlags::IN)?;
                    connections.insert(next, PeerConnection::new(stream));
                    next += 1;
                }
                continue;
            }
            let Some(connection) = connections.get_mut(&number) else { continue };
            // A closed socket leaves the set.
            if connection.serve(&mut buffer, &reply).is_err() {
                connections.remove(&number);
                continue;
            }
            let waits = !connection.unsent.is_empty();
            if std::mem::replace(&mut connection.waits_for_room, waits) != waits {
                let flags = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
                epoll::modify(&poll, &connection.stream, epoll::EventData::new_u64(number), flags)?;
            }
        }
    }
}
