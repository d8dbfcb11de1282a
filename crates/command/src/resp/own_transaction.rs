//! Single-command transactions: commands that are executed as a transaction, because they take several visits or change
//! several keys atomically. A worker retains the memory of some ended transactions, so that the next transaction
//! allocates nothing.

use crate::context::WorkerContext;
use crate::resp::call::Call;
use crate::resp::call::Interrupt;
use crate::resp::call::Run;
use crate::resp::catalog;
use crate::resp::error::ErrorReply;
use crate::resp::state::Answers;
use crate::resp::state::transaction::Stage;
use crate::resp::state::transaction::{ANSWER_BYTES, SPARE_MAX, Transaction};
use protocol::resp::Args;

/// Returns an empty transaction with room for replies. Reuses a retained transaction if there is one.
pub(super) fn take_empty(call: &mut Call<'_, '_>) -> Box<Transaction> {
    let spare = call.ctx.spares.0.pop();
    let shared = &call.ctx.shared;
    let mut empty = spare.unwrap_or_else(|| Box::new(Transaction::new(shared.store.key_locks(), &shared.budget)));
    empty.swaps = shared.namespaces.swaps();
    empty
}

/// Releases the key lock set of a transaction, and the right to extend it.
pub(super) fn release_locks(transaction: &mut Transaction, ctx: &WorkerContext) {
    ctx.shared.store.release(&mut transaction.key_locks);
    if std::mem::take(&mut transaction.has_right) {
        ctx.shared.scripts.return_right();
    }
}

/// Ends a transaction: releases its key lock set, and retains its memory for the next one.
pub(super) fn recycle(mut transaction: Box<Transaction>, ctx: &mut WorkerContext) {
    release_locks(&mut transaction, ctx);
    if ctx.spares.0.len() < SPARE_MAX {
        transaction.reset(ANSWER_BYTES, &ctx.shared.budget);
        ctx.spares.0.push(transaction);
    }
}

/// Turns the command into a single-command transaction, which collects the reply outside the output buffer, over as
/// many visits as necessary. Locks no keys.
pub(super) fn run_collected<'c>(call: &mut Call<'c, '_>, entry: &'static catalog::CommandSpec, args: Args<'c>) -> Run {
    let mut one = take_empty(call);
    if !one.set_single_request(entry, args, false) {
        recycle(one, call.ctx);
        return Err(ErrorReply::ClientMemory.into());
    }
    one.stage = Stage::Running;
    begin(call, one);
    Err(Interrupt::UnderWay)
}

/// Makes `transaction` the session's transaction, which is executed before any other request.
pub(super) fn begin(call: &mut Call<'_, '_>, mut transaction: Box<Transaction>) {
    transaction.answers = call.session.answers;
    (transaction.ready, transaction.begun) = (call.ctx.ready, call.ctx.op_begun);
    if call.session.answers == Answers::SkipNext {
        call.session.answers = Answers::All;
    }
    call.session.under_way = Some(transaction);
}
