//! `gannet serve --upgrade`, and the running server's side of a handover.
//!
//! See [`server::handover`] for the protocol between the two processes.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use io::listen::Listener;
use server::admin::{Admin, Bound, RunningSettings};
use server::config::{Plan, live, remedy};
use server::handover::{
    Giver, HandoverState, Names, Predecessor, Received, Refused, ResumeState, Takeover, memory_of_file,
};
use server::shared::Shared;
use server::start::{EndedThread, Running, Server, ServerConfig, StartError, bind_ahead, check_users};

use crate::Failure;
use crate::serve::{failed, stopping, taken_over};

/// The request of `--upgrade` to take over from the running server.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade {
    /// True if the memory size is configured. Then it must equal the running server's; otherwise the running server's
    /// size is adopted.
    pub has_memory_setting: bool,
}

/// A takeover that has begun: the running server was found, and its memory and listeners fit the settings.
pub struct StartedUpgrade {
    taking: Takeover,
    listeners: Vec<Listener>,
}

impl Upgrade {
    /// Connects to the running server, and binds the configured addresses on which that server does not listen. Returns
    /// `None` if the running server was killed before it handed anything over; the caller then starts a server as if
    /// `--upgrade` had not been given.
    pub fn begin(
        self,
        plan: &mut Plan,
        start_failed: &impl Fn(StartError) -> Failure,
    ) -> Result<Option<StartedUpgrade>, Failure> {
        let taking = Takeover::begin(&plan.server, self.has_memory_setting).map_err(refused)?;
        let memory_bytes = match &taking {
            Some(taking) => Some(taking.memory_bytes()),
            None => {
                tracing::warn!("the running server was killed before the takeover began; starting without a takeover");
                memory_of_file(&plan.server).filter(|_| !self.has_memory_setting)
            }
        };
        if let Some(bytes) = memory_bytes {
            plan.adopt_memory(bytes);
        }
        let Some(taking) = taking else { return Ok(None) };
        check_users(&plan.server).map_err(start_failed)?;
        let listeners = bind_ahead(&plan.server, |addr| taking.has(addr)).map_err(start_failed)?;
        Ok(Some(StartedUpgrade { taking, listeners }))
    }
}

impl StartedUpgrade {
    /// Returns whether the running server has its admin port at `addr`.
    pub fn has_admin(&self, addr: SocketAddr) -> bool {
        self.taking.has_admin(addr)
    }

    /// Takes over. If this fails, the running server continues to serve, unless it was killed.
    pub fn finish(self, plan: &Plan, admin: Option<Bound>) -> Result<Served, Failure> {
        let Received { mut handover_state, admin: theirs, names, is_orphaned } =
            self.taking.receive().map_err(refused)?;
        handover_state.listeners.extend(self.listeners);
        let wanted = |bound: &Bound| plan.server.admin == Some(bound.addr());
        let mut admin = admin.or_else(|| theirs.filter(wanted));
        if is_orphaned {
            tracing::warn!(
                "the running server was killed during the takeover; continuing with its memory and {} of its \
                 connections",
                handover_state.connections.len()
            );
            if admin.is_none() {
                admin = crate::serve::bind_admin(plan.server.admin)?;
            }
        }
        let prepared = Server::prepare(plan.server.clone(), handover_state).map_err(|error| {
            let line = remedy::start_error(&error);
            self.taking.fail(&line);
            failed([line])
        })?;
        let before = if is_orphaned { None } else { self.taking.confirm().map_err(refused)? };
        let running = prepared.go();
        before.iter().for_each(Predecessor::report_serving);
        Ok(Served { running, admin, names, before })
    }
}

fn refused(refused: Refused) -> Failure {
    failed([format!("--upgrade: {}", refused.0)])
}

/// A running server, with its admin port and the state of its handovers.
pub struct Served {
    pub running: Running,
    pub admin: Option<Bound>,
    /// The names by which a later process finds this server, if this server itself took over from another.
    pub names: Names,
    /// The previous server process, which takes memory and listeners back if this process ends soon after the takeover.
    pub before: Option<Predecessor>,
}

/// Serves until a stop is requested, or until another process has taken over. If a takeover fails, the server
/// continues. `up` is called once, with the address of the admin port, when clients and a later process can reach the
/// server.
pub fn serve(
    served: Served,
    config: &ServerConfig,
    settings: &RunningSettings,
    current: &Mutex<Arc<Shared>>,
    up: impl FnOnce(&Running, Option<SocketAddr>),
) -> Result<(), Failure> {
    let Served { mut running, admin: mut bound, mut names, mut before } = served;
    let mut up = Some(up);
    loop {
        let admin = bound.map(|bound| bound.start(Arc::clone(running.shared()), Arc::clone(settings))).transpose();
        let admin = admin.map_err(|error| failed([format!("cannot start the admin port: {error}")]))?;
        let admin_addr = admin.as_ref().map(Admin::addr);
        let giver = Giver::start(running.shared(), running.addrs(), admin_addr, names)
            .map_err(|error| failed([format!("cannot create a thread: {error}")]))?;
        if let Some(up) = up.take() {
            up(&running, admin_addr);
        }
        // A port that the kernel chose stays the same after a reload.
        let config = config.clone().at(running.addrs());
        let ended = running.join();
        if let Some(before) = before.take() {
            before.report_end();
        }
        let handover_state = match ended {
            EndedThread::Stopped => {
                // A client may have stopped the server; a signal has been reported already.
                stopping();
                return Ok(());
            }
            EndedThread::HandedOver(handover_state) => handover_state,
        };
        let count = handover_state.connections.len();
        let is_stopped = || current.lock().unwrap_or_else(PoisonError::into_inner).threads.stop.was_stop_requested();
        let given = giver.give(handover_state, admin.and_then(Admin::pause), &is_stopped);
        let ResumeState { handover_state, admin, names: kept, line } = *match given {
            Ok(new) => {
                new.into_iter().for_each(taken_over);
                tracing::info!("the new process serves, with {count} of this process's connections");
                return Ok(());
            }
            Err(Some(kept)) => kept,
            Err(None) => {
                return Err(failed([
                    "the new process has the memory and cannot be ended; this process ends".to_owned()
                ]));
            }
        };
        if is_stopped() {
            return Ok(());
        }
        tracing::error!("{line}");
        running = go_on(handover_state, &config, settings, current)?;
        (bound, names) = (admin, kept);
    }
}

/// Continues to serve after a failed takeover, with everything that the other process did not take over.
fn go_on(
    handover_state: HandoverState,
    config: &ServerConfig,
    settings: &RunningSettings,
    current: &Mutex<Arc<Shared>>,
) -> Result<Running, Failure> {
    let config = ServerConfig { file_reset: false, flash_reset: false, ..config.clone() };
    let prepared = Server::prepare(config, handover_state).map_err(|error| failed([remedy::start_error(&error)]))?;
    let running = prepared.go();
    live::apply(&settings.lock().unwrap_or_else(PoisonError::into_inner).0, running.shared());
    *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(running.shared());
    Ok(running)
}
