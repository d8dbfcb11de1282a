//! The commands `REC.MGET` and `REC.MPUT`, which read or store several records at once. Both are atomic, up to the
//! maximum number of keys (see `atomic`): other commands see either all changes of a `REC.MPUT` or none of them.

use super::given::Given;
use super::ops::Op;
use super::read::{self, Names, ReadOptions};
use super::{Bad, Options, Refusal, bin_name, set_name, typed};
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::error::ErrorReply;
use crate::resp::records;
use crate::resp::records::operate;
use crate::resp::typed::KeyParts;
use crate::visit::progress::{OPS_A_BATCH, SessionWait};
use protocol::resp::{Args, reply};
use record::ValueType;

/// Executes `REC.MGET bins key [key ...]`: replies with bins of several records. `bins` is `*` for all bins, or a list
/// of bin names, separated by commas.
pub(in super::super) fn mget<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let word = args.next().unwrap_or_default();
    let names = (word != b"*").then_some(Names::Commas(word));
    let telling = match (ReadOptions { names, ..ReadOptions::default() }).check() {
        Ok(telling) => telling,
        Err(bad) => return records::bad(call, args.next().unwrap_or_default(), bad),
    };
    if call.session.done == 0 {
        reply::array(call.out, args.len() as u64);
    }
    call.each_key(args, |call, bytes| {
        let (key, version, bytes_max) = (call.key(bytes), call.session.version, call.ctx.request_bytes_max);
        let item = call.guard.items().get(&key);
        let parts = KeyParts::new(call.guard, key);
        let hit =
            match read::reply_record(call.out, version, bytes_max, item.as_ref(), call.ctx.view(), &parts, &telling) {
                Err(Interrupt::Fault(ErrorReply::WrongType)) => {
                    reply::null_array(call.out, version);
                    false
                }
                replied => replied?,
            };
        call.count_read(hit);
        Ok(())
    })
}

/// The set, bin names and bin types that all records of a `REC.MPUT` have in common. A request contains them once, in
/// the form `set(bin TYPE, bin TYPE ...)`.
struct Shape<'c> {
    set: Option<&'c [u8]>,
    bins: Vec<(&'c [u8], &'c [u8])>,
}

impl<'c> Shape<'c> {
    fn read(word: &'c [u8]) -> Result<Self, Bad<'c>> {
        let open = word.iter().position(|byte| *byte == b'(').ok_or(ErrorReply::Syntax)?;
        let inner = word[open + 1..].strip_suffix(b")").ok_or(ErrorReply::Syntax)?;
        let set = if open == 0 { None } else { Some(set_name(Some(&word[..open]))?) };
        let mut bins = Vec::new();
        for bin in inner.split(|byte| *byte == b',') {
            let bin = bin.trim_ascii();
            let space = bin.iter().rposition(|byte| *byte == b' ').ok_or(ErrorReply::Syntax)?;
            let (name, kind) = (bin_name(bin[..space].trim_ascii())?, &bin[space + 1..]);
            if matches!(ValueType::of(kind), None | Some(ValueType::List | ValueType::Map)) {
                return Err(Refusal::UnknownType(name, kind).into());
            }
            bins.push((name, kind));
        }
        Ok(Self { set, bins })
    }
}

/// Executes `REC.MPUT shape key value ... [key value ...]`: stores several records. The reply is an array with one
/// element for each record: the record's revision, or an error if the record was refused.
pub(in super::super) fn mput<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let shape = match Shape::read(args.next().unwrap_or_default()) {
        Ok(shape) => shape,
        Err(bad) => return records::bad(call, args.next().unwrap_or_default(), bad),
    };
    let step = shape.bins.len() + 1;
    if !args.len().is_multiple_of(step) {
        return Err(ErrorReply::Arity("rec.mput").into());
    }
    if call.session.done == 0 {
        reply::array(call.out, (args.len() / step) as u64);
    }
    let options = Options { set: shape.set, ..Options::default() };
    for _ in 0..call.session.done as usize * step {
        args.next();
    }
    while let Some(key) = args.next() {
        call.room(0)?;
        if call.ops >= OPS_A_BATCH {
            return Err(SessionWait::Yield.into());
        }
        let mark = call.out.mark();
        let mut ops = Vec::with_capacity(shape.bins.len());
        let mut refused = None;
        for (bin, kind) in &shape.bins {
            match typed(bin, kind, args.next().unwrap_or_default()) {
                Ok(value) => ops.push(Op::Put(bin, Given::Plain(value))),
                Err(refusal) => refused = refused.or(Some(refusal)),
            }
        }
        let done = match refused {
            Some(refusal) => records::bad(call, key, Bad::Refusal(refusal)),
            None => operate::do_all(call, key, &options, &ops).map(|done| {
                if let Some(done) = done {
                    call.int(done.revision.into());
                }
            }),
        };
        if let Err(stop) = done {
            call.out.truncate(mark);
            match stop {
                Interrupt::Fault(fault) => call.fault(fault),
                other => return Err(other),
            }
        }
        // Each record is a separate change, with its own key event and revision.
        call.session.is_published = false;
        call.session.done += 1;
        call.ops += 1;
    }
    Ok(())
}
