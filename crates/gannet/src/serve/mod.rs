//! `gannet serve`: settings, then the server, then signals until it ends.

mod args;

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ArgMatches;
use command::namespaces::DEFAULT_NAME;
use command::session::Protocol;
use io::listen::ListenAddr;
use io::signal::{Signal, Signals};
use rustix::mm::{MlockAllFlags, mlockall};
use server::admin::{Bound, RunningSettings};
use server::config::file::Origins;
use server::config::host::{Host, raise_files_limit};
use server::config::kinds::{Endpoint, Pin};
use server::config::table::Reload;
use server::config::value::{Auto, Wrong};
use server::config::{Fault, Origin, Plan, Settings, live, plan::plan, remedy};
use server::handover::Names;
use server::log::Log;
use server::place::{self, Asked};
use server::shared::Shared;
use server::start::{Running, Server, StartError};

pub use args::command;

use crate::Failure;
use crate::doctor::plan::{for_this_process, pins};
use crate::upgrade::{self, Served, Upgrade};

/// Runs the server until a signal or a client ends it.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let refused = args::refused(matches);
    if !refused.is_empty() {
        return Err(Failure::Usage(refused));
    }
    let (settings, origins, unpinned) = planned(matches).map_err(faults)?;
    let plan = plan(&settings, &origins, &Host::probe());
    let mut plan = plan.map_err(|faults| failed(faults.iter().map(Fault::to_string)))?;
    plan.notes.extend(unpinned);
    plan.server.config_file = matches.get_one::<String>("CONFIG").map(std::path::PathBuf::from);
    plan.server.file_reset = matches.get_flag(args::FILE_RESET);
    if plan.server.file_reset && plan.server.file.is_none() {
        return Err(Failure::Usage(vec!["--file-reset: no file is named; give it with --file".to_owned()]));
    }
    if plan.server.file_reset && matches.get_flag(args::UPGRADE) {
        return Err(Failure::Usage(vec![
            "--file-reset and --upgrade: what is taken over is not thrown away".to_owned(),
        ]));
    }
    plan.server.flash_reset = matches.get_flag(args::FLASH_RESET);
    if plan.server.flash_reset && plan.server.flash.is_empty() {
        return Err(Failure::Usage(vec!["--flash-reset: no device is named; give it with --flash".to_owned()]));
    }
    if plan.server.flash_reset && matches.get_flag(args::UPGRADE) {
        return Err(Failure::Usage(vec![
            "--flash-reset and --upgrade: what is taken over is not thrown away".to_owned(),
        ]));
    }
    let memory_said = settings.memory.said().is_some();
    let upgrade = matches.get_flag(args::UPGRADE).then_some(Upgrade { memory_said });
    let matches = matches.clone();
    let read = Box::new(move || chosen(&matches));
    host(Hosted { plan, origins, read, up: Box::new(|_| {}), bind_code: 1, upgrade })
}

/// The settings.
fn chosen(matches: &ArgMatches) -> Result<(Settings, Origins), Vec<Fault>> {
    planned(matches).map(|(settings, origins, _)| (settings, origins))
}

/// Returns the settings, and the reason if a plan was requested and pins nothing. If no listener is
/// named, the server listens on the ports that clients try first, that of Redis too.
fn planned(matches: &ArgMatches) -> Result<(Settings, Origins, Option<String>), Vec<Fault>> {
    let (mut settings, origins) = args::settings(matches)?;
    let unpinned = place(&mut settings, &origins)?;
    if !origins.contains_key("listen.memcached") && !origins.contains_key("listen.resp") {
        settings.resp = vec![Endpoint::Tcp(([127, 0, 0, 1], 6379).into())];
    }
    Ok((settings, origins, unpinned))
}

/// `threads.pin = "auto"`: the workers that have CPUs of their own by the plan for this host, and those CPUs; or
/// why it pins none.
fn place(settings: &mut Settings, origins: &Origins) -> Result<Option<String>, Vec<Fault>> {
    if settings.pin != Pin::Auto {
        return Ok(None);
    }
    let workers = settings.workers.said().map(|workers| workers as usize);
    let fault = |why: String| {
        let origin = origins.get("threads.pin").cloned().unwrap_or(Origin::Default);
        vec![Fault::new(origin, "threads.pin", Wrong::new(why, "name the CPUs, as in \"0-3,8\", or \"none\""))]
    };
    let wanted = doctor::Wanted { workers, ..doctor::Wanted::default() };
    match pins(&for_this_process(&wanted).map_err(fault)?) {
        Err(why) => {
            settings.pin = Pin::None;
            Ok(Some(format!("threads.pin = \"auto\" pins nothing here: {why}")))
        }
        Ok(mut cpus) => {
            cpus.truncate(server::start::WORKERS_MAX);
            settings.workers = Auto::Is(cpus.len() as u64);
            settings.pin = Pin::Cpus(cpus);
            Ok(None)
        }
    }
}

/// Reads the settings once more, or says all that is wrong with them.
pub type Reread = Box<dyn Fn() -> Result<(Settings, Origins), Vec<Fault>> + Send>;

/// The exit code when the memory file fails.
const BUS_ERROR_CODE: i32 = 74;

/// The environment of a server of this process.
pub struct Hosted {
    /// The plan that it starts with.
    pub plan: Plan,
    /// The origins of its settings.
    pub origins: Origins,
    /// Reads the settings once more, for a reload.
    pub read: Reread,
    /// Called when clients can connect.
    pub up: Box<dyn FnOnce(&Running)>,
    /// The exit code when an address cannot be listened on.
    pub bind_code: u8,
    /// It takes over from the server that runs.
    pub upgrade: Option<Upgrade>,
}

/// Runs the server until a signal or a client ends it, or another process takes over.
pub fn host(hosted: Hosted) -> Result<(), Failure> {
    let Hosted { mut plan, origins, read, up, bind_code, upgrade } = hosted;
    let log = Log::start(plan.resolved.log_level).map_err(|error| failed([error.to_string()]))?;
    let signals = Signals::take_over().map_err(|error| failed([format!("cannot handle signals: {error}")]))?;
    raise_files_limit(plan.files)
        .map_err(|error| failed([format!("cannot open {} files: {error}; raise `ulimit -n`", plan.files)]))?;
    let start_failed = |error: StartError| match error {
        StartError::Bind { .. } => Failure::Code(bind_code, vec![remedy::start_error(&error)]),
        _ => failed([remedy::start_error(&error)]),
    };
    let taking = upgrade.map(|upgrade| upgrade.begin(&mut plan, &start_failed)).transpose()?.flatten();
    let admin = plan.server.admin.filter(|addr| !taking.as_ref().is_some_and(|taking| taking.has_admin(*addr)));
    let admin = bind_admin(admin)?;
    lock_memory(&plan);
    end_on_bus_error(&plan)?;
    let served = match taking {
        Some(taking) => taking.finish(&plan, admin)?,
        None => {
            let running = Server::start(plan.server.clone()).map_err(start_failed)?;
            Served { running, admin, names: Names::default(), before: None }
        }
    };
    live::apply(&plan.resolved, served.running.shared());
    let settings: RunningSettings = Arc::new(Mutex::new((plan.resolved.clone(), origins)));
    let handle = signals.handle();
    let shared = Arc::new(Mutex::new(Arc::clone(served.running.shared())));
    let reloader = Reloader { read, settings: Arc::clone(&settings), log, shared: Arc::clone(&shared) };
    let listener = std::thread::Builder::new().name("signals".to_owned()).spawn(move || reloader.run(signals));
    let listener = listener.map_err(|error| failed([format!("cannot create a thread: {error}")]))?;
    let tell = |running: &Running, admin| {
        announce(&plan, running, admin);
        up(running);
    };
    let ended = upgrade::serve(served, &plan.server, &settings, &shared, tell);
    handle.close();
    let _ = listener.join();
    if ended.is_ok() {
        tracing::info!("stopped");
    }
    ended
}

/// Binds the admin port, if one is configured.
pub(crate) fn bind_admin(addr: Option<SocketAddr>) -> Result<Option<Bound>, Failure> {
    let bind = |addr| Bound::bind(addr).map_err(|error| failed([remedy::admin_error(addr, &error)]));
    addr.map(bind).transpose()
}

/// Ends the process with a line when its memory file fails.
fn end_on_bus_error(plan: &Plan) -> Result<(), Failure> {
    let Some(path) = &plan.server.file else { return Ok(()) };
    let path = path.display();
    let line = format!(
        "the memory file {path} cannot be read or written any more: it was cut short, its disk failed, or its \
         file system is full; the server ends, and what the file holds is taken over by the next one"
    );
    io::signal::end_on_bus_error(&line, BUS_ERROR_CODE)
        .map_err(|error| failed([format!("cannot handle signals: {error}")]))
}

/// Locks each page when it is first used: far more address space is reserved than will ever be. Memory that the kernel
/// does not lock is swapped out as any other: no reason not to serve.
fn lock_memory(plan: &Plan) {
    if plan.resolved.lock
        && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
    {
        tracing::warn!("cannot lock memory: {error}; raise `ulimit -l`, or grant CAP_IPC_LOCK");
    }
}

/// Faults of flags are faults of usage; a fault of the file alone is not.
fn faults(faults: Vec<Fault>) -> Failure {
    let lines = faults.iter().map(Fault::to_string).collect();
    if faults.iter().any(|fault| matches!(fault.origin, Origin::Flag(_))) {
        Failure::Usage(lines)
    } else {
        Failure::Failed(lines)
    }
}

pub(crate) fn failed(lines: impl IntoIterator<Item = String>) -> Failure {
    Failure::Failed(lines.into_iter().collect())
}

/// Says where it listens, what it took, and how to try it.
fn announce(plan: &Plan, running: &Running, admin: Option<SocketAddr>) {
    let asked = Asked { memory_bytes: plan.server.memory_bytes, huge_pages: plan.server.huge_pages };
    let placed = plan.server.file.iter().flat_map(|path| place::warnings(path, asked));
    for note in plan.notes.iter().cloned().chain(placed) {
        tracing::warn!("{note}");
    }
    let settings = &plan.resolved;
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        memory = settings.memory.said().map(tracing::field::display),
        workers = plan.server.workers,
        maxconns = plan.server.connections_max,
        pid = std::process::id(),
        "gannet is up"
    );
    if let (Some(file), Some(reopened)) = (running.shared().store.file(), running.shared().store.reopened()) {
        log_file(file.path(), reopened, running.shared().opened_in);
    }
    for (door, addr) in running.doors() {
        let (protocol, name) = (door.protocol, running.shared().namespaces.name(door.namespace));
        let space = if name == DEFAULT_NAME { String::new() } else { format!(" for the namespace {name}") };
        tracing::info!("{} clients connect to {addr}{space}; try: {}", protocol.name(), trial(protocol, addr));
    }
    if let Some(admin) = admin {
        tracing::info!("metrics are at http://{admin}/metrics; http://{admin}/ lists every page");
    }
}

/// Says what was found in the memory file.
fn log_file(path: &std::path::Path, reopened: &segment::Reopened, took: std::time::Duration) {
    let path = path.display();
    if reopened.lost_all {
        tracing::warn!("power was lost before the first checkpoint of {path}; its contents are discarded");
    }
    if reopened.lost {
        tracing::warn!(
            "power was lost while {path} was in use: the server resumes from the checkpoint of {} s since 1970; {} \
             segments of that checkpoint were emptied since",
            reopened.checkpoint_ms / 1000,
            reopened.segments_emptied
        );
    }
    if reopened.flash_emptied {
        tracing::warn!("power was lost: all items on flash are lost, since checkpoints do not cover them");
    }
    if reopened.unsynced {
        tracing::warn!(
            "the machine restarted since {path} was in use, and no checkpoints were made: its latest writes may be \
             lost; --file-reset discards the file, and --checkpoint makes the next loss of power recoverable"
        );
    }
    if !reopened.found {
        return tracing::info!("the memory lies in {path}, which was made");
    }
    let left = if reopened.clean { "was left in order" } else { "was left by a process that was killed" };
    let took_ms = took.as_millis();
    let (items, open, held, undone) =
        (reopened.items, reopened.segments_open, reopened.stripes_held, reopened.groups_undone);
    if reopened.rebuilds_index {
        tracing::info!(
            "the memory lies in {path}, which {left}: the index is being rebuilt for about {items} items, and those \
             that are not found yet are misses; {open} segments were open; {undone} transactions were cut and are \
             undone; it took {took_ms} ms"
        );
    } else {
        tracing::info!(
            "the memory lies in {path}, which {left}: {items} items are there; {open} segments were open and \
             {held} changes under way; {undone} transactions were cut and are undone; it took {took_ms} ms"
        );
    }
    if reopened.flash_items > 0 {
        tracing::info!("{} more items are there on flash", reopened.flash_items);
    }
    if reopened.flash_lost > 0 {
        tracing::warn!("{} items are gone with the devices that they were on", reopened.flash_lost);
    }
    if reopened.clock_behind_ms > 0 {
        tracing::warn!(
            "the wall clock is {} ms behind where it would be by the last process: times to live go on from where they \
             stood then",
            reopened.clock_behind_ms
        );
    }
}

/// A line that a person can paste into a shell. It needs bash alone where it can.
fn trial(protocol: Protocol, addr: &ListenAddr) -> String {
    let session = match protocol {
        Protocol::Memcache => r"printf 'set k 0 60 5\r\nhello\r\nget k\r\nquit\r\n'",
        Protocol::Resp => r"printf 'set k hello ex 60\r\nget k\r\nquit\r\n'",
    };
    match addr {
        ListenAddr::Tcp(addr) => {
            let host = if addr.ip().is_unspecified() { "127.0.0.1".to_owned() } else { addr.ip().to_string() };
            format!("exec 3<>/dev/tcp/{host}/{}; {session} >&3; cat <&3", addr.port())
        }
        ListenAddr::Unix { path, .. } => format!("{session} | nc -N -U {}", path.display()),
    }
}

/// The targets of a signal.
struct Reloader {
    read: Reread,
    settings: RunningSettings,
    log: Log,
    /// Of the server that runs now: another one when a hand-over failed.
    shared: Arc<Mutex<Arc<Shared>>>,
}

impl Reloader {
    fn run(self, mut signals: Signals) {
        while let Some(signal) = signals.wait() {
            match signal {
                Signal::Stop => {
                    tracing::info!("stopping: requests in flight are finished");
                    self.shared().request_stop();
                }
                Signal::Reload => self.reload(),
            }
        }
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the settings again. A fault changes nothing.
    fn reload(&self) {
        let shared = self.shared();
        shared.reload_users();
        let wanted = (self.read)().and_then(|(settings, origins)| {
            let resolved = plan(&settings, &origins, &Host::probe())?.resolved;
            Ok((settings, resolved, origins))
        });
        let (said, wanted, origins) = match wanted {
            Ok(wanted) => wanted,
            Err(faults) => {
                for fault in faults {
                    tracing::error!("reload: {fault}");
                }
                tracing::error!("nothing was reloaded");
                return;
            }
        };
        let mut running = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(wrong) = live::resize(&running.0, &wanted, &shared) {
            let origin = origins.get("store.memory").cloned().unwrap_or(Origin::Default);
            tracing::error!("reload: {}", Fault::new(origin, "store.memory", wrong));
            tracing::error!("nothing was reloaded");
            return;
        }
        for change in live::changes(&running.0, &wanted) {
            let (before, after) = (change.before, change.after);
            match change.reload {
                Reload::Live => tracing::info!("{} was {before} and is {after}", change.path),
                Reload::Restart => tracing::warn!("{} stays {before}; {after} needs a restart", change.path),
            }
        }
        for line in live::namespaces(&mut running.0, &said, &shared) {
            tracing::info!("{line}");
        }
        live::take(&mut running, &wanted, &origins);
        self.log.set_level(running.0.log_level);
        live::apply(&running.0, &shared);
        tracing::info!("reloaded");
    }
}
