//! Commands without a value and with a line for an answer: `delete`, `incr`, `decr`, `touch`, `flush_all`, `me`, and
//! the administrative ones.

use super::{Call, Step, VERSION, exptime};
use crate::keyspace::prefixes::Count;
use crate::metrics::Command;
use crate::push::notify::Event;
use crate::visit::progress::State;
use protocol::memcache::reply::{self, ItemFacts};
use protocol::memcache::request::Arith as ArithRequest;
use protocol::memcache::{Error, KeyScratch, MetaKey};
use segment::{Arith, ArithOutcome, Delete, DeleteOutcome, Expire, ResizeError};

impl<'c> Call<'c, '_> {
    pub(super) fn delete(&mut self, key: &[u8], noreply: bool, consumed: usize) -> Step {
        self.sample(key, false);
        let key = self.guard.key(self.session.namespace, key);
        let seen = self.seen(&key);
        match self.guard.items_mut().delete(&key, &Delete::default()) {
            Ok(outcome) => {
                self.count_prefix(key.bytes(), Count::Delete);
                let deleted = outcome == DeleteOutcome::Deleted;
                self.tell_get(key.bytes(), seen, deleted);
                if deleted {
                    self.tell_deleted(key.bytes(), seen, "delete");
                }
                let counters = self.counters();
                if deleted {
                    counters.delete_hits.add(1)
                } else {
                    counters.delete_misses.add(1)
                }
                if !noreply {
                    self.out.push(if deleted { reply::DELETED } else { reply::NOT_FOUND });
                }
            }
            Err(error) => self.op_error(error, noreply)?,
        }
        self.at += consumed;
        self.done(Command::Delete);
        Ok(())
    }

    pub(super) fn arith(&mut self, request: ArithRequest<'_>, consumed: usize) -> Step {
        let ArithRequest { key, delta, decrement, noreply } = request;
        self.sample(key, false);
        let key = self.guard.key(self.session.namespace, key);
        let arith =
            Arith { delta, decrement, vivify: None, expire: None, compare: None, token: None, want_token: false };
        let seen = self.seen(&key);
        match self.guard.numbers().arith(&key, &arith) {
            Ok(outcome) => {
                self.tell_get(key.bytes(), seen, outcome != ArithOutcome::NotFound);
                self.tell_added(key.bytes(), outcome);
                self.count_arith(decrement, outcome);
                match outcome {
                    _ if noreply => {}
                    ArithOutcome::Number { value, .. } => reply::number(self.out, value),
                    ArithOutcome::NotFound => self.out.push(reply::NOT_FOUND),
                    ArithOutcome::NotNumber => reply::error(self.out, Error::NotNumber),
                    ArithOutcome::Exists => self.out.push(reply::EXISTS),
                }
            }
            Err(error) => self.op_error(error, noreply)?,
        }
        self.at += consumed;
        self.done(if decrement { Command::Decr } else { Command::Incr });
        Ok(())
    }

    /// Notifies the clients that are subscribed to changes of this key, if the counter was changed.
    pub(super) fn tell_added(&mut self, key: &[u8], outcome: ArithOutcome) {
        if matches!(outcome, ArithOutcome::Number { .. }) {
            self.changed(Event::INCRBY, key);
        }
    }

    pub(super) fn count_arith(&self, decrement: bool, outcome: ArithOutcome) {
        let counters = self.counters();
        match (outcome, decrement) {
            (ArithOutcome::Number { .. }, false) => counters.incr_hits.add(1),
            (ArithOutcome::Number { .. }, true) => counters.decr_hits.add(1),
            (ArithOutcome::NotFound, false) => counters.incr_misses.add(1),
            (ArithOutcome::NotFound, true) => counters.decr_misses.add(1),
            (ArithOutcome::Exists, _) => counters.cas_badval.add(1),
            (ArithOutcome::NotNumber, _) => {}
        }
    }

    pub(super) fn touch(&mut self, key: &[u8], exptime: i64, noreply: bool, consumed: usize) -> Step {
        self.sample(key, false);
        let key = self.guard.key(self.session.namespace, key);
        let expire = exptime::expire(exptime, self.ctx.moment());
        let seen = self.seen(&key);
        // An item that the touch itself ends was there all the same.
        match self.guard.items_mut().touch(&key, expire).map(|item| item.is_some()) {
            Ok(touched) => {
                self.tell_get(key.bytes(), seen, touched);
                if touched {
                    self.tell_touched(key.bytes(), expire);
                }
                let counters = self.counters();
                counters.cmd_touch.add(1);
                if touched {
                    counters.touch_hits.add(1)
                } else {
                    counters.touch_misses.add(1)
                }
                if !noreply {
                    self.out.push(if touched { reply::TOUCHED } else { reply::NOT_FOUND });
                }
            }
            Err(error) => self.op_error(error, noreply)?,
        }
        self.at += consumed;
        self.done(Command::Touch);
        Ok(())
    }

    /// Ends what this connection can see: its listener's namespace, and those that keys lead to from there. A delay
    /// that is not past yet is kept where every worker looks before its next iteration; any other flushes now and takes
    /// the place of a delayed one.
    pub(super) fn flush_all(&mut self, delay: i64, noreply: bool, consumed: usize) -> Step {
        let now = self.ctx.now;
        match exptime::expire(delay, self.ctx.moment()) {
            Expire::At(at) if at > now => {
                self.namespaces_seen().for_each(|namespace| self.ctx.shared.delayed_flush.schedule(namespace, at));
            }
            Expire::At(_) | Expire::Never => {
                for namespace in self.namespaces_seen() {
                    if self.guard.items_mut().flush(namespace).is_err() {
                        self.ctx.shared.delayed_flush.note_refused();
                        return Err(State::Parked);
                    }
                    self.ctx.shared.delayed_flush.cancel(namespace);
                }
            }
        }
        self.counters().cmd_flush.add(1);
        if !noreply {
            self.out.push(reply::OK);
        }
        self.at += consumed;
        self.done(Command::Flush);
        Ok(())
    }

    pub(super) fn meta_debug(&mut self, token: MetaKey<'c>, consumed: usize) -> Step {
        let mut scratch = KeyScratch::default();
        let key = self.guard.key(self.session.namespace, token.bytes(&mut scratch));
        if self.guard.locks().is_blocked(&key) {
            return Err(State::Parked);
        }
        let seen = self.seen(&key);
        // A client may store by the token that it is shown here.
        match self.guard.versions().peek_gets(&key) {
            Err(error) => self.op_error(error, false)?,
            Ok(None) => self.out.push(reply::META_END),
            Ok(Some(item)) => {
                let facts = ItemFacts {
                    key: key.bytes(),
                    exp: exptime::seconds_left(item.expire, self.ctx.now),
                    la: self.ctx.now.ms_since(item.last_access) / 1000,
                    cas: self.ctx.told_token(item.token),
                    fetched: item.fetched,
                    class: item.ttl_class.into(),
                    size: item.stored_bytes,
                    client_flags: item.client_flags,
                };
                reply::debug(self.out, token, &facts);
            }
        }
        self.tell_get(key.bytes(), seen, seen.is_some_and(|seen| seen.found));
        self.counters().cmd_meta.add(1);
        self.at += consumed;
        self.done(Command::Other);
        Ok(())
    }

    pub(super) fn version(&mut self, consumed: usize) -> Step {
        self.out.push(b"VERSION ");
        self.out.push(VERSION.as_bytes());
        self.answer(reply::CRLF, consumed)
    }

    /// Answered at once; the background makes the memory larger or smaller.
    pub(super) fn cache_memlimit(&mut self, mib: u32, noreply: bool, consumed: usize) -> Step {
        let resized = self.ctx.shared.resize_memory(u64::from(mib) << 20);
        self.at += consumed;
        self.done(Command::Other);
        if noreply {
            return Ok(());
        }
        let (refused, mib) = match resized {
            Ok(()) => {
                self.out.push(reply::OK);
                return Ok(());
            }
            Err(ResizeError::TooSmall { least_bytes }) => {
                (&b"MEMLIMIT_TOO_SMALL the least limit, in MiB, is "[..], least_bytes.div_ceil(1 << 20))
            }
            Err(ResizeError::TooLarge { most_bytes }) => {
                (&b"MEMLIMIT_ADJUST_FAILED the greatest limit, in MiB, is "[..], most_bytes >> 20)
            }
        };
        self.out.push(refused);
        reply::number(self.out, mib);
        Ok(())
    }

    /// Every stop finishes what is in flight, so both forms are one.
    pub(super) fn shutdown(&mut self, consumed: usize) -> Step {
        if !self.ctx.shared.config.shutdown_command {
            return self.answer(Error::ShutdownDisabled.wire(), consumed);
        }
        self.at += consumed;
        self.ctx.shared.host.request_stop();
        Err(State::Close)
    }
}
