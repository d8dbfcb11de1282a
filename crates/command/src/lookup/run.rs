//! The lookup engine of both protocols, which looks up the keys of consecutive plain requests together.
//!
//! ```text
//!   collect   find the keys in the input, hash them, prefetch their index buckets   the protocol: at most PROBES_MAX
//!   look      find their slots, prefetch their items                                this module
//!   answer    in order: compare and copy into the output, or store                  the protocol
//!   account   counters and times, once for all requests of one kind                 this module
//! ```
//!
//! The waits for memory within a stage overlap, because no key depends on another key's result. The result of a
//! prefetch is only a hint from which the later search starts. A run may therefore contain a write of a key and then a
//! read of the same key. For the first requests of all sessions of a batch, the first two stages run before any session
//! is served: see [`super::ahead`].
//!
//! Invariant: the requests of a run are executed in order. The run ends at the first request that cannot be completed
//! now.

use crate::context::WorkerContext;
use crate::metrics::Command;
use crate::metrics::command_counters::CommandCounters;
use crate::visit::out::OPS_TOGETHER_MAX;
use crate::visit::progress::SessionWait;
use arrayvec::ArrayVec;
use segment::{Guard, Key, Prefetched};

/// The maximum number of keys that are looked up together. Sixteen keys hide most of the memory latency. The data of
/// more keys would evict each other from the CPU cache.
pub(crate) const PROBES_MAX: usize = OPS_TOGETHER_MAX;

/// Keys that are looked up together.
pub(crate) type Run<P> = ArrayVec<P, PROBES_MAX>;

/// One key of a run.
pub(crate) trait Probe<'b> {
    /// Returns the key.
    fn key(&self) -> &Key<'b>;

    /// Returns the kind of the request that contains this key.
    fn command(&self) -> Command;

    /// Returns true if the request reads the key.
    fn is_read(&self) -> bool;

    /// Returns true if this is the last key of its request.
    fn ends(&self) -> bool;
}

/// One call of a protocol's `serve`, as the lookup engine uses it.
pub(crate) trait Visit<'c, 'l> {
    /// The protocol's type for a key of a run.
    type Probe: Probe<'c>;

    /// Returns the guard.
    fn guard(&self) -> &Guard<'l>;

    /// Returns the worker's context and the guard.
    fn parts(&mut self) -> (&mut WorkerContext, &Guard<'l>);

    /// Returns the counters of the session's namespace.
    fn counters(&self) -> &CommandCounters;

    /// Executes the part of the request that concerns this key. Returns true if the key existed.
    ///
    /// # Errors
    /// If the key cannot be processed now: the state in which the session waits. In this case, nothing was executed or
    /// written.
    fn answer(&mut self, probe: &Self::Probe, ahead: Prefetched<'_>) -> Result<bool, SessionWait>;

    /// Records that a key was answered. If the key is the last one of its request, consumes the request.
    fn answered(&mut self, probe: &Self::Probe);

    /// Records that the session must continue with this key in its next visit.
    fn stopped_at(&mut self, probe: &Self::Probe);

    /// Records that `requests` requests of one kind were completed since the last call.
    fn account(&mut self, command: Command, requests: usize);
}

/// Looks up the keys of a run and answers them in order. `first` is the prefetched lookup of the first key.
///
/// # Errors
/// If a request cannot be completed now: the state in which the session waits.
pub(crate) fn answer<'c, 'l, V: Visit<'c, 'l>>(
    visit: &mut V,
    run: &Run<V::Probe>,
    first: Prefetched<'l>,
) -> Result<(), SessionWait> {
    let mut ahead = ArrayVec::<Prefetched<'l>, PROBES_MAX>::new();
    ahead.push(first);
    ahead.extend(run[1..].iter().map(|probe| visit.guard().items().prefetch_item(probe.key().key_hash())));
    let mut tally = Tally::default();
    let mut end = Ok(());
    for (number, probe) in run.iter().enumerate() {
        match visit.answer(probe, ahead[number]) {
            Ok(hit) => tally.key(probe.is_read(), hit),
            Err(state) => {
                if state == SessionWait::Parked {
                    request_from_flash(visit.guard(), &run[number + 1..]);
                }
                visit.stopped_at(probe);
                end = Err(state);
                break;
            }
        }
        visit.answered(probe);
        if probe.ends() {
            if tally.requests > 0 && tally.command != probe.command() {
                visit.account(tally.command, std::mem::take(&mut tally.requests));
            }
            tally.command = probe.command();
            tally.requests += 1;
        }
    }
    if tally.requests > 0 {
        visit.account(tally.command, tally.requests);
    }
    let (ctx, guard) = visit.parts();
    if ctx.sampler.should_sample(tally.keys as u32) {
        sample(ctx, guard, &run[..tally.keys as usize]);
    }
    let counters = visit.counters();
    counters.cmd_get.add(tally.reads);
    counters.get_hits.add(tally.hits);
    counters.get_misses.add(tally.reads - tally.hits);
    end
}

/// Starts reads from flash for the keys that follow a parked key, so that the reads overlap.
#[cold]
fn request_from_flash<'b, P: Probe<'b>>(guard: &Guard<'_>, run: &[P]) {
    if guard.is_tiered() {
        run.iter().filter(|probe| probe.is_read()).for_each(|probe| guard.tier().request(probe.key()));
    }
}

/// Samples keys of the run for the statistics of hot keys.
#[cold]
#[inline(never)]
fn sample<'b, P: Probe<'b>>(ctx: &mut WorkerContext, guard: &Guard<'_>, run: &[P]) {
    let mut from = 0;
    while let Some(place) = ctx.sampler.next(from, run.len() as u32) {
        let probe = &run[place as usize];
        ctx.sample(guard, probe.key(), probe.is_read());
        from = place + 1;
    }
}

/// The counts of a run that are not yet added to the worker's counters.
#[derive(Default)]
struct Tally {
    /// The number of keys that were answered.
    keys: u64,
    /// The number of answered keys whose request was a read.
    reads: u64,
    /// The number of reads whose key existed.
    hits: u64,
    /// The kind of the requests that are not accounted for yet.
    command: Command,
    /// The number of those requests.
    requests: usize,
}

impl Tally {
    #[inline(always)]
    fn key(&mut self, is_read: bool, hit: bool) {
        self.keys += 1;
        self.reads += u64::from(is_read);
        self.hits += u64::from(is_read && hit);
    }
}
