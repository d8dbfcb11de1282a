//! Commands that choose elements of a set by chance. Each element has the same chance.

use crate::push::notify::KeyEvent;
use crate::resp::call::{Call, Run};
use crate::resp::catalog::words;
use crate::resp::collection::{self, Pop, Pops, ReplyShape};
use crate::resp::elements::{distinct, prng_of, reply_at_random, reply_one_at_random};
use crate::resp::error::ErrorReply;
use crate::resp::number::integer;
use crate::resp::typed::put_text;
use base::prng::Prng;
use protocol::resp::{Args, reply};
use record::{Damaged, Digits, Name, SetEdit, SetValue, TextSets};

impl Pops for TextSets {
    /// The seed of the choice.
    type From = u64;

    fn pop(
        set: &SetValue<'_>,
        edit: &mut SetEdit<'_>,
        seed: u64,
        (count, bytes_max): (u64, usize),
        _: ReplyShape,
        to: &mut Vec<u8>,
    ) -> Result<u64, Damaged> {
        let begun = to.len();
        if count == set.len() {
            let mut elements = set.from(0)?;
            while to.len() < bytes_max {
                let Some(value) = elements.next() else {
                    edit.clear();
                    return Ok(count);
                };
                put_text(to, &value?);
            }
            // They are too long to be popped at once. Some are chosen by chance.
            to.truncate(begun);
        }
        let mut popped = 0;
        for index in distinct(&mut Prng::new(seed), set.len(), count) {
            let Some(value) = set.from(index)?.next() else { return Err(Damaged) };
            let mut digits = Digits::new();
            let value = value?;
            let text = value.text(&mut digits);
            reply::bulk(to, text);
            if !edit.remove(&Name::new(text))? {
                return Err(Damaged);
            }
            popped += 1;
            if to.len() >= bytes_max {
                break;
            }
        }
        Ok(popped)
    }
}

pub(in crate::resp) fn spop<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count] = words(args);
    let count = match args.len() {
        1 => None,
        2 => Some(integer(count).ok().and_then(|count| u64::try_from(count).ok()).ok_or(ErrorReply::NotPositive)?),
        _ => return Err(ErrorReply::Syntax.into()),
    };
    let shape = ReplyShape { is_set: count.is_some(), ..ReplyShape::of(call) };
    let pop = Pop::<TextSets> { from: prng_of(call).next_u64(), count, shape, event: KeyEvent::SPOP };
    if !collection::reply_popped(call, ("spop", args), key, &pop)? {
        match count {
            Some(_) => reply::set(call.out, call.session.version, 0),
            None => call.null(),
        }
    }
    Ok(())
}

pub(in crate::resp) fn srandmember<'c>(call: &mut Call<'c, '_>, args: Args<'c>) -> Run {
    let [key, count] = words(args);
    let count = match args.len() {
        1 => return reply_one_at_random::<TextSets>(call, key),
        2 => integer(count)?,
        _ => return Err(ErrorReply::Syntax.into()),
    };
    if count == i64::MIN {
        return Err(ErrorReply::NoOppositeCount.into());
    }
    let shape = ReplyShape::of(call);
    reply_at_random::<TextSets>(call, ("srandmember", args), key, count, shape)
}
