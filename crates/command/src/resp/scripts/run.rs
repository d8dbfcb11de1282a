//! Runs a script: resumes it, and executes the commands that it calls.

use super::cached::take_machine;
use crate::keyspace::scripts::{BUSY_MS, Execution};
use crate::metrics::command_stats::Outcome;
use crate::resp::acl::{self, KnownKeys};
use crate::resp::atomic;
use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::catalog::{self, CommandSpec, Flag};
use crate::resp::databases;
use crate::resp::error::ErrorReply;
use crate::resp::own_transaction;
use crate::resp::session::CommandOrigin;
use crate::resp::state::Answers;
use crate::resp::state::script::{NextStep, Registration, RunningScript, ScriptLimits};
use crate::resp::state::transaction::{Stage, Transaction};
use crate::resp::subcommands::find_subcommand;
use crate::resp::support::absent_of;
use crate::resp::tracking;
use crate::visit::out::Position;
use crate::visit::pace::SLICE_NS_MAX;
use crate::visit::progress::SessionWait;
use protocol::resp::{ARGS_MAX, Args, BULK_BYTES_MAX, Limits, Parsed, Parser, Version};
use script::{HEAP_BYTES_MAX, Input, MachineEvent, Script};
use segment::Namespace;
use std::sync::atomic::{AtomicBool, Ordering::Acquire, Ordering::Release};
use std::sync::{Arc, OnceLock};

/// The maximum number of words of a request that `FUNCTION STATS` shows.
const COMMAND_WORDS_MAX: usize = 32;
// A word of a called command is a value of the script.
const _: () = assert!(HEAP_BYTES_MAX < BULK_BYTES_MAX as usize);
/// The cost of the instructions between two ticks, in operations, and of the fewer ones before a short tick.
const OPS_A_TICK: usize = 32;
const OPS_A_SHORT_TICK: usize = 4;
/// The time within which a tick comes soon: a quarter of a slice.
const SOON_NS_MAX: u64 = SLICE_NS_MAX / 4;

/// Creates the state of a script that begins, or of the function of a library.
pub(super) fn create<'c>(
    call: &mut Call<'c, '_>,
    (script, function): (Arc<Script>, Option<Box<[u8]>>),
    limits: ScriptLimits,
    words: Args<'c>,
    keys: usize,
) -> Result<Box<RunningScript>, Interrupt> {
    let mut machine = take_machine(call)?;
    let heap_before = machine.heap_bytes() as u64;
    machine.begin(script, words, keys, call.session.version == Version::Resp3);
    if let Some(name) = &function {
        machine.call_function(name);
    }
    let inner = own_transaction::take_empty(call);
    let execution = Execution {
        began: call.ctx.now,
        has_written: AtomicBool::new(false),
        is_killed: AtomicBool::new(false),
        function,
        command: OnceLock::new(),
    };
    Ok(Box::new(RunningScript {
        machine,
        next: NextStep::Resume(Input::Run),
        limits,
        inner,
        is_calling: false,
        wanted: Vec::new(),
        moment: call.moment(),
        namespace: call.session.namespace,
        execution: Arc::new(execution),
        registration: None,
        heap_before,
    }))
}

/// Continues a script. If it is not complete at the end of the visit, the session retains it.
pub(super) fn continue_script<'c>(
    call: &mut Call<'c, '_>,
    mut running: Box<RunningScript>,
    (name, args): (&'static str, Args<'c>),
) -> Run {
    let outside = Outside::replace(call, &running);
    let ran = advance(call, &mut running, (name, args));
    outside.restore(call, &mut running);
    match ran {
        Err(Interrupt::State(state)) => {
            if running.registration.is_none() {
                let words = std::iter::once(name.as_bytes()).chain(args).take(COMMAND_WORDS_MAX);
                let _ = running.execution.command.set(words.map(Box::from).collect());
                running.registration = Some(Registration::new(&call.ctx.shared, &running.execution));
            }
            call.session.script = Some(running);
            Err(state.into())
        }
        ended => {
            end(call, *running);
            ended
        }
    }
}

/// Releases what an ended script holds.
fn end(call: &mut Call<'_, '_>, running: RunningScript) {
    let shared = Arc::clone(&call.ctx.shared);
    own_transaction::recycle(running.inner, call.ctx);
    call.ctx.scripts.return_machine(running.machine, &shared.scripts, running.heap_before);
}

/// The state of the session and the worker that a script replaces while it runs.
struct Outside {
    namespace: segment::Namespace,
    version: Version,
    answers: Answers,
    now: base::clock::UnixMillis,
    lead_ms: i64,
}

impl Outside {
    fn replace(call: &mut Call<'_, '_>, running: &RunningScript) -> Self {
        let (session, ctx) = (&mut *call.session, &mut *call.ctx);
        let outside = Self {
            namespace: std::mem::replace(&mut session.namespace, running.namespace),
            version: session.version,
            answers: std::mem::replace(&mut session.answers, Answers::All),
            now: std::mem::replace(&mut ctx.now, running.moment.now),
            lead_ms: std::mem::replace(&mut ctx.wall_lead_ms, running.moment.wall_lead_ms),
        };
        call.guard.set_now(running.moment.now);
        session.origin = CommandOrigin::Script;
        outside
    }

    fn restore(self, call: &mut Call<'_, '_>, running: &mut RunningScript) {
        running.namespace = std::mem::replace(&mut call.session.namespace, self.namespace);
        (call.session.version, call.session.answers) = (self.version, self.answers);
        call.session.origin = CommandOrigin::Client;
        (call.ctx.now, call.ctx.wall_lead_ms) = (self.now, self.lead_ms);
        call.guard.set_now(self.now);
    }
}

/// Runs the script until it ends, must wait or has used up the visit.
fn advance<'c>(call: &mut Call<'c, '_>, running: &mut RunningScript, request: (&'static str, Args<'c>)) -> Run {
    let mut are_keys_tracked = false;
    let mut begun = call.ctx.clock.ticks();
    loop {
        let event = match running.next {
            NextStep::Resume(input) => {
                let input = if must_end(call, running) { Input::Kill } else { input };
                running.machine.step(input)
            }
            NextStep::Act(event) => event,
        };
        running.next = NextStep::Act(event);
        match event {
            MachineEvent::Call => {
                execute_command(call, running, (request, &mut are_keys_tracked))?;
                running.next = NextStep::Resume(Input::Reply);
            }
            MachineEvent::Rights => {
                reply_rights(call, running);
                running.next = NextStep::Resume(Input::Reply);
            }
            MachineEvent::ShortTick => {
                let now = call.ctx.clock.ticks();
                let is_soon = call.ctx.clock.ns_between(begun, now) < SOON_NS_MAX;
                begun = now;
                running.next = NextStep::Resume(if is_soon { Input::ContinueLonger } else { Input::Continue });
                call.ops += OPS_A_SHORT_TICK;
                if call.is_slice_used() {
                    return Err(SessionWait::Yield.into());
                }
            }
            MachineEvent::Tick | MachineEvent::Idle => {
                running.next = NextStep::Resume(Input::Continue);
                call.ops += OPS_A_TICK;
                if call.is_slice_used() {
                    return Err(SessionWait::Yield.into());
                }
            }
            MachineEvent::Done => return reply_result(call, running),
        }
    }
}

/// Returns true if the script must end: it was killed, or the server stops.
fn must_end(call: &Call<'_, '_>, running: &RunningScript) -> bool {
    if running.registration.is_none() {
        return false;
    }
    let has_written = running.execution.has_written.load(Acquire);
    let age_ms = call.ctx.clock.unix().ms_since(running.execution.began);
    running.execution.is_killed.load(Acquire)
        || call.ctx.shared.host.is_stopping() && (!has_written || age_ms > BUSY_MS)
}

/// Writes the script's result.
fn reply_result(call: &mut Call<'_, '_>, running: &RunningScript) -> Run {
    let length = running.machine.with_result(<[u8]>::len);
    call.room(length)?;
    running.machine.with_result(|result| call.out.push(result));
    Ok(())
}

/// Executes the command that the script calls, and passes the reply to the script. Before the first command that reads,
/// enters the keys of the script's own `request` into the table of tracked keys, as Redis does.
fn execute_command<'c>(
    call: &mut Call<'c, '_>,
    running: &mut RunningScript,
    ((name, args), are_keys_tracked): ((&'static str, Args<'c>), &mut bool),
) -> Run {
    if !running.is_calling {
        if let Err(error) = begin_command(call, running)? {
            running.machine.set_reply(|out| {
                out.push(b'-');
                out.extend_from_slice(error.as_bytes());
                out.extend_from_slice(b"\r\n");
            });
            return Ok(());
        }
        running.is_calling = true;
    }
    if call.session.aside.is_some() && running.inner.only_reads && !*are_keys_tracked {
        tracking::track_keys(call, catalog::entry(name), args);
        *are_keys_tracked = true;
    }
    call.session.version = if running.machine.calls_in_3() { Version::Resp3 } else { Version::Resp2 };
    let begun = call.ctx.clock.ticks();
    let inner = &mut *running.inner;
    let (ops, functions) = (&mut call.ops, call.functions);
    atomic::run(call.guard, inner, call.session, call.ctx, (ops, functions)).map_err(Interrupt::State)?;
    running.is_calling = false;
    let ns = call.ctx.clock.ns_between(begun, call.ctx.clock.ticks());
    if let Some(number) = inner.number {
        call.ctx.command_stats().record(number, Outcome::Done, ns);
    }
    pass_reply(running);
    Ok(())
}

/// Moves the collected reply of a command to the script.
fn pass_reply(running: &mut RunningScript) {
    let RunningScript { machine, inner, .. } = running;
    if inner.replies_dropped {
        machine.set_reply(|reply| reply.extend_from_slice(b"-ERR the reply exceeds this server's limit\r\n"));
        return;
    }
    machine.set_reply(|reply| {
        let start = inner.out.after(Position::default());
        if start.len() == inner.out.collected() {
            reply.extend_from_slice(start);
            return;
        }
        inner.out.finish_block();
        while inner.out.collected() > 0 {
            reply.extend_from_slice(inner.out.first());
            inner.out.drop_first();
        }
    });
}

/// Prepares the execution of the command that the script calls. Returns the text of an error reply if the script may
/// not execute it.
///
/// # Errors
/// If a key of the command must be locked first.
fn begin_command(call: &mut Call<'_, '_>, running: &mut RunningScript) -> Result<Result<(), String>, Interrupt> {
    let RunningScript { machine, inner, .. } = running;
    reset(inner);
    let (words, first) = machine.request_words();
    if words > ARGS_MAX {
        return Ok(Err("ERR the command is too long for a script".into()));
    }
    machine.with_request(|request| inner.queue.extend_from_slice(request));
    let queue = std::mem::take(&mut inner.queue);
    let mut args = Args::resumed(&queue[first..], words);
    inner.words = Some((first, words));
    let name = args.next().unwrap_or_default();
    let checked = match catalog::find(name) {
        None if absent_of(name).is_some() => Err("ERR This Redis command is not allowed from script".into()),
        None => Err("ERR Unknown Redis command called from script".into()),
        Some(entry) => check_command(call, running.limits, entry, args).map(|()| entry),
    };
    let entry = match checked {
        Ok(entry) => entry,
        Err(error) => {
            running.inner.queue = queue;
            return Ok(Err(error));
        }
    };
    if call.guard.locks().is_attached() {
        want_unlocked_keys(call, &mut running.wanted, entry, args);
    }
    running.inner.entry = Some(entry);
    running.inner.only_reads = entry.has(Flag::ReadOnly);
    running.inner.number = Some(acl::number_of_request(entry, args));
    running.inner.queue = queue;
    if !running.wanted.is_empty() {
        return Err(SessionWait::Yield.into());
    }
    if entry.has(Flag::Write) {
        running.execution.has_written.store(true, Release);
    }
    if !running.inner.room_to_answer() {
        return Ok(Err("OOM client memory is used up".into()));
    }
    Ok(Ok(()))
}

/// Appends the keys of a request that are not locked to `wanted`.
fn want_unlocked_keys<'c>(
    call: &Call<'_, '_>,
    wanted: &mut Vec<(Namespace, Box<[u8]>)>,
    entry: &CommandSpec,
    args: Args<'c>,
) {
    let here = call.session.namespace;
    let is_unlocked = |(of, key): &(Namespace, &'c [u8])| !call.guard.locks().is_held(&call.guard.key(*of, key));
    match databases::only_key(entry, args) {
        Some(key) => wanted.extend(Some((here, key)).filter(is_unlocked).map(|(of, key)| (of, key.into()))),
        None => {
            let keys = databases::keys_of((here, &call.ctx.shared.namespaces), entry, args);
            wanted.extend(keys.filter(is_unlocked).map(|(of, key)| (of, key.into())));
        }
    }
}

/// Prepares the transaction of a script's command for the next command.
fn reset(inner: &mut Transaction) {
    inner.queue.clear();
    inner.out.cut_to_spot(Position::default());
    (inner.at, inner.current, inner.answer_at, inner.commands) = (0, None, Position::default(), 1);
    (inner.is_single_command, inner.replies_dropped, inner.stage) = (true, false, Stage::Running);
}

/// Returns the error reply if a script may not execute a command.
fn check_command(
    call: &mut Call<'_, '_>,
    limits: ScriptLimits,
    entry: &'static CommandSpec,
    args: Args<'_>,
) -> Result<(), String> {
    let first = if entry.is_container() { args.into_iter().next() } else { None };
    let part = first.filter(|_| entry.is_container()).and_then(|first| find_subcommand(entry.name, first));
    let accepts = part.is_none_or(|(_, part)| part.accepts_words(args.len() + 1));
    if !entry.accepts_words(args.len() + 1) || !accepts {
        return Err("ERR Wrong number of args calling Redis command from script".into());
    }
    if entry.is_container() && part.is_none() {
        return Err("ERR Unknown Redis command called from script".into());
    }
    if is_refused(entry, first) {
        return Err("ERR This Redis command is not allowed from script".into());
    }
    if call.ctx.shared.config.disabled.iter().any(|name| name == entry.name) {
        return Err(format!("ERR {} is disabled by this server's configuration", entry.name));
    }
    if limits.is_read_only && entry.waits_with_writes(first) {
        return Err("ERR Write commands are not allowed from read-only scripts.".into());
    }
    may_execute(call, entry, args)
}

/// Returns true if no script may execute a command or subcommand.
fn is_refused(entry: &CommandSpec, first: Option<&[u8]>) -> bool {
    let is_help = first.is_some_and(|first| first.eq_ignore_ascii_case(b"help"));
    entry.has(Flag::NoScript) || matches!(entry.name, "client" | "config" | "script" | "function") && !is_help
}

/// Returns the error reply if the client's user may not execute a command.
fn may_execute(call: &mut Call<'_, '_>, entry: &'static CommandSpec, args: Args<'_>) -> Result<(), String> {
    let changes = call.ctx.shared.users.changes();
    if changes == 0 {
        return Ok(());
    }
    call.ctx.admission.user_changes = changes;
    let text = match acl::permit(call, entry, KnownKeys::All(args)) {
        Ok(()) => return Ok(()),
        Err(Interrupt::Fault(ErrorReply::NoKeyPermission)) => {
            "ERR The user executing the script can't access at least one of the keys mentioned in the command arguments"
        }
        Err(Interrupt::Fault(ErrorReply::NoChannelPermission)) => {
            "ERR The user executing the script can't publish to the channel mentioned in the command"
        }
        Err(Interrupt::Fault(ErrorReply::NoNamespacePermission)) => {
            "ERR The user executing the script can't use keys of this database"
        }
        Err(_) => "ERR The user executing the script can't run this command or subcommand",
    };
    Err(text.into())
}

/// Replies to the script whether the client's user may execute a command.
fn reply_rights(call: &mut Call<'_, '_>, running: &mut RunningScript) {
    let request = running.machine.with_request(<[u8]>::to_vec);
    let Parsed::Request { mut args, .. } = Parser::new().parse(&request, &Limits::REDIS) else {
        return running.machine.set_reply(|out| out.extend_from_slice(b"-ERR\r\n"));
    };
    let entry = catalog::find(args.next().unwrap_or_default());
    let allowed = entry.map(|entry| may_execute(call, entry, args).is_ok());
    running.machine.set_reply(|out| {
        out.extend_from_slice(match allowed {
            Some(true) => b":1\r\n",
            Some(false) => b":0\r\n",
            None => b"-ERR\r\n",
        });
    });
}
