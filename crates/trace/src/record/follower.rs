//! Follows the requests and replies of one connection, in the protocol that its first bytes show.

use super::memcache::Memcache;
use super::resp::Resp;
use super::{Ledger, Pen, Seen};

/// The follower of one connection. If it cannot parse the bytes, it stops following and counts the connection; the
/// proxy still passes the bytes.
#[derive(Debug, Default)]
pub struct Follower {
    words: StreamWords,
    given_up: bool,
}

#[derive(Debug, Default)]
enum StreamWords {
    /// No request was seen yet.
    #[default]
    Unknown,
    Memcache(Box<Memcache>),
    Resp(Box<Resp>),
}

impl Follower {
    /// Reads bytes that the client sent.
    pub fn asked(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) {
        if let (StreamWords::Unknown, Some(first)) = (&self.words, bytes.first()) {
            // A RESP request is an array, and no memcached command begins with the same byte.
            self.words =
                if *first == b'*' { StreamWords::Resp(Box::default()) } else { StreamWords::Memcache(Box::default()) };
        }
        let followed = match &mut self.words {
            StreamWords::Unknown => true,
            StreamWords::Memcache(memcache) => memcache.asked(bytes, pen, ledger, seen),
            StreamWords::Resp(resp) => resp.asked(bytes, pen, ledger, seen),
        };
        self.note(followed, seen);
    }

    /// Reads bytes that the server sent.
    pub fn answered(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) {
        let followed = match &mut self.words {
            // A server that sends bytes before the first request uses another protocol.
            StreamWords::Unknown => true,
            StreamWords::Memcache(memcache) => memcache.answered(bytes, pen, ledger),
            StreamWords::Resp(resp) => resp.answered(bytes, ledger),
        };
        self.note(followed, seen);
    }

    /// Ends the connection; requests without a reply have an unknown outcome.
    pub fn closed(&mut self, ledger: &mut Ledger) {
        match &mut self.words {
            StreamWords::Unknown => {}
            StreamWords::Memcache(memcache) => memcache.give_up_answers(ledger),
            StreamWords::Resp(resp) => resp.give_up_answers(ledger),
        }
    }

    fn note(&mut self, followed: bool, seen: &mut Seen) {
        if !followed && !self.given_up {
            self.given_up = true;
            seen.unfollowed += 1;
        }
    }
}
