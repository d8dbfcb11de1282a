//! Values in answers: a key is looked up, and what it holds is put into the output, from the store itself where that is
//! cheaper than a copy.
//!
//! Invariant: nothing is put of a value that cannot be answered, and what was put is taken back when the rest fails.

use super::{Answers, Call, Fault, State, Stop, atomic};
pub(super) use crate::command::values::Identity;
use crate::command::values::{LINE_ROOM, pin_or_room};
use protocol::number::Decimal;
use protocol::resp::reply;
use segment::{Change, Item, Key, Pinned, Turn, Value};

/// A value that is in the answer, but for what is sent from the store and its line end.
pub(super) struct Told {
    pub(super) identity: Identity,
    pub(super) pinned: Option<Pinned>,
    pub(super) tail: &'static [u8],
}

impl Call<'_, '_> {
    /// Looks a key up and answers with its value or null; says whether it was there.
    pub(super) fn value_of(&mut self, bytes: &[u8]) -> Result<bool, Stop> {
        let key = self.key(bytes);
        let told = self.tell(&key)?;
        let hit = told.is_some();
        if let Some(told) = told {
            self.finish(told);
        }
        Ok(hit)
    }

    /// Looks a key up and puts its value but for what is sent from the store ([`Call::finish`]), or null. Nothing is
    /// put if it fails.
    pub(super) fn tell(&mut self, key: &Key<'_>) -> Result<Option<Told>, Stop> {
        if self.turn.is_on_flash(key) {
            return Err(State::Parked.into());
        }
        let Some(item) = self.turn.get(key) else {
            reply::null(self.out, self.session.version);
            return Ok(None);
        };
        let mut told = Told { identity: Identity::of(&item), pinned: None, tail: &b"\r\n"[..] };
        match item.value {
            Value::Typed { .. } => {
                if self.is_there(key)? {
                    return Err(Fault::WrongType.into());
                }
                reply::null(self.out, self.session.version);
                return Ok(None);
            }
            _ if self.session.answers != Answers::All => told.tail = b"",
            Value::Bytes(bytes) => {
                told.pinned = if self.copies || self.turn.acts() {
                    self.room(bytes.len()).map(|()| None)?
                } else {
                    pin_or_room(self.out, self.ctx, bytes)?
                };
                reply::bulk_head(self.out, bytes.len() as u64);
                if told.pinned.is_none() {
                    self.out.push(bytes);
                }
            }
            Value::Integer(number) => {
                let digits = Decimal::new(number);
                reply::bulk_head(self.out, digits.as_slice().len() as u64);
                self.out.push(digits.as_slice());
            }
            Value::Large(_) if self.copies || self.turn.acts() => {
                return atomic::tell_copied(self.turn, self.out, self.session.version, key, &item);
            }
            Value::Large(large) => {
                if !self.out.has_pin_room() || !self.ctx.pin_budget(large.bytes) {
                    return Err(State::OutputFull { want: LINE_ROOM }.into());
                }
                match self.turn.pin_large(key, large) {
                    Ok(Some(pinned)) => {
                        reply::bulk_head(self.out, large.bytes);
                        told.pinned = Some(pinned);
                    }
                    refused => {
                        self.ctx.pin_refund(large.bytes);
                        if let Err(error) = refused {
                            return Err(error.into());
                        }
                        // It has lost a piece, and counts as missing.
                        reply::null(self.out, self.session.version);
                        return Ok(None);
                    }
                }
            }
        }
        Ok(Some(told))
    }

    /// Puts the rest of a value.
    pub(super) fn finish(&mut self, told: Told) {
        if let Some(pinned) = told.pinned {
            self.out.push_pinned(pinned);
        }
        self.out.push(told.tail);
    }

    /// Takes back what was put of a value.
    pub(super) fn take_back(&mut self, told: Option<Told>, mark: usize) {
        if let Some(pinned) = told.and_then(|told| told.pinned) {
            self.ctx.unpin(pinned);
        }
        self.out.truncate(mark);
    }

    /// Answers with a key's value or null and changes the item as `decide` says, if it is the one that was answered; it
    /// is asked again else. Says whether the key was there, and what was decided.
    pub(super) fn tell_and_change<T>(
        &mut self,
        bytes: &[u8],
        mut decide: impl FnMut(&Turn<'_>, Option<&Item<'_>>, &mut Vec<u8>) -> Change<T>,
    ) -> Result<(bool, T), Stop> {
        let (key, mark) = (self.key(bytes), self.out.mark());
        let told = self.tell(&key)?;
        let identity = told.as_ref().map(|told| told.identity);
        let changed = self.turn.change(&key, &mut |turn, item, scratch| {
            if item.map(Identity::of) != identity {
                return Change::Keep(None);
            }
            decide(turn, item, scratch).map(Some)
        });
        match changed {
            Ok(Some(answer)) => {
                let hit = told.is_some();
                if let Some(told) = told {
                    self.finish(told);
                }
                Ok((hit, answer))
            }
            Ok(None) => {
                self.take_back(told, mark);
                Err(State::Parked.into())
            }
            Err(error) => {
                self.take_back(told, mark);
                Err(error.into())
            }
        }
    }
}
