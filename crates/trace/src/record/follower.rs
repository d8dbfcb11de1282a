//! Follows what one connection asks and is answered, in whichever protocol it begins.

use super::memcache::Memcache;
use super::resp::Resp;
use super::{Ledger, Pen, Seen};

/// One connection. What it cannot follow it gives up, and counts; the bytes pass all the same.
#[derive(Debug, Default)]
pub struct Follower {
    words: StreamWords,
    given_up: bool,
}

#[derive(Debug, Default)]
enum StreamWords {
    /// Nothing was asked yet.
    #[default]
    Unknown,
    Memcache(Box<Memcache>),
    Resp(Box<Resp>),
}

impl Follower {
    /// Takes bytes that the client sent.
    pub fn asked(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) {
        if let (StreamWords::Unknown, Some(first)) = (&self.words, bytes.first()) {
            // A request of RESP is an array; no command of memcached's begins so.
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

    /// Takes bytes that the server sent.
    pub fn answered(&mut self, bytes: &[u8], pen: &Pen, ledger: &mut Ledger, seen: &mut Seen) {
        let followed = match &mut self.words {
            // A server that speaks first is one of another kind.
            StreamWords::Unknown => true,
            StreamWords::Memcache(memcache) => memcache.answered(bytes, pen, ledger),
            StreamWords::Resp(resp) => resp.answered(bytes, ledger),
        };
        self.note(followed, seen);
    }

    /// The connection is over: what was not answered is not known.
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
