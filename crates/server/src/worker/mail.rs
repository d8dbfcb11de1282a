//! Mail: publishing what a batch did, waking those whose connections it is for, and sending this worker's connections
//! what waits for them.

use super::Core;
use crate::buffers::{Class, OUT_BYTES};
use crate::session::{Phase, Place};
use crate::watch::QUEUE_BYTES;
use io::Backend;

/// Outputs filled for one session in one visit: as many as a watcher's full queue takes, and one for what came
/// meanwhile.
const FILLS_MAX: usize = QUEUE_BYTES / OUT_BYTES + 1;

/// Connections that one visit sends mail to.
const VISITS_MAX: usize = 32;
/// Bytes of mail after which a visit ends.
const SENT_BYTES_MAX: u64 = 256 << 10;

impl<B: Backend> Core<B> {
    /// Something was told, or is to be sent to a connection of this worker.
    #[inline]
    pub(super) fn has_mail(&self) -> bool {
        let ctx = &self.ctx;
        ctx.watch.watched.any() || ctx.to_wake != 0 || self.mail_left || ctx.shared.workers[ctx.worker].post.has()
    }

    /// Publishes this worker's lines, wakes others and serves its connections that have mail. Without any it costs two
    /// loads.
    pub(super) fn serve_mail(&mut self) {
        let ctx = &mut self.ctx;
        if !ctx.unpublished.is_empty() {
            ctx.publish_waiting();
        }
        if ctx.shared.watch.watched().any() {
            let (shared, lines) = (&ctx.shared, &mut ctx.watch.lines);
            let (me, to_wake) = (ctx.worker, &mut ctx.to_wake);
            shared.watch.publish(lines, |to, connection| {
                if shared.workers[to].post.note(connection) && to != me {
                    *to_wake |= 1 << to;
                }
            });
        } else {
            ctx.watch.lines.free();
        }
        while ctx.to_wake != 0 {
            ctx.shared.workers[ctx.to_wake.trailing_zeros() as usize].waker.wake();
            ctx.to_wake &= ctx.to_wake - 1;
        }
        let post = &ctx.shared.workers[ctx.worker].post;
        if post.has() {
            post.take(&mut self.mail);
        }
        self.mail_left = false;
        if !self.mail.is_empty() {
            self.deliver();
        }
        self.mail_left |= !self.ctx.unpublished.is_empty();
    }

    /// Serves those that are noted, once, up to [`VISITS_MAX`] of them or [`SENT_BYTES_MAX`] sent. A connection that
    /// could not be served whole stays noted, behind the others.
    #[cold]
    fn deliver(&mut self) {
        let sent_before = self.ctx.counters().bytes_written.value();
        for _ in 0..self.mail.len().min(VISITS_MAX) {
            if self.ctx.counters().bytes_written.value() - sent_before >= SENT_BYTES_MAX {
                break;
            }
            let Some(index) = self.mail.pop_front() else { break };
            if self.deliver_to(index) {
                self.again.push(index);
            }
        }
        self.mail_left = !self.mail.is_empty();
        self.mail.extend(self.again.drain(..));
        self.io.submit();
    }

    /// Sends a session what waits for it, as far as its peer takes it. True if more can be sent soon.
    fn deliver_to(&mut self, index: u32) -> bool {
        let mut more = true;
        for _ in 0..FILLS_MAX {
            let Some(session) = self.sessions.peek_mut(index).filter(|session| session.phase == Phase::Open) else {
                return false;
            };
            if self.ctx.roster().is_killed(index) {
                self.kill(index);
                return false;
            }
            more = session.state.has_mail();
            if !more {
                break;
            }
            if session.state.is_mail_broken() {
                self.ctx.counters().subscribers_dropped.add(1);
                self.kill(index);
                return false;
            }
            if session.blocked || session.state.is_answering() {
                // Sending the rest brings it back.
                session.mail = true;
                return false;
            }
            if session.out.is_none() {
                session.out = self.buffers.take_out();
            }
            if session.out.is_none() {
                // The next visit finds one, if a session was blocked with one.
                self.reclaim(Class::Out, index);
                return true;
            }
            let Some(out) = &mut session.out else { return true };
            let bytes = session.state.take_mail(out.spare());
            out.advance(bytes);
            self.send(index);
        }
        if self.sessions.at(index).place == Place::Idle {
            self.move_on(index);
        }
        more
    }
}
