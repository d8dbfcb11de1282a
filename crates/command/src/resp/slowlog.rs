//! The commands `SLOWLOG`, `COMMANDLOG` and `LATENCY`, which report durations of requests, and `MEMORY`, which reports
//! the use of memory.
//!
//! The duration of a request has three parts: the wait after the arrival of its bytes, its execution, and the sending
//! of its reply. The commands report requests of all protocols.

use super::catalog::{find, lower};
use super::error::{self, ErrorReply};
use super::help::other_subcommand;
use super::number::integer;
use crate::config::WORKERS_MAX;
use crate::metrics::{Command, Part, SlowReport, SlowRequest, Totals};
use crate::resp::aside;
use crate::resp::call::{Call, Run};
use crate::resp::config;
use crate::resp::info::{self, Named};
use crate::resp::latency_graph::{self, GraphSample};
use crate::resp::typed;
use crate::visit::progress::{REPORT_OPS, SessionWait};
use protocol::resp::{Args, reply};
use segment::Key;

/// The event name under which `LATENCY LATEST` reports slow requests.
const EVENT: &[u8] = b"command";

/// The number of requests that `LATENCY GRAPH` shows at most, as in Redis.
const GRAPH_SAMPLES_MAX: usize = 160;

/// The quantiles that `LATENCY EXPLAIN` reports.
const SHARES: [(&str, f64); 4] = [("p50_us", 0.5), ("p99_us", 0.99), ("p999_us", 0.999), ("max_us", 1.0)];

/// Executes `SLOWLOG GET [count] | LEN | RESET`.
pub(super) fn slowlog<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    call.ops += REPORT_OPS;
    match (&lower(topic)[..], args.len()) {
        (b"get", 0 | 1) => {
            let count = entry_count(args.next())?;
            let slow = logged(call);
            send_log(call, &slow, count)
        }
        (b"len", 0) => {
            let slow = logged(call).len();
            call.int(slow as i64);
            Ok(())
        }
        (b"reset", 0) => {
            reset(call, SlowReport::Log);
            call.out.push(reply::OK);
            Ok(())
        }
        _ => other_subcommand(call, "slowlog", topic),
    }
}

/// Executes `COMMANDLOG GET count log | LEN log | RESET log`, as in Valkey. Large requests and replies are not
/// recorded: their logs are empty.
pub(super) fn commandlog<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    call.ops += REPORT_OPS;
    match (&lower(topic)[..], args.len()) {
        (b"get", 2) => {
            let count = entry_count(args.next())?;
            let slow = if is_slow_log(args.next())? { logged(call) } else { Vec::new() };
            send_log(call, &slow, count)
        }
        (b"len", 1) => {
            let len = if is_slow_log(args.next())? { logged(call).len() } else { 0 };
            call.int(len as i64);
            Ok(())
        }
        (b"reset", 1) => {
            if is_slow_log(args.next())? {
                reset(call, SlowReport::Log);
            }
            call.out.push(reply::OK);
            Ok(())
        }
        _ => other_subcommand(call, "commandlog", topic),
    }
}

/// Returns true if `word` names the log of slow requests, and false if it names another log of `COMMANDLOG`.
fn is_slow_log(word: Option<&[u8]>) -> Result<bool, ErrorReply> {
    match &lower(word.unwrap_or_default())[..] {
        b"slow" => Ok(true),
        b"large-request" | b"large-reply" => Ok(false),
        _ => Err(ErrorReply::CommandLog),
    }
}

/// Parses the maximum number of entries: 10 without a word, and all for -1.
fn entry_count(word: Option<&[u8]>) -> Result<usize, ErrorReply> {
    match word.map_or(Ok(10), integer) {
        Ok(-1) => Ok(usize::MAX),
        Ok(count @ 0..) => Ok(usize::try_from(count).unwrap_or(usize::MAX)),
        _ => Err(ErrorReply::LogCount),
    }
}

/// Replies with at most `count` entries of a log.
fn send_log(call: &mut Call<'_, '_>, slow: &[SlowRequest], count: usize) -> Run {
    let count = count.min(slow.len());
    let mut all = Vec::new();
    reply::array(&mut all, count as u64);
    slow[..count].iter().for_each(|request| put_slow(&mut all, request));
    aside::send_long_reply(call, all)
}

/// Returns the slow requests that `SLOWLOG` reports.
fn logged(call: &Call<'_, '_>) -> Vec<SlowRequest> {
    let shared = &call.ctx.shared;
    let mut slow = slow(call, SlowReport::Log);
    slow.truncate(config::slow_entries(shared));
    slow
}

/// Writes an entry of the slow log in Redis's form. After the words of the request, an additional word gives the times
/// of waiting, execution and sending.
fn put_slow(all: &mut Vec<u8>, request: &SlowRequest) {
    let us = |ns: u64| ns / 1000;
    reply::array(all, 6);
    reply::int(all, (request.number * WORKERS_MAX as u64 + request.worker as u64) as i64);
    reply::int(all, request.at.secs() as i64);
    reply::int(all, us(request.total_ns()) as i64);
    let line = request.line.to_string();
    let words: Vec<&str> = line.split(' ').filter(|word| !word.is_empty()).collect();
    reply::array(all, words.len() as u64 + 1);
    words.iter().for_each(|word| reply::bulk(all, word.as_bytes()));
    let parts = format!(
        "(wait {} us, execute {} us, send {} us)",
        us(request.wait_ns),
        us(request.execute_ns),
        us(request.send_ns)
    );
    reply::bulk(all, parts.as_bytes());
    reply::bulk(all, request.client.to_string().as_bytes());
    reply::bulk(all, request.client.name());
}

/// Executes `LATENCY EXPLAIN | GRAPH event | HISTOGRAM [command ...] | LATEST | HISTORY event | RESET [event ...] |
/// DOCTOR`.
pub(super) fn latency<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    call.ops += REPORT_OPS;
    match (&lower(topic)[..], args.len()) {
        (b"explain", _) => explain(call, args),
        (b"graph", 1) => graph(call, args.next().unwrap_or_default()),
        (b"histogram", _) => histogram(call, args),
        (b"latest", 0) => latest(call),
        (b"history", 1) => history(call, args.next().unwrap_or_default()),
        (b"reset", _) => {
            let ours = args.len() == 0 || args.into_iter().any(|event| event == EVENT);
            let slow = slow(call, SlowReport::Latency);
            if ours {
                reset(call, SlowReport::Latency);
            }
            call.int(i64::from(ours && !slow.is_empty()));
            Ok(())
        }
        (b"doctor", 0) => doctor(call),
        _ => other_subcommand(call, "latency", topic),
    }
}

/// Returns the kind of request that `word` names. `word` is the kind's name in the metrics, or the name of a Redis
/// command of this kind.
fn kind(word: &[u8]) -> Option<Command> {
    let named = Command::ALL.into_iter().find(|command| word.eq_ignore_ascii_case(command.name().as_bytes()));
    named.or_else(|| find(word).map(|entry| entry.kind))
}

/// Removes the slow requests of all workers from a report. They are counted and not compared by time: requests before
/// and after a reset may begin in the same millisecond.
fn reset(call: &Call<'_, '_>, report: SlowReport) {
    call.ctx.shared.workers.iter().for_each(|worker| worker.recorder.slow().reset(report));
}

/// Returns the slow requests of all workers in a report. The latest request is first.
fn slow(call: &Call<'_, '_>, report: SlowReport) -> Vec<SlowRequest> {
    let workers = call.ctx.shared.workers.iter().enumerate();
    let mut slow: Vec<SlowRequest> =
        workers.flat_map(|(number, worker)| worker.recorder.slow().report(report, number)).collect();
    slow.sort_by_key(|request| std::cmp::Reverse((request.at, request.number)));
    slow
}

fn totals(call: &Call<'_, '_>) -> Totals {
    Totals::read(call.ctx.shared.workers.iter().map(|worker| &worker.recorder))
}

/// Returns the kinds that `args` name, or all kinds if `args` is empty. Omits kinds without any requests so far.
fn kinds<'c>(totals: &Totals, args: Args<'c>) -> Vec<Command> {
    let mut kinds: Vec<Command> = Vec::new();
    for command in totals.commands() {
        if args.len() == 0 || args.into_iter().filter_map(kind).any(|wanted| wanted == command) {
            kinds.push(command);
        }
    }
    kinds
}

/// Replies with quantiles of the wait, execution and send times, for each kind of request.
fn explain<'c, 'l>(call: &mut Call<'c, 'l>, args: Args<'c>) -> Run {
    let (version, totals) = (call.session.version, totals(call));
    let (kinds, mut all) = (kinds(&totals, args), Vec::new());
    reply::map(&mut all, version, kinds.len() as u64);
    for command in kinds {
        reply::bulk(&mut all, command.name().as_bytes());
        reply::map(&mut all, version, 1 + Part::ALL.len() as u64);
        reply::bulk(&mut all, b"calls");
        reply::int(&mut all, totals.of(command, Part::Execute).count as i64);
        for part in Part::ALL {
            let counts = totals.of(command, part);
            reply::bulk(&mut all, part.name().as_bytes());
            reply::map(&mut all, version, SHARES.len() as u64);
            for (name, share) in SHARES {
                reply::bulk(&mut all, name.as_bytes());
                reply::double(&mut all, version, counts.quantile_ns(share) as f64 / 1000.0);
            }
        }
    }
    aside::send_long_reply(call, all)
}

/// The number of limits of the buckets of `LATENCY HISTOGRAM`. The longest is a day.
const LIMITS: u32 = 37;

/// Returns true if `word` names the command or subcommand `name`. The name of a command also names its subcommands.
fn is_named(word: &[u8], name: &str) -> bool {
    let of = name.split_once('|').map_or(name, |(command, _)| command);
    [name, of].iter().any(|name| word.eq_ignore_ascii_case(name.as_bytes()))
}

/// Replies with a histogram of execution times for each command, as Redis does. Each bucket counts the requests that
/// took at most its limit: 1024 ns times a power of two, plus the rounding error of Redis's own histogram.
fn histogram<'c, 'l>(call: &mut Call<'c, 'l>, args: Args<'c>) -> Run {
    let version = call.session.version;
    let mut named = info::named_sums(call.ctx.shared.info_since_reset());
    let wanted = |name: &str| args.len() == 0 || args.into_iter().any(|word| is_named(word, name));
    named.retain(|named| named.sums.times.count > 0 && wanted(named.name));
    let mut all = Vec::new();
    reply::map(&mut all, version, named.len() as u64);
    for Named { name, sums } in named {
        let counts = &sums.times;
        let mut buckets: Vec<(u64, u64)> = Vec::new();
        for log2 in 0..=LIMITS {
            let (limit_ns, shown_ns) = ((1024 << log2) - 1, (1024u64 << log2) + (8 << log2) - 1);
            let within = if log2 == LIMITS { counts.count } else { counts.at_most(limit_ns) };
            if within > buckets.last().map_or(0, |(_, before)| *before) {
                buckets.push((shown_ns / 1000, within));
            }
            if within >= counts.count {
                break;
            }
        }
        reply::bulk(&mut all, name.as_bytes());
        reply::map(&mut all, version, 2);
        reply::bulk(&mut all, b"calls");
        reply::int(&mut all, counts.count as i64);
        reply::bulk(&mut all, b"histogram_usec");
        reply::map(&mut all, version, buckets.len() as u64);
        for (us, within) in buckets {
            reply::int(&mut all, us as i64);
            reply::int(&mut all, within as i64);
        }
    }
    aside::send_long_reply(call, all)
}

fn latest(call: &mut Call<'_, '_>) -> Run {
    let slow = slow(call, SlowReport::Latency);
    let ms = |request: &SlowRequest| (request.total_ns() / 1_000_000) as i64;
    let Some(last) = slow.first() else {
        reply::array(call.out, 0);
        return Ok(());
    };
    reply::array(call.out, 1);
    reply::array(call.out, 4);
    reply::bulk(call.out, EVENT);
    reply::int(call.out, last.at.secs() as i64);
    reply::int(call.out, ms(last));
    reply::int(call.out, slow.iter().map(ms).max().unwrap_or(0));
    Ok(())
}

/// Replies with a picture of the times of slow requests.
fn graph(call: &mut Call<'_, '_>, event: &[u8]) -> Run {
    let slow = slow(call, SlowReport::Latency);
    if event != EVENT || slow.is_empty() {
        error::word(call.out, "ERR No samples available for event", event);
        return Ok(());
    }
    let now = call.ctx.now;
    let shown = slow[..slow.len().min(GRAPH_SAMPLES_MAX)].iter().rev();
    let samples =
        shown.map(|request| GraphSample { ms: request.total_ns() / 1_000_000, age_s: now.ms_since(request.at) / 1000 });
    let picture = latency_graph::draw("command", &samples.collect::<Vec<_>>());
    let mut all = Vec::new();
    reply::verbatim(&mut all, call.session.version, b"txt", picture.as_bytes());
    aside::send_long_reply(call, all)
}

fn history(call: &mut Call<'_, '_>, event: &[u8]) -> Run {
    let mut slow = slow(call, SlowReport::Latency);
    if event != EVENT {
        slow.clear();
    }
    let mut all = Vec::new();
    reply::array(&mut all, slow.len() as u64);
    for request in slow.iter().rev() {
        reply::array(&mut all, 2);
        reply::int(&mut all, request.at.secs() as i64);
        reply::int(&mut all, (request.total_ns() / 1_000_000) as i64);
    }
    aside::send_long_reply(call, all)
}

/// Replies with the percentages of waiting, execution and sending in the total time of slow requests, and with a remedy
/// for the largest of them.
fn doctor(call: &mut Call<'_, '_>) -> Run {
    let slow = slow(call, SlowReport::Latency);
    let sum = |part: fn(&SlowRequest) -> u64| slow.iter().map(part).sum::<u64>();
    let parts = [sum(|slow| slow.wait_ns), sum(|slow| slow.execute_ns), sum(|slow| slow.send_ns)];
    let all = parts.iter().sum::<u64>().max(1);
    let most = (0..3).max_by_key(|part| parts[*part]).unwrap_or(0);
    let above_us = call.ctx.shared.workers[call.ctx.worker].recorder.slow_above_ns() / 1000;
    let text = if slow.is_empty() {
        format!("No request took longer than {above_us} us (slowlog-log-slower-than) since the last reset.\n")
    } else {
        let percent = |part: usize| u128::from(parts[part]) * 100 / u128::from(all);
        let remedy = [
            "The largest part was waiting for other requests: give the server more workers, or its own CPUs \
             (threads.pin), and look for large requests in SLOWLOG GET",
            "The largest part was execution: look for commands over many keys in SLOWLOG GET, and split them",
            "The largest part was sending: clients read slowly, values are large, or the network is saturated",
        ][most];
        format!(
            "{} requests took longer than {above_us} us; of their time {} % was waiting, {} % execution and {} % \
             sending.\n{remedy}. LATENCY EXPLAIN has the parts by command.\n",
            slow.len(),
            percent(0),
            percent(1),
            percent(2)
        )
    };
    let mut all = Vec::new();
    reply::verbatim(&mut all, call.session.version, b"txt", text.as_bytes());
    aside::send_long_reply(call, all)
}

/// Executes `MEMORY USAGE key [SAMPLES n] | STATS | DOCTOR | MALLOC-STATS | PURGE`.
pub(super) fn memory<'c>(call: &mut Call<'c, '_>, mut args: Args<'c>) -> Run {
    let topic = args.next().unwrap_or_default();
    match (&lower(topic)[..], args.len()) {
        (b"usage", 1..) => {
            let key = call.key(args.next().unwrap_or_default());
            check_samples(args)?;
            memory_usage(call, &key)
        }
        (b"stats", 0) => super::memory_stats::reply(call),
        (b"doctor", 0) => memory_doctor(call),
        // Redis replies so if its allocator has no statistics.
        (b"malloc-stats", 0) => {
            reply::bulk(call.out, b"Stats not supported for the current allocator");
            Ok(())
        }
        // Free memory is retained for later items, because the configured memory stays reserved.
        (b"purge", 0) => {
            call.out.push(reply::OK);
            Ok(())
        }
        _ => other_subcommand(call, "memory", topic),
    }
}

/// Replies with the number of bytes that a key takes, its slot in the index included. A large value takes several
/// visits, between which `walk.sizes` has the sum so far.
fn memory_usage(call: &mut Call<'_, '_>, key: &Key<'_>) -> Run {
    typed::is_there(call, key)?;
    let mut walk = call.session.walk.take().unwrap_or_default();
    loop {
        let parts = call.guard.parts();
        let Some(item) = call.guard.items().peek(key) else {
            call.null();
            return Ok(());
        };
        // The parts that were added may be those of another value.
        let object = parts.object_of(&item);
        if walk.sizes.as_ref().map(|sizes| sizes.object()) != object {
            walk.sizes = parts.sizes_of(&item).map(Box::new);
        }
        if walk.sizes.as_mut().is_none_or(|sizes| parts.add_sizes(key, sizes, PARTS_A_STEP)) {
            let bytes = walk.sizes.map_or(0, |sizes| sizes.bytes());
            call.int((item.bytes_with_pieces() + SLOT_BYTES + bytes) as i64);
            return Ok(());
        }
        call.ops += PARTS_A_STEP / 4;
        if call.is_slice_used() {
            call.session.walk = Some(walk);
            call.session.done = call.session.done.max(1);
            return Err(SessionWait::Yield.into());
        }
    }
}

/// Checks the options of `MEMORY USAGE`. They have no effect, because all parts of a value are counted.
fn check_samples(mut args: Args<'_>) -> Result<(), ErrorReply> {
    while let Some(word) = args.next() {
        let samples = args.next().filter(|_| word.eq_ignore_ascii_case(b"samples")).ok_or(ErrorReply::Syntax)?;
        if integer(samples)? < 0 {
            return Err(ErrorReply::Syntax);
        }
    }
    Ok(())
}

/// The number of a value's parts whose sizes are added up between two checks whether the slice is used up.
const PARTS_A_STEP: usize = 128;
/// The number of bytes that an item takes in the index.
pub(super) const SLOT_BYTES: u64 = 8;

fn memory_doctor(call: &mut Call<'_, '_>) -> Run {
    call.ops += REPORT_OPS;
    let stats = call.ctx.shared.store_stats();
    let percent = stats.item_bytes * 100 / stats.memory_bytes.max(1);
    let what = if percent < 80 {
        "There is room."
    } else if !call.ctx.shared.store.keeps(call.session.namespace) {
        "The memory is full of items, and those that are requested least are evicted, as is normal for a cache."
    } else {
        "The memory is nearly full, and eviction is off: raise the memory limit, or delete items."
    };
    let text = format!("Items take {percent} % of {} bytes of memory. {what}\n", stats.memory_bytes);
    reply::verbatim(call.out, call.session.version, b"txt", text.as_bytes());
    Ok(())
}
