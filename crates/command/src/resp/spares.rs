//! Transactions that are reused: a worker keeps some that have ended, so that the next one allocates nothing.

use crate::context::WorkerContext;
use crate::resp::call::Call;
use crate::resp::state::transaction::{ANSWER_BYTES, SPARE_MAX, Transaction};

/// A transaction with room for answers, of which nothing is known yet.
pub(super) fn spare_transaction(call: &mut Call<'_, '_>) -> Box<Transaction> {
    let spare = call.ctx.spares.0.pop();
    let shared = &call.ctx.shared;
    spare.unwrap_or_else(|| Box::new(Transaction::new(shared.store.key_locks(), &shared.budget)))
}

/// It is done with: gives its key lock set back, and itself to who comes next.
pub(super) fn put_away(mut transaction: Box<Transaction>, ctx: &mut WorkerContext) {
    ctx.shared.store.let_go(&mut transaction.key_locks);
    if ctx.spares.0.len() < SPARE_MAX {
        transaction.forget(ANSWER_BYTES, &ctx.shared.budget);
        ctx.spares.0.push(transaction);
    }
}
