//! A traffic of identical request lines with identical replies.

use crate::traffic::{Pending, ReplyOutcome, ReplyProgress, Traffic};

/// Requests the same key repeatedly over memcached's text protocol, and expects the reply of
/// [`OneKeyRequests::answer_of`].
#[derive(Clone, Debug)]
pub struct OneKeyRequests {
    verbs: Vec<String>,
    answer: Vec<u8>,
    value_bytes: u64,
}

/// The request line.
const LINE: &[u8] = b"get key-00000000000000000000\r\n";

impl OneKeyRequests {
    /// Creates the traffic for values of `value_bytes` bytes.
    pub fn new(value_bytes: usize) -> Self {
        Self { verbs: vec!["get".to_owned()], answer: Self::answer_of(value_bytes), value_bytes: value_bytes as u64 }
    }

    /// Returns the reply to a line: a hit with a value of `value_bytes` bytes.
    pub fn answer_of(value_bytes: usize) -> Vec<u8> {
        let mut answer = format!("VALUE key-00000000000000000000 0 {value_bytes}\r\n").into_bytes();
        answer.resize(answer.len() + value_bytes, b'x');
        answer.extend_from_slice(b"\r\nEND\r\n");
        answer
    }
}

impl Traffic for OneKeyRequests {
    fn verbs(&self) -> &[String] {
        &self.verbs
    }

    fn next(&mut self, _connection: usize, out: &mut Vec<u8>) -> Pending {
        out.extend_from_slice(LINE);
        Pending::default()
    }

    fn answer(&mut self, _pending: &mut Pending, bytes: &[u8]) -> (usize, ReplyProgress) {
        let length = self.answer.len();
        if bytes.len() >= length {
            // Comparing only both ends detects a shifted reply without the cost of a whole comparison.
            if bytes.first() != self.answer.first() || bytes[length - 5..length] != self.answer[length - 5..] {
                return (0, ReplyProgress::Garbage("the reply differs from the expected reply"));
            }
            return (length, ReplyProgress::Done { outcome: ReplyOutcome::Hit, value_bytes: self.value_bytes });
        }
        if bytes.first() != self.answer.first() {
            return (0, ReplyProgress::Garbage("the reply differs from the expected reply"));
        }
        (0, ReplyProgress::More)
    }

    fn greet(&mut self, _connection: usize, _out: &mut Vec<u8>) -> Vec<Pending> {
        Vec::new()
    }
}
