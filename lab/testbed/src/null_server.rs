//! A server that only receives and sends bytes. Its cost is the lower limit for the cost of any server.
//!
//! Each request has a fixed number of lines, so the server finds requests by counting line ends. It sends the same
//! fixed bytes as the reply to each. It has one thread with epoll, and normally one `recv` and one `send` per readiness
//! event. It does not parse, hash or look up anything.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::os::fd::AsFd;

use rustix::event::epoll;

use crate::server::NullReply;

const READ_BYTES: usize = 64 * 1024;
/// Number of copies of the reply in the send buffer. A batch with more replies takes several sends.
const REPLIES_READY: usize = 4096;
const CONNECTIONS_MAX: usize = 4096;
const LISTENER: u64 = u64::MAX;

struct NullConnection {
    stream: TcpStream,
    /// Reply bytes not yet sent.
    owed_bytes: usize,
    /// Number of received lines of a request that is still incomplete.
    lines: usize,
    waits_for_room: bool,
}

/// Returns a reply of `bytes` bytes to a get of a 24-byte key. If `bytes` is too small for such a reply, returns a line
/// of that length.
pub fn fixed_reply(bytes: usize) -> Vec<u8> {
    let head = "VALUE key-00000000000000000000 0 200\r\n";
    let tail = "\r\nEND\r\n";
    if bytes < head.len() + tail.len() {
        return format!("{:+<1$}\r\n", "", bytes.saturating_sub(2)).into_bytes();
    }
    let value = bytes.saturating_sub(head.len() + tail.len());
    let mut reply = head.as_bytes().to_vec();
    reply.resize(head.len() + value, b'x');
    reply.extend_from_slice(tail.as_bytes());
    reply
}

/// Runs [`serve`] for the command `null-server`.
///
/// # Errors
/// A sentence with the reason, if the port cannot be bound or epoll fails.
pub fn run(port: u16, answer: NullReply) -> Result<bool, String> {
    let answer = NullReply { lines: answer.lines.max(1), ..answer };
    serve(port, answer).map_err(|error| error.to_string())
}

/// Serves until the process is ended.
///
/// # Errors
/// If the port cannot be bound, or if epoll fails.
pub fn serve(port: u16, answer: NullReply) -> std::io::Result<bool> {
    let listener = TcpListener::bind(("127.0.0.1", port))?;
    listener.set_nonblocking(true)?;
    let reply = fixed_reply(answer.bytes);
    let replies = reply.repeat(REPLIES_READY);
    let poll = epoll::create(epoll::CreateFlags::CLOEXEC)?;
    epoll::add(&poll, &listener, epoll::EventData::new_u64(LISTENER), epoll::EventFlags::IN)?;
    let mut connections: Vec<Option<NullConnection>> = Vec::with_capacity(CONNECTIONS_MAX);
    let mut buffer = vec![0; READ_BYTES];
    let mut events = Vec::with_capacity(1024);
    loop {
        events.clear();
        match epoll::wait(&poll, rustix::buffer::spare_capacity(&mut events), None) {
            Ok(_) => {}
            Err(rustix::io::Errno::INTR) => continue,
            Err(error) => return Err(error.into()),
        }
        for event in &events {
            if event.data.u64() == LISTENER {
                accept(&listener, &poll, &mut connections)?;
                continue;
            }
            let index = event.data.u64() as usize;
            let Some(connection) = connections[index].as_mut() else { continue };
            match serve_once(connection, &mut buffer, &replies, NullReply { bytes: reply.len(), ..answer }) {
                Ok(()) => watch(&poll, connection, index)?,
                Err(_) => connections[index] = None,
            }
        }
    }
}

fn accept(
    listener: &TcpListener,
    poll: &impl AsFd,
    connections: &mut Vec<Option<NullConnection>>,
) -> std::io::Result<()> {
    loop {
        let stream = match listener.accept() {
            Ok((stream, _)) => stream,
            Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
            Err(error) => return Err(error),
        };
        stream.set_nonblocking(true)?;
        stream.set_nodelay(true)?;
        let index = connections.iter().position(Option::is_none).unwrap_or(connections.len());
        epoll::add(poll, &stream, epoll::EventData::new_u64(index as u64), epoll::EventFlags::IN)?;
        let connection = Some(NullConnection { stream, owed_bytes: 0, lines: 0, waits_for_room: false });
        match connections.get_mut(index) {
            Some(place) => *place = connection,
            None => connections.push(connection),
        }
    }
}

/// Reads once, unless replies are still unsent, and then sends until all replies are sent or the socket's buffer is
/// full. An error means that the connection has ended.
fn serve_once(
    connection: &mut NullConnection,
    buffer: &mut [u8],
    replies: &[u8],
    NullReply { bytes: reply_bytes, lines }: NullReply,
) -> std::io::Result<()> {
    if connection.owed_bytes == 0 {
        match connection.stream.read(buffer) {
            Ok(0) => return Err(ErrorKind::UnexpectedEof.into()),
            Ok(n) => {
                connection.lines += memchr::memchr_iter(b'\n', &buffer[..n]).count();
                connection.owed_bytes += connection.lines / lines * reply_bytes;
                connection.lines %= lines;
            }
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) => return Err(error),
        }
    }
    while connection.owed_bytes > 0 {
        // If the last send ended within a reply, this send begins with the rest of that reply.
        let begin = (reply_bytes - connection.owed_bytes % reply_bytes) % reply_bytes;
        let end = replies.len().min(begin + connection.owed_bytes);
        match connection.stream.write(&replies[begin..end]) {
            Ok(n) => connection.owed_bytes -= n,
            Err(error) if error.kind() == ErrorKind::WouldBlock => break,
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

fn watch(poll: &impl AsFd, connection: &mut NullConnection, index: usize) -> std::io::Result<()> {
    let waits = connection.owed_bytes > 0;
    if waits != connection.waits_for_room {
        connection.waits_for_room = waits;
        let flags = if waits { epoll::EventFlags::OUT } else { epoll::EventFlags::IN };
        epoll::modify(poll, &connection.stream, epoll::EventData::new_u64(index as u64), flags)?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_reply_has_the_length_of_a_hit() {
        let reply = fixed_reply(245);
        assert_eq!(reply.len(), 245);
        assert!(reply.ends_with(b"\r\nEND\r\n"));
        assert_eq!(fixed_reply(5), b"+++\r\n");
        assert_eq!(memchr::memchr_iter(b'x', &reply).count(), 200);
    }

    #[test]
    fn a_long_batch_gets_one_reply_a_line() {
        let probe = TcpListener::bind("127.0.0.1:0").expect("a port").local_addr().expect("its address");
        std::thread::spawn(move || serve(probe.port(), NullReply { bytes: 245, lines: 1 }));
        let mut stream = (0..100)
            .find_map(|_| {
                std::thread::sleep(std::time::Duration::from_millis(20));
                TcpStream::connect(probe).ok()
            })
            .expect("the null server listens");
        let batch = b"get key-00000000000000000000\r\n".repeat(10_000);
        let mut writer = stream.try_clone().expect("a second handle");
        let writing = std::thread::spawn(move || writer.write_all(&batch));
        let mut reply = vec![0; 245 * 10_000];
        stream.read_exact(&mut reply).expect("every reply comes");
        writing.join().expect("no panic").expect("all was written");
        assert!(reply.chunks(245).all(|one| one == fixed_reply(245)));
    }
}
