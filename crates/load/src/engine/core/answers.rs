//! Handles events and received bytes, and matches replies with their requests in order.

use super::streams::match_streams;
use super::{Core, Pacing, RECEIVES_MAX, RETAINED_BYTES_MAX, fault_name};
use crate::engine::connection::ConnectionState;
use crate::engine::net::{Net, NetEvent};
use crate::measure::{EndedRequest, Fate};
use crate::traffic::{ReplyOutcome, ReplyProgress, Traffic};
use link::Moved;

/// Name of the fault of a connection whose greeting got an error.
pub(crate) const GREETING_REFUSED: &str = "greeting-refused";

/// The reason why the bytes received on a connection cannot be parsed further.
pub(super) enum Unread {
    /// The bytes from this offset on are not a reply, for this reason.
    Garbage(usize, &'static str),
    /// The server replied with an error to the connection's greeting.
    Refused(String),
}

impl<N: Net, T: Traffic> Core<'_, N, T> {
    pub(super) fn handle(&mut self, event: NetEvent) {
        let index = event.connection;
        match self.connections[index].state {
            ConnectionState::Waiting => {}
            ConnectionState::Connecting => {
                if event.writable || event.readable {
                    let made = self.net.finish_connect(index);
                    let now_ns = self.net.now_ns();
                    self.connect_went(index, made, now_ns);
                }
            }
            ConnectionState::Greeting | ConnectionState::Up => {
                if event.writable {
                    self.connections[index].blocked = false;
                    self.send(index);
                }
                if event.readable {
                    self.receive(index);
                }
                if event.writable {
                    let now_ns = self.net.now_ns();
                    self.queue(index, now_ns);
                }
            }
        }
    }

    pub(super) fn receive(&mut self, index: usize) {
        if !matches!(self.connections[index].state, ConnectionState::Greeting | ConnectionState::Up) {
            return;
        }
        let mut buffer = std::mem::take(&mut self.buffer);
        for _ in 0..RECEIVES_MAX {
            let moved = self.net.receive(index, &mut buffer);
            let now_ns = self.net.now_ns();
            match moved {
                Moved::Bytes(bytes) => {
                    self.recorder.bytes_in(now_ns, bytes as u64);
                    if !matches!(self.pacing, Pacing::Blind(_))
                        || self.connections[index].state == ConnectionState::Greeting
                    {
                        self.take(index, &buffer[..bytes], now_ns);
                    }
                    let is_open =
                        matches!(self.connections[index].state, ConnectionState::Greeting | ConnectionState::Up);
                    if bytes == buffer.len() && is_open {
                        continue;
                    }
                }
                Moved::Blocked => {}
                Moved::Closed => self.lose(index, now_ns, "closed-by-server", "the server closed the connection"),
                Moved::Broken(error) => self.lose(index, now_ns, fault_name(&error), &error.to_string()),
            }
            break;
        }
        self.buffer = buffer;
    }

    /// Parses replies from the stored bytes, followed by the new bytes `come`.
    pub(super) fn take(&mut self, index: usize, come: &[u8], now_ns: u64) {
        let mut kept = std::mem::take(&mut self.connections[index].kept);
        let had_kept = !kept.is_empty();
        if had_kept {
            kept.extend_from_slice(come);
        }
        let bytes = if had_kept { &kept[..] } else { come };
        let matched = match self.traffic.is_multiplexed() {
            true => match_streams(self, index, bytes, now_ns),
            false => self.match_answers(index, bytes, now_ns),
        };
        match matched {
            Ok(used) => {
                let rest = bytes.len() - used;
                if rest > RETAINED_BYTES_MAX {
                    let message = format!("an incomplete reply has {rest} bytes, more than the limit");
                    return self.lose(index, now_ns, "garbage", &message);
                }
                if had_kept {
                    kept.drain(..used);
                } else {
                    kept.extend_from_slice(&come[used..]);
                }
                self.connections[index].kept = kept;
                self.answered(index, now_ns);
            }
            Err(Unread::Garbage(at, what)) => {
                let what = if bytes[at..].starts_with(&[0x15, 0x03]) {
                    "the server speaks TLS there; pass --tls"
                } else {
                    what
                };
                let seen = String::from_utf8_lossy(&bytes[at..bytes.len().min(at + 60)]).into_owned();
                self.lose(index, now_ns, "garbage", &format!("{what}: {seen:?}"));
            }
            Err(Unread::Refused(words)) => self.lose(index, now_ns, GREETING_REFUSED, &words),
        }
    }

    /// Returns how many of `bytes` belong to replies, complete or partial. The error has the offset and the reason of
    /// invalid bytes.
    pub(super) fn match_answers(&mut self, index: usize, bytes: &[u8], now_ns: u64) -> Result<usize, Unread> {
        let is_up = self.connections[index].state == ConnectionState::Up;
        let mut used = 0;
        while used < bytes.len() {
            let connection = &mut self.connections[index];
            let Some(request) = connection.in_flight.front_mut().filter(|_| connection.stamped > 0) else {
                return Err(Unread::Garbage(used, "bytes arrived without a request"));
            };
            let (taken, progress) = self.traffic.answer(&mut request.pending, &bytes[used..]);
            used += taken;
            let (outcome, value_bytes) = match progress {
                ReplyProgress::More => break,
                ReplyProgress::Garbage(what) => return Err(Unread::Garbage(used, what)),
                ReplyProgress::Done { outcome, value_bytes } => (outcome, value_bytes),
                ReplyProgress::Elsewhere { target } => {
                    let request = *request;
                    if is_up && self.may_go(&request, target) {
                        let connection = &mut self.connections[index];
                        connection.in_flight.pop_front();
                        connection.stamped -= 1;
                        self.send_redirected(request, target);
                        continue;
                    }
                    (ReplyOutcome::Error, 0)
                }
            };
            let connection = &mut self.connections[index];
            let Some(request) = connection.in_flight.pop_front() else { break };
            connection.stamped -= 1;
            self.in_flight -= 1;
            if outcome == ReplyOutcome::Error && is_up {
                let name = &self.settings.names[connection.target];
                let kind = self.traffic.error_name();
                self.recorder.fault(kind, || format!("{name}: {}", self.traffic.refusal()));
            }
            if is_up {
                self.recorder.end(&EndedRequest {
                    verb: request.pending.verb,
                    fate: Fate::from(outcome),
                    read_bytes: value_bytes,
                    written_bytes: request.pending.value_bytes,
                    intended_ns: request.intended_ns,
                    sent_ns: request.sent_ns,
                    ended_ns: now_ns,
                });
            } else if Fate::from(outcome).is_failure() {
                let said = &self.traffic.verbs()[usize::from(request.pending.verb)];
                return Err(Unread::Refused(format!("the request {said} got the reply {}", self.traffic.refusal())));
            }
        }
        Ok(used)
    }

    /// Updates the connection after replies: the greeting may be complete, there may be room, or a pending close may
    /// now happen.
    pub(super) fn answered(&mut self, index: usize, now_ns: u64) {
        let connection = &mut self.connections[index];
        if connection.in_flight.is_empty() {
            match connection.state {
                ConnectionState::Greeting if !self.traffic.is_multiplexed() => return self.is_up(index, now_ns),
                ConnectionState::Up if connection.closing => return self.close_on_purpose(index, now_ns),
                _ => {}
            }
        }
        self.queue(index, now_ns);
    }
}
