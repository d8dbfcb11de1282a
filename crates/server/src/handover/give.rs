//! The running server's side of a handover.

use std::io::{ErrorKind, Result};
use std::os::fd::{AsFd, BorrowedFd};
use std::sync::{Arc, Mutex, PoisonError, Weak};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use io::listen::ListenAddr;
use io::pass::{self, Pass, PassListener, Process};
use io::waker::Waker;
use serde_json::json;

use super::HandoverState;
use super::names::Names;
use super::wire::{
    PATIENCE, PROTOCOL, addr_json, device_json, receive, send, send_bytes, send_connections, send_listeners, send_names,
};
use crate::admin::Bound;
use crate::shared::Shared;
use crate::start::sandbox::{self, Role};

/// The time limit for the new process to become ready after the offer. Clients are served meanwhile.
const READY_PATIENCE: Duration = Duration::from_secs(60);
/// The time limit for values that are being received to complete, before connections move to the new process. All
/// clients are served meanwhile.
const DRAIN_PATIENCE: Duration = Duration::from_secs(1);
/// The time limit for the new process to open the memory and start its threads. No client is served meanwhile.
const TAKE_PATIENCE: Duration = Duration::from_secs(10);
/// The time that the new process may take from `go` until it serves.
const SERVE_PATIENCE: Duration = Duration::from_secs(10);
/// The time for which the new process is watched after it serves, in case it crashes while serving the first clients.
const WATCH: Duration = Duration::from_secs(1);
/// The interval at which the watch checks for a stop request.
const WATCH_STEP: Duration = Duration::from_millis(20);
/// The time limit for a failed process to exit before it is killed.
const END_PATIENCE: Duration = Duration::from_secs(1);

/// A new process that is ready to take over.
#[derive(Debug)]
struct Successor {
    pass: Pass,
    process: Process,
    /// The names of abstract sockets by which the new process found this process.
    names: Names,
}

/// A thread that waits for a process that wants to take over.
#[derive(Debug)]
pub struct Giver {
    successor: Arc<Mutex<Option<Successor>>>,
    waker: Waker,
    thread: Option<JoinHandle<()>>,
}

/// The state that the running server resumes with after a failed takeover. The new process has exited.
#[derive(Debug)]
pub struct ResumeState {
    /// The state that the running server would have handed over.
    pub handover_state: HandoverState,
    /// The admin port of the running server.
    pub admin: Option<Bound>,
    /// The names of abstract sockets by which a new process finds the running server.
    pub names: Names,
    /// The log line that describes the failure.
    pub line: String,
}

impl Giver {
    /// Starts to wait for a process that wants to take over. `addrs` are the addresses that the server listens on, and
    /// its admin port is at `admin`. When this returns, such a process can find the server. `names` are the abstract
    /// sockets that the server already has; they are reused.
    ///
    /// # Errors
    /// If no thread can be created, or no file descriptor is left.
    pub fn start(
        shared: &Arc<Shared>,
        addrs: &[ListenAddr],
        admin: Option<std::net::SocketAddr>,
        names: Names,
    ) -> Result<Self> {
        let (successor, waker) = (Arc::new(Mutex::new(None)), Waker::new()?);
        let waiting = Waiting {
            shared: Arc::downgrade(shared),
            addrs: addrs.to_vec(),
            admin,
            names: Names::listen(addrs, names),
            successor: Arc::clone(&successor),
            waker: waker.clone(),
        };
        let thread = sandbox::spawn("upgrade", Role::Helper, move || waiting.run())?;
        Ok(Self { successor, waker, thread: Some(thread) })
    }

    /// Hands everything over to the new process. `Ok`: the new process has served for [`WATCH`] or has ended normally,
    /// or `is_stopped` reported a stop of this process. The caller then exits. The value is the id of the new process,
    /// if the kernel reports it.
    ///
    /// # Errors
    /// If the handover fails: the state to resume with. `Err(None)`: the new process is still alive and could not be
    /// killed, so this process must not resume.
    pub fn give(
        &self,
        mut handover_state: HandoverState,
        admin: Option<Bound>,
        is_stopped: &dyn Fn() -> bool,
    ) -> std::result::Result<Option<u32>, Option<Box<ResumeState>>> {
        let successor = self.successor.lock().unwrap_or_else(PoisonError::into_inner).take();
        let Some(Successor { pass, process, names }) = successor else {
            let line = "nothing was handed over: no process is ready to take over; this server continues".to_owned();
            return Err(Some(Box::new(ResumeState { handover_state, admin, names: Names::default(), line })));
        };
        let line = match hand_over(&pass, &handover_state, admin.as_ref(), &names) {
            Err(why) => format!("nothing was handed over: {why}; this server continues"),
            Ok(()) => {
                let Err(why) = watch_successor(&pass, &mut handover_state, is_stopped) else {
                    return Ok(pass.peer_pid().ok());
                };
                format!("the new process took over, but {why}; this server continues, without the connections")
            }
        };
        drop(pass);
        match process.end(END_PATIENCE) {
            Ok(()) => Err(Some(Box::new(ResumeState { handover_state, admin, names, line }))),
            Err(error) => {
                tracing::error!(
                    "cannot kill the new process: {error}; this server ends, because both would use the same memory"
                );
                Err(None)
            }
        }
    }
}

impl Drop for Giver {
    fn drop(&mut self) {
        self.waker.wake();
        // A thread that still exchanges messages with a new process is not joined. It ends when the new process or this
        // process exits, and holds no resource that other threads need.
        if let Some(thread) = self.thread.take_if(|thread| thread.is_finished()) {
            let _ = thread.join();
        }
    }
}

/// Describes why no message arrives from the new process.
fn describe_disconnect(error: std::io::Error) -> String {
    match error.kind() {
        ErrorKind::UnexpectedEof | ErrorKind::BrokenPipe | ErrorKind::ConnectionReset => {
            "the new process ended".to_owned()
        }
        ErrorKind::TimedOut => "the new process did not reply in time".to_owned(),
        _ => format!("the new process does not respond as expected ({error})"),
    }
}

/// Waits until the new process serves, and watches it for [`WATCH`]. Returns an error if the new process exits
/// meanwhile. After `go` the new process may read from the connections. So this process can no longer serve them, and
/// closes its copies of their sockets. Clients then notice at once if the new process closes a connection.
fn watch_successor(
    pass: &Pass,
    handover_state: &mut HandoverState,
    is_stopped: &dyn Fn() -> bool,
) -> std::result::Result<(), String> {
    let heard = receive(pass, SERVE_PATIENCE);
    handover_state.connections.clear();
    heard.map_err(describe_disconnect)?;
    let end = Instant::now() + WATCH;
    loop {
        match receive(pass, WATCH_STEP) {
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::TimedOut => {
                if is_stopped() || Instant::now() >= end {
                    return Ok(());
                }
            }
            Err(error) => return Err(describe_disconnect(error)),
        }
    }
}

/// Sends all state. Once the new process has accepted the state, sends `go`. Returns the reason as an error if the new
/// process does not accept the state.
fn hand_over(
    pass: &Pass,
    handover_state: &HandoverState,
    admin: Option<&Bound>,
    names: &Names,
) -> std::result::Result<(), String> {
    send_connections(pass, &handover_state.connections).map_err(describe_disconnect)?;
    if let Some(users) = &handover_state.users {
        send(pass, "users", json!({"bytes": users.len()}), &[])
            .and_then(|()| send_bytes(pass, users))
            .map_err(describe_disconnect)?;
    }
    send_listeners(pass, &handover_state.listeners).map_err(describe_disconnect)?;
    send_names(pass, names).map_err(describe_disconnect)?;
    if let Some(index) = &handover_state.index {
        send(pass, "index", json!({}), &[index.as_fd()]).map_err(describe_disconnect)?;
    }
    let admin: Vec<BorrowedFd<'_>> = admin.iter().map(|admin| admin.as_fd()).collect();
    let handed = json!({"connections": handover_state.connections.len(), "settings": handover_state.settings});
    send(pass, "handed", handed, &admin).map_err(describe_disconnect)?;
    let heard = receive(pass, TAKE_PATIENCE).map_err(describe_disconnect)?;
    if heard.is != "taken" {
        return Err(heard.body["why"].as_str().unwrap_or("no reason given").to_owned());
    }
    send(pass, "go", json!({}), &[]).map_err(describe_disconnect)
}

/// The thread that waits for a new process.
struct Waiting {
    shared: Weak<Shared>,
    addrs: Vec<ListenAddr>,
    admin: Option<std::net::SocketAddr>,
    names: Names,
    successor: Arc<Mutex<Option<Successor>>>,
    waker: Waker,
}

impl Waiting {
    fn run(self) {
        let listeners = self.names.listeners();
        if listeners.is_empty() {
            return;
        }
        let (pass, process) = loop {
            match pass::wait(&listeners, &self.waker) {
                Ok(Some(at)) => match self.handle_request(listeners[at]) {
                    Ok(Some(ready)) => break ready,
                    Ok(None) => {}
                    Err(error) => tracing::warn!("invalid takeover request: {error}"),
                },
                Ok(None) => return,
                Err(error) => return tracing::warn!("takeovers are no longer possible: {error}"),
            }
        };
        let Some(shared) = self.shared.upgrade() else { return };
        shared.threads.drain(DRAIN_PATIENCE);
        *self.successor.lock().unwrap_or_else(PoisonError::into_inner) =
            Some(Successor { pass, process, names: self.names });
        shared.threads.request_hand_over();
    }

    /// Handles one takeover request: receives `hello`, sends the offer and waits for `ready`. Returns the other process
    /// if it is ready to take over.
    fn handle_request(&self, listener: &PassListener) -> Result<Option<(Pass, Process)>> {
        let pass = listener.accept()?;
        let hello = receive(&pass, PATIENCE)?;
        let Some(shared) = self.shared.upgrade() else { return Ok(None) };
        let refuse = |why: &str| {
            tracing::warn!("refused a takeover: {why}");
            send(&pass, "refused", json!({"why": why}), &[]).map(|()| None)
        };
        if hello.body["protocol"].as_u64() != Some(PROTOCOL) {
            return refuse("the two builds use different handover protocols; restart instead, with --file");
        }
        let Some(process) = hello.descriptors.into_iter().next().map(Process::of) else {
            return refuse("its process descriptor is missing");
        };
        let Some(file) = shared.store.file() else {
            return refuse(
                "the running server's memory is private; start it with --file PATH or --upgradable to allow takeovers",
            );
        };
        let config = &shared.config;
        let path = config.file.as_ref().map(|path| path.as_os_str().as_encoded_bytes());
        let offer = json!({
            "protocol": PROTOCOL,
            "version": env!("CARGO_PKG_VERSION"),
            "pid": std::process::id(),
            "addrs": self.addrs.iter().map(addr_json).collect::<Vec<_>>(),
            "admin": self.admin.map(|admin| admin.to_string()),
            "file": path,
            "memory_bytes": config.memory_bytes,
            "graphs": shared.graph_file.is_some(),
            "graph_file": config.graph_file.as_ref().map(|path| path.as_os_str().as_encoded_bytes()),
            "flash": config.flash.iter().map(device_json).collect::<Vec<_>>(),
        });
        let this = Process::this()?;
        let devices = shared.flash_files.iter().map(|file| file.as_fd());
        let graphs = shared.graph_file.iter().map(|file| file.as_fd());
        let descriptors: Vec<_> = [this.as_fd(), file.as_fd()].into_iter().chain(graphs).chain(devices).collect();
        send(&pass, "offer", offer, &descriptors)?;
        drop(shared);
        let heard = receive(&pass, READY_PATIENCE)?;
        if heard.is != "ready" {
            let why = heard.body["why"].as_str().unwrap_or("no reason given");
            tracing::warn!("the new process aborted the takeover: {why}");
            return Ok(None);
        }
        tracing::info!(version = hello.body["version"].as_str(), "handing over to a new process");
        Ok(Some((pass, process)))
    }
}
