//! `gannet serve`: reads the settings, runs the server, and handles signals until it ends.

mod args;
mod notify;
mod upgrade;

use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::{Arc, Mutex, PoisonError};

use clap::ArgMatches;
use command::clients::audit::{AuditEvent, AuditOrigin};
use command::clients::endpoint::Protocol;
use command::keyspace::namespaces::DEFAULT_NAME;
use io::listen::ListenAddr;
use io::signal::{Signal, Signals};
use rustix::mm::{MlockAllFlags, mlockall};
use server::admin::{Bound, RunningSettings};
use server::config::file::Origins;
use server::config::host::{Host, raise_files_limit};
use server::config::kinds::Pin;
use server::config::table::Reload;
use server::config::value::{Auto, Wrong};
use server::config::{ConfigFault, Origin, Plan, Settings, live, plan::plan, remedy};
use server::handover::Names;
use server::log::Log;
use server::place::{self, Requirements};
use server::shared::Shared;
use server::start::sandbox::{self, Role};
use server::start::{Running, Server, StartError};
use tls::ClientAuth;

pub use args::command;
pub(crate) use notify::{stopping, taken_over};

use crate::Failure;
use crate::doctor::plan::{for_this_process, pins};
use upgrade::{Served, Upgrade};

/// Runs the server until a signal or a client ends it.
pub fn run(matches: &ArgMatches) -> Result<(), Failure> {
    let refused = args::refused(matches);
    if !refused.is_empty() {
        return Err(Failure::Usage(refused));
    }
    let (settings, origins, unpinned) = planned(matches).map_err(faults)?;
    let plan = plan(&settings, &origins, &Host::probe());
    let mut plan = plan.map_err(|faults| failed(faults.iter().map(ConfigFault::to_string)))?;
    plan.notes.extend(unpinned);
    plan.server.config_file = matches.get_one::<String>("CONFIG").map(PathBuf::from);
    plan.server.file_reset = matches.get_flag(args::FILE_RESET);
    if plan.server.file_reset && plan.server.file.is_none() {
        return Err(Failure::Usage(vec!["--file-reset: there is no memory file; pass it with --file".to_owned()]));
    }
    if plan.server.file_reset && matches.get_flag(args::UPGRADE) {
        return Err(Failure::Usage(vec![
            "--file-reset and --upgrade exclude each other: memory that is taken over is not discarded".to_owned(),
        ]));
    }
    plan.server.flash_reset = matches.get_flag(args::FLASH_RESET);
    if plan.server.flash_reset && plan.server.flash.is_empty() {
        return Err(Failure::Usage(vec!["--flash-reset: there is no flash device; pass it with --flash".to_owned()]));
    }
    if plan.server.flash_reset && matches.get_flag(args::UPGRADE) {
        return Err(Failure::Usage(vec![
            "--flash-reset and --upgrade exclude each other: flash that is taken over is not discarded".to_owned(),
        ]));
    }
    let memory_said = settings.memory.explicit().is_some();
    let upgrade = matches.get_flag(args::UPGRADE).then_some(Upgrade { has_memory_setting: memory_said });
    let (matches, placed) = (matches.clone(), (settings.workers, settings.pin));
    let read = Box::new(move || chosen_again(&matches, &placed));
    let (describe, discards) = (remedy::start_error, |_: &StartError| None);
    let up = Box::new(|_: &Running| {});
    host(Hosted {
        plan,
        origins,
        read,
        up,
        bind_code: 1,
        describe,
        discards,
        upgrade,
        writes: Vec::new(),
        has_core_files: false,
    })
}

/// Returns the settings from the arguments and the configuration file, read again by a running server. `placed` is its
/// number of workers and their CPUs. An automatic choice of CPUs is not repeated, because only a restart could follow
/// it, and it executes programs, which the sandbox refuses.
fn chosen_again(matches: &ArgMatches, placed: &(Auto<u64>, Pin)) -> Result<(Settings, Origins), Vec<ConfigFault>> {
    let (mut settings, origins) = chosen(matches)?;
    if settings.pin == Pin::Auto {
        (settings.workers, settings.pin) = placed.clone();
    }
    Ok((settings, origins))
}

/// Returns the settings. If a CPU plan was requested but pins no workers, also returns the reason.
fn planned(matches: &ArgMatches) -> Result<(Settings, Origins, Option<String>), Vec<ConfigFault>> {
    let (mut settings, origins) = chosen(matches)?;
    let unpinned = place(&mut settings, &origins)?;
    Ok((settings, origins, unpinned))
}

/// Returns the settings from the arguments and the configuration file. If no address of a listener is configured, the
/// server listens on the default port of Redis, and on that of memcached unless `none` turns it off.
fn chosen(matches: &ArgMatches) -> Result<(Settings, Origins), Vec<ConfigFault>> {
    let (mut settings, origins) = args::settings(matches)?;
    let has_none_for_memcached = !origins.contains_key("listen.memcached") || settings.memcached.is_empty();
    if has_none_for_memcached && ["listen.resp", "listen.grpc"].iter().all(|path| !origins.contains_key(*path)) {
        settings.listen_on_default_ports();
    }
    Ok((settings, origins))
}

/// Applies `threads.pin = "auto"`: pins the workers to the CPUs of the plan for this host. If the plan pins no workers,
/// returns the reason.
fn place(settings: &mut Settings, origins: &Origins) -> Result<Option<String>, Vec<ConfigFault>> {
    if settings.pin != Pin::Auto {
        return Ok(None);
    }
    let workers = settings.workers.explicit().map(|workers| workers as usize);
    let fault = |why: String| {
        let origin = origins.get("threads.pin").cloned().unwrap_or(Origin::Default);
        vec![ConfigFault::new(origin, "threads.pin", Wrong::new(why, "name the CPUs, as in \"0-3,8\", or \"none\""))]
    };
    let wanted = doctor::Wanted { workers, ..doctor::Wanted::default() };
    match pins(&for_this_process(&wanted).map_err(fault)?) {
        Err(why) => {
            settings.pin = Pin::None;
            Ok(Some(format!("threads.pin = \"auto\" pins no CPUs: {why}")))
        }
        Ok(mut cpus) => {
            cpus.truncate(server::start::WORKERS_MAX);
            settings.workers = Auto::Is(cpus.len() as u64);
            settings.pin = Pin::Cpus(cpus);
            Ok(None)
        }
    }
}

/// A function that reads the settings again, and returns all faults if there are any.
pub type Reread = Box<dyn Fn() -> Result<(Settings, Origins), Vec<ConfigFault>> + Send>;

/// The exit code if access to the mapped memory file fails (SIGBUS).
const BUS_ERROR_CODE: i32 = 74;

/// The input of [`host`]: the plan of the server, and the functions that depend on the subcommand.
pub struct Hosted {
    /// The plan that the server starts with.
    pub plan: Plan,
    /// The origin of each setting.
    pub origins: Origins,
    /// Reads the settings again, for a reload.
    pub read: Reread,
    /// Function that is called once, when clients can connect.
    pub up: Box<dyn FnOnce(&Running)>,
    /// The exit code if an address cannot be bound.
    pub bind_code: u8,
    /// Describes an error of the start, with a remedy.
    pub describe: fn(&StartError) -> String,
    /// Returns a note if the server is to start with an empty memory file after this error.
    pub discards: fn(&StartError) -> Option<String>,
    /// Set if this process takes over from a running server.
    pub upgrade: Option<Upgrade>,
    /// The files that `up` writes.
    pub writes: Vec<PathBuf>,
    /// True if the kernel is to write a core file when the process crashes.
    pub has_core_files: bool,
}

/// Runs the server until a signal or a client ends it, or another process takes over. If it fails, the reasons are
/// logged in the format of the log, or returned if that is text.
pub fn host(mut hosted: Hosted) -> Result<(), Failure> {
    if !hosted.plan.resolved.no_sandbox {
        let mut folders = sandbox::folders(&hosted.plan.server);
        hosted.writes.iter().for_each(|path| folders.change_beside(path));
        if hosted.has_core_files {
            folders.core_files();
        }
        // Before the first thread starts.
        hosted.plan.notes.extend(sandbox::enter(&folders));
    } else {
        hosted.plan.notes.push("the server runs without its sandbox (--no-sandbox)".to_owned());
    }
    let resolved = &hosted.plan.resolved;
    let log = Log::start(resolved.log_level, resolved.log_format).map_err(|error| failed([error.to_string()]))?;
    let log = Arc::new(log);
    logged(hosted, &log).map_err(|failure| match failure {
        Failure::Usage(lines) => Failure::Usage(log.last_lines(lines)),
        Failure::Failed(lines) => Failure::Failed(log.last_lines(lines)),
        Failure::Code(code, lines) => Failure::Code(code, log.last_lines(lines)),
    })
}

/// Runs the server with a started log.
fn logged(hosted: Hosted, log: &Arc<Log>) -> Result<(), Failure> {
    let Hosted { mut plan, origins, read, up, bind_code, describe, discards, upgrade, .. } = hosted;
    // Later the sandbox creates no sockets.
    notify::open();
    let signals = Signals::take_over().map_err(|error| failed([format!("cannot handle signals: {error}")]))?;
    raise_files_limit(plan.files)
        .map_err(|error| failed([format!("cannot open {} files: {error}; raise `ulimit -n`", plan.files)]))?;
    let start_failed = |error: StartError| match error {
        StartError::Bind { .. } => Failure::Code(bind_code, vec![describe(&error)]),
        _ => failed([describe(&error)]),
    };
    let taking = upgrade.map(|upgrade| upgrade.begin(&mut plan, &start_failed)).transpose()?.flatten();
    let admin = plan.server.admin.filter(|addr| !taking.as_ref().is_some_and(|taking| taking.has_admin(*addr)));
    let admin = bind_admin(admin)?;
    lock_memory(&plan);
    end_on_bus_error(&plan, log)?;
    // Before clients are served, so that a warning is there once a client has an answer.
    warn_of(&plan.notes);
    let served = match taking {
        Some(taking) => taking.finish(&plan, admin)?,
        None => {
            let running = start_server(&mut plan, discards).map_err(start_failed)?;
            Served { running, admin, names: Names::default(), before: None }
        }
    };
    live::apply(&plan.resolved, served.running.shared());
    let settings: RunningSettings = Arc::new(Mutex::new((plan.resolved.clone(), origins)));
    let handle = signals.handle();
    let shared = Arc::new(Mutex::new(Arc::clone(served.running.shared())));
    let reloader =
        Reloader { read, settings: Arc::clone(&settings), log: Arc::clone(log), shared: Arc::clone(&shared) };
    let listener = sandbox::spawn("signals", Role::Helper, move || reloader.run(signals));
    let listener = listener.map_err(|error| failed([format!("cannot create a thread: {error}")]))?;
    let tell = |running: &Running, admin| {
        announce(&plan, running, admin);
        up(running);
        notify::ready();
        sandbox::narrow(Role::Main { may_resume: running.shared().store.file().is_some() });
    };
    let ended = upgrade::serve(served, &plan.server, &settings, &shared, tell);
    handle.close();
    let _ = listener.join();
    if ended.is_ok() {
        tracing::info!("stopped");
    }
    ended
}

/// Starts the server. If that fails because of the contents of the memory file, and `discards` allows it, empties the
/// file and starts again.
fn start_server(plan: &mut Plan, discards: fn(&StartError) -> Option<String>) -> Result<Running, StartError> {
    let error = match Server::start(plan.server.clone()) {
        Ok(running) => return Ok(running),
        Err(error) => error,
    };
    let Some(note) = discards(&error) else { return Err(error) };
    warn_of(&[note]);
    plan.server.file_reset = true;
    Server::start(plan.server.clone())
}

/// Binds the admin port, if one is configured.
pub(crate) fn bind_admin(addr: Option<SocketAddr>) -> Result<Option<Bound>, Failure> {
    let bind = |addr| Bound::bind(addr).map_err(|error| failed([remedy::admin_error(addr, &error)]));
    addr.map(bind).transpose()
}

/// Installs a handler that ends the process with a message when its memory file fails.
fn end_on_bus_error(plan: &Plan, log: &Log) -> Result<(), Failure> {
    let Some(path) = &plan.server.file else { return Ok(()) };
    let path = path.display();
    let line = format!(
        "cannot read or write the memory file {path} any more: it was truncated, its disk failed, or its file system \
         is full; the server ends, and the next one uses the contents of the file"
    );
    io::signal::end_on_bus_error(&log.prepared_line(&line), BUS_ERROR_CODE)
        .map_err(|error| failed([format!("cannot handle signals: {error}")]))
}

/// Locks the process's memory if the settings request that. Each page is locked at its first use, because locking the
/// whole reserved address space would exceed the memory. If the kernel refuses, the server runs without locked memory.
fn lock_memory(plan: &Plan) {
    if plan.resolved.lock
        && let Err(error) = mlockall(MlockAllFlags::CURRENT | MlockAllFlags::FUTURE | MlockAllFlags::ONFAULT)
    {
        tracing::warn!("cannot lock memory: {error}; raise `ulimit -l`, or grant CAP_IPC_LOCK");
    }
}

/// Converts faults of settings to a failure. Faults of flags are usage errors; a fault in the configuration file is
/// not.
fn faults(faults: Vec<ConfigFault>) -> Failure {
    let lines = faults.iter().map(ConfigFault::to_string).collect();
    if faults.iter().any(|fault| matches!(fault.origin, Origin::Flag(_))) {
        Failure::Usage(lines)
    } else {
        Failure::Failed(lines)
    }
}

pub(crate) fn failed(lines: impl IntoIterator<Item = String>) -> Failure {
    Failure::Failed(lines.into_iter().collect())
}

fn warn_of(notes: &[String]) {
    notes.iter().for_each(|note| tracing::warn!("{note}"));
}

/// Logs the listeners, the memory and an example command.
fn announce(plan: &Plan, running: &Running, admin: Option<SocketAddr>) {
    let asked = Requirements { memory_bytes: plan.server.memory_bytes, huge_pages: plan.server.huge_pages };
    plan.server.file.iter().for_each(|path| warn_of(&place::warnings(path, asked)));
    let settings = &plan.resolved;
    for namespace in settings.namespaces.iter().filter(|namespace| namespace.may_lose_queues()) {
        tracing::warn!(
            "the queues in namespace {} may be evicted: set its memory to keep them, or evict = true to accept that",
            namespace.name.0
        );
    }
    tracing::info!(
        version = env!("CARGO_PKG_VERSION"),
        memory = settings.memory.explicit().map(tracing::field::display),
        workers = plan.server.workers,
        maxconns = plan.server.connections_max,
        pid = std::process::id(),
        "gannet is ready"
    );
    if let (Some(file), Some(reopened)) = (running.shared().store.file(), running.shared().store.reopened()) {
        log_file(file.path(), reopened, running.shared().opened_in);
    }
    for (endpoint, addr) in running.endpoints() {
        let (protocol, name) = (endpoint.protocol, running.shared().namespaces.name(endpoint.namespace));
        let space = if name == DEFAULT_NAME { String::new() } else { format!(" for the namespace {name}") };
        let how = if endpoint.is_tls { " with TLS" } else { "" };
        let trial = if endpoint.is_tls { tls_trial(&plan.resolved, addr) } else { trial(protocol, addr) };
        tracing::info!("{} clients connect to {addr}{how}{space}; try: {trial}", protocol.name());
    }
    if let Some(admin) = admin {
        let scheme = if settings.admin.is_tls() { "https" } else { "http" };
        tracing::info!("metrics are at {scheme}://{admin}/metrics; {scheme}://{admin}/ lists all pages");
    }
}

/// Logs the state of the memory file.
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
        tracing::warn!("power was lost: all items on flash are lost, because checkpoints do not cover them");
    }
    if reopened.unsynced {
        tracing::warn!(
            "the machine restarted since {path} was in use, and there are no checkpoints: the latest writes may be \
             lost; --file-reset discards the file, and --checkpoint makes the next power failure recoverable"
        );
    }
    if !reopened.found {
        return tracing::info!("the memory is in the new file {path}");
    }
    let left = if reopened.clean { "was closed properly" } else { "was left by a process that was killed" };
    let took_ms = took.as_millis();
    let (items, open, held, undone) =
        (reopened.items, reopened.segments_open, reopened.stripes_held, reopened.groups_undone);
    if reopened.rebuilds_index {
        tracing::info!(
            "the memory is in {path}, which {left}: the index is being rebuilt for about {items} items, and items \
             that are not found yet are misses; {open} segments were open; {undone} incomplete transactions were \
             undone; reopening took {took_ms} ms"
        );
    } else {
        tracing::info!(
            "the memory is in {path}, which {left}: it has {items} items; {open} segments were open and {held} \
             changes in progress; {undone} incomplete transactions were undone; reopening took {took_ms} ms"
        );
    }
    if reopened.gaps > 0 || reopened.items_damaged > 0 {
        tracing::warn!(
            "the memory file was damaged in segments that were open: {} items are lost, {} places had no readable \
             item; check the disk or memory of the host",
            reopened.items_damaged,
            reopened.gaps
        );
    }
    if reopened.flash_items > 0 {
        tracing::info!("flash has {} more items", reopened.flash_items);
    }
    if reopened.flash_lost > 0 {
        tracing::warn!("{} items are lost with the devices that held them", reopened.flash_lost);
    }
    if reopened.clock_behind_ms > 0 {
        tracing::warn!(
            "the wall clock is {} ms behind the time that the last process implies: times to live continue from their \
             last state",
            reopened.clock_behind_ms
        );
    }
}

/// Returns a shell command that sends a request to the server. The command needs only bash if possible.
fn trial(protocol: Protocol, addr: &ListenAddr) -> String {
    let session = match protocol {
        Protocol::Memcache => r"printf 'set k 0 60 5\r\nhello\r\nget k\r\nquit\r\n'",
        Protocol::Grpc => return "docs/grpc.md has a first session".to_owned(),
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

/// Returns a shell command that opens a connection with TLS, for a session by hand.
fn tls_trial(settings: &Settings, addr: &ListenAddr) -> String {
    let port = if let ListenAddr::Tcp(addr) = addr { addr.port() } else { 0 };
    let own = match settings.tls_client_auth {
        ClientAuth::Required => " -cert CERT -key KEY",
        _ => "",
    };
    format!("openssl s_client -quiet -crlf -connect 127.0.0.1:{port} -CAfile CA{own}")
}

/// The server on which signals act, and the source of its settings.
struct Reloader {
    read: Reread,
    settings: RunningSettings,
    log: Arc<Log>,
    /// The shared state of the current server; a failed handover replaces it.
    shared: Arc<Mutex<Arc<Shared>>>,
}

impl Reloader {
    fn run(self, mut signals: Signals) {
        while let Some(signal) = signals.wait() {
            match signal {
                Signal::Stop => {
                    tracing::info!("stopping: requests in flight are being finished");
                    stopping();
                    self.shared().request_stop();
                }
                Signal::Reload => self.reload(),
            }
        }
    }

    fn shared(&self) -> Arc<Shared> {
        Arc::clone(&self.shared.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the settings again. If there is a fault, nothing changes.
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
                    let line = fault.to_string();
                    tracing::error!("reload: {line}{}", sandbox::hint(&line));
                }
                tracing::error!("no setting was reloaded");
                return;
            }
        };
        let mut running = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        if let Err(wrong) = live::resize(&running.0, &wanted, &shared) {
            let origin = origins.get("store.memory").cloned().unwrap_or(Origin::Default);
            tracing::error!("reload: {}", ConfigFault::new(origin, "store.memory", wrong));
            tracing::error!("no setting was reloaded");
            return;
        }
        let mut wanted = wanted;
        let is_tls_replaced = live::tls(&running.0, &mut wanted, &shared);
        for change in live::changes(&running.0, &wanted) {
            let (before, after) = (change.before, change.after);
            match change.reload {
                Reload::Live => {
                    let detail = || format!("reload: {} from {before} to {after}", change.path);
                    shared.audit.record(AuditEvent::Config, AuditOrigin::Server, b"", detail);
                    tracing::info!("{}: changed from {before} to {after}", change.path);
                }
                Reload::Restart => tracing::warn!("{}: still {before}; {after} needs a restart", change.path),
            }
        }
        for line in live::namespaces(&mut running.0, &said, &shared) {
            tracing::info!("{line}");
        }
        live::take(&mut running, &wanted, &origins);
        self.log.set_level(running.0.log_level);
        live::apply(&running.0, &shared);
        if is_tls_replaced {
            tracing::info!("reloaded");
        } else {
            tracing::error!("reloaded, except for [tls], whose earlier settings and certificates stay in use");
        }
    }
}
