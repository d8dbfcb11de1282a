//! A hand-over: connections leave this worker and go on elsewhere, without their clients being told.
//!
//! ```text
//!   asked for ──> each turn: who is between two requests, and has nothing unsent, leaves with its socket
//!                 the others are served until they are there too, for GRACE_NS
//!             ──> then the rest is closed, and the worker ends
//! ```
//!
//! What was received and is no whole request goes along. Who is in the midst of something that is more than bytes (a
//! value that is arriving, a long answer) is closed at the end, as by a stop; who is subscribed, watches, or has begun
//! a transaction at once: no request of theirs is answered and lost.

use super::Core;
use crate::command::Protocol;
use crate::handover::{Carried, Early, Moved};
use crate::session::{Pause, Phase, Place, Session};
use io::{Backend, Detached};
use std::sync::Arc;

/// How long connections that cannot leave yet are served. Nobody who has left is, meanwhile.
const GRACE_NS: u64 = 20_000_000;
/// Bytes of a request in part that a connection may leave with.
const INPUT_BYTES_MAX: usize = 64 << 10;

impl<B: Backend> Core<B> {
    /// Lets go who can, and closes the others when their time is over.
    pub(super) fn move_out(&mut self) {
        let deadline_ns = match self.stop_deadline_ns {
            Some(deadline_ns) => deadline_ns,
            None => {
                // The acceptor has ended: who is in the intake is the last.
                while self.admit_new() {}
                self.end_who_stays();
                *self.stop_deadline_ns.insert(self.now_ns + GRACE_NS)
            }
        };
        self.let_go();
        // Only after the last chance: letting many go can take longer than all of it.
        if self.now_ns >= deadline_ns {
            self.kill_all();
        }
    }

    /// Lets go those that are between two requests now.
    fn let_go(&mut self) {
        let (mut indexes, mut carried, mut streams) = (Vec::new(), Vec::new(), Vec::new());
        for index in 0..self.sessions.used_high() as u32 {
            let Some(session) = self.sessions.peek_mut(index) else { continue };
            if let Some(one) = carried_of(session)
                && let Some(stream) = session.stream.take()
            {
                indexes.push(index);
                carried.push(one);
                streams.push(stream);
            }
        }
        let detached = self.io.detach(streams);
        for ((index, mut one), detached) in indexes.into_iter().zip(carried).zip(detached) {
            if one.door.protocol == Protocol::Resp {
                let card = self.ctx.roster().card(index, |card| {
                    [&card.name, &card.library, &card.library_version, &card.user].map(|text| text.to_vec())
                });
                one.texts = card.unwrap_or_default();
            }
            if let Some(Detached { stream, received, unsent: _ }) = detached {
                one.input.extend(received);
                self.moved.push(Moved { stream, carried: Arc::new(one) });
            }
            // Its stream is gone already; all else of it is given back as that of a closed one.
            self.kill(index);
        }
    }

    /// Closes those that will never be able to leave.
    fn end_who_stays(&mut self) {
        for index in 0..self.sessions.used_high() {
            if self.sessions.peek(index).is_some_and(|s| s.phase == Phase::Open && s.state.stays()) {
                self.kill(index as u32);
            }
        }
    }

    /// Takes in what a connection was elsewhere.
    pub(super) fn go_on_with(&mut self, index: u32, carried: &Arc<Carried>) {
        if !carried.is_welcome(&self.ctx.shared) {
            return self.kill(index);
        }
        let session = self.sessions.at(index);
        session.state.go_on_as(carried, &self.ctx.shared);
        session.early = Early::of(carried);
        if carried.door.protocol == Protocol::Resp {
            let texts = carried.card_texts();
            self.ctx.roster().card(index, |card| {
                [card.name, card.library, card.library_version, card.user] = texts;
                (card.speaks_3, card.database) = (carried.speaks_3, carried.namespace.0);
            });
        }
        let session = self.sessions.at(index);
        if session.early.is_some() {
            session.readable = true;
            self.make_ready(index);
        }
    }
}

/// What is to be carried over of a session that can leave now.
fn carried_of<S>(session: &Session<S>) -> Option<Carried> {
    let is_free = session.phase == Phase::Open
        && session.out.is_none()
        && !session.blocked
        && !session.ended
        && session.pause == Pause::None
        && session.place != Place::Batch;
    let held = session.input.as_ref().map_or(&[][..], |input| input.bytes());
    if !is_free || held.len() > INPUT_BYTES_MAX {
        return None;
    }
    let early = session.early.as_ref().map_or(&[][..], |early| early.rest());
    let carried = session.state.carried()?;
    Some(Carried { input: [held, early].concat(), ..carried })
}
