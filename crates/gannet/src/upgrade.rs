//! `gannet serve --upgrade`, and what a running server does when another process asks for what it has.
//!
//! See [`server::handover`] for what is said between the two.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex, PoisonError};

use base::units::ByteSize;
use io::listen::Listener;
use server::admin::{Admin, Bound, RunningSettings};
use server::config::value::Auto;
use server::config::{Plan, live, remedy};
use server::handover::{Estate, Giver, Kept, Names, Received, Refused, Taking};
use server::shared::Shared;
use server::start::{Ended, Running, Server, ServerConfig, StartError, listen_ahead};

use crate::Failure;
use crate::serve::failed;

/// A server is to take over from the one that runs.
#[derive(Clone, Copy, Debug)]
pub struct Upgrade {
    /// The memory was said, so that it has to be that of the running one; else it is taken as it is.
    pub memory_said: bool,
}

/// A take-over that has begun: the running server is found, and what it has fits.
pub struct Begun {
    taking: Taking,
    listeners: Vec<Listener>,
}

impl Upgrade {
    /// Finds the running server, and gets all that it does not have.
    pub fn begin(self, plan: &mut Plan, start_failed: &impl Fn(StartError) -> Failure) -> Result<Begun, Failure> {
        let taking = Taking::begin(&plan.server, self.memory_said).map_err(refused)?;
        plan.server.memory_bytes = taking.memory_bytes();
        plan.resolved.memory = Auto::Is(ByteSize(taking.memory_bytes()));
        let listeners = listen_ahead(&plan.server, |addr| taking.has(addr)).map_err(start_failed)?;
        Ok(Begun { taking, listeners })
    }
}

impl Begun {
    /// The running server has its admin port there.
    pub fn has_admin(&self, addr: SocketAddr) -> bool {
        self.taking.has_admin(addr)
    }

    /// Takes over. Whatever fails here leaves the running server serving.
    pub fn finish(self, plan: &Plan, admin: Option<Bound>) -> Result<Served, Failure> {
        let Received { mut estate, admin: theirs, names } = self.taking.receive().map_err(refused)?;
        estate.listeners.extend(self.listeners);
        let wanted = |bound: &Bound| plan.server.admin == Some(bound.addr());
        let admin = admin.or_else(|| theirs.filter(wanted));
        let prepared = Server::prepare(plan.server.clone(), estate).map_err(|error| {
            let line = remedy::start_error(&error);
            self.taking.fail(&line);
            failed([line])
        })?;
        self.taking.confirm().map_err(refused)?;
        Ok(Served { running: prepared.go(), admin, names })
    }
}

fn refused(refused: Refused) -> Failure {
    failed([format!("--upgrade: {}", refused.0)])
}

/// A server that serves, with what is not its own alone.
pub struct Served {
    pub running: Running,
    pub admin: Option<Bound>,
    /// What it is found by who wants to take over from it, if it took over itself.
    pub names: Names,
}

/// Serves until it is over: a stop was asked for, or another process has taken over. When one fails to, all goes on.
/// `up` is told once, with the address of the admin port, when all that is to be found can be found.
pub fn serve(
    served: Served,
    config: &ServerConfig,
    settings: &RunningSettings,
    current: &Mutex<Arc<Shared>>,
    up: impl FnOnce(&Running, Option<SocketAddr>),
) -> Result<(), Failure> {
    let Served { mut running, admin: mut bound, mut names } = served;
    let mut up = Some(up);
    loop {
        let admin = bound.map(|bound| bound.start(Arc::clone(running.shared()), Arc::clone(settings))).transpose();
        let admin = admin.map_err(|error| failed([format!("the admin port can not be started ({error})")]))?;
        let admin_addr = admin.as_ref().map(Admin::addr);
        let giver = Giver::start(running.shared(), running.addrs(), admin_addr, names)
            .map_err(|error| failed([format!("a thread is not to be had ({error})")]))?;
        if let Some(up) = up.take() {
            up(&running, admin_addr);
        }
        // A port that was left to the kernel is the same one afterwards.
        let config = config.clone().at(running.addrs());
        let estate = match running.join() {
            Ended::Stopped => return Ok(()),
            Ended::HandedOver(estate) => estate,
        };
        let count = estate.connections.len();
        let Kept { estate, admin, names: kept, why } = *match giver.give(estate, admin.and_then(Admin::pause)) {
            Ok(()) => {
                tracing::info!("the new process serves, with {count} connections that were this one's");
                return Ok(());
            }
            Err(Some(kept)) => kept,
            Err(None) => {
                return Err(failed(["the new process has the memory and can not be ended; this one ends".to_owned()]));
            }
        };
        if current.lock().unwrap_or_else(PoisonError::into_inner).stop.was_asked() {
            return Ok(());
        }
        tracing::error!("nothing was handed over: {why}; this server goes on");
        running = go_on(estate, &config, settings, current)?;
        (bound, names) = (admin, kept);
    }
}

/// Goes on with what was not taken.
fn go_on(
    estate: Estate,
    config: &ServerConfig,
    settings: &RunningSettings,
    current: &Mutex<Arc<Shared>>,
) -> Result<Running, Failure> {
    let config = ServerConfig { file_reset: false, flash_reset: false, ..config.clone() };
    let prepared = Server::prepare(config, estate).map_err(|error| failed([remedy::start_error(&error)]))?;
    let running = prepared.go();
    live::apply(&settings.lock().unwrap_or_else(PoisonError::into_inner).0, running.shared());
    *current.lock().unwrap_or_else(PoisonError::into_inner) = Arc::clone(running.shared());
    Ok(running)
}
