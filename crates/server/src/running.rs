//! A server's threads: their start, their end, and the state that they hand over.

use command::keyspace::graph_commits::GraphSync;
use std::sync::Arc;
use std::sync::mpsc::{SyncSender, sync_channel};
use std::thread::JoinHandle;

use io::listen::{AcceptedStream, ListenAddr, Listener};
use io::waker::Waker;
use protocol::resp::Version;

use crate::config::kinds::IoChoice;
use crate::handover::{HandoverState, ReleasedConnection};
use crate::listener::{Acceptor, INTAKE_MAX, open_reserve};
use crate::reactor;
use crate::shared::Shared;
use crate::start::config::{StartError, endpoints};
use crate::start::opened::LoadedUsers;
use crate::start::sandbox::{self, Role};
use crate::survey;
use crate::threads::hash_passwords;
use command::clients::endpoint::{Endpoint, Protocol};
use command::push::outbox::Subscriber;
use command::resp::insert_persisted;
use command::visit::clock::Clock;

/// The listeners of a server, and the connections that were taken over.
pub(crate) struct Endpoints {
    /// The listeners, in the order of the configuration.
    pub(crate) listeners: Vec<Listener>,
    /// Listeners that the other server handed over but that this server does not use.
    pub(crate) left: Vec<Listener>,
    /// Connections that were taken over.
    pub(crate) connections: Vec<ReleasedConnection<AcceptedStream>>,
}

/// A running server. Dropping this value stops the server.
pub struct Running {
    shared: Arc<Shared>,
    io: IoChoice,
    addrs: Vec<ListenAddr>,
    acceptor: Option<JoinHandle<Vec<Listener>>>,
    workers: Vec<JoinHandle<Vec<ReleasedConnection<AcceptedStream>>>>,
    background: Option<JoinHandle<()>>,
    memory: Option<JoinHandle<()>>,
    survey: Option<JoinHandle<()>>,
    passwords: Option<JoinHandle<()>>,
    flash: Option<flash::Threads>,
    indexes: Option<JoinHandle<()>>,
    rebuilders: Vec<JoinHandle<()>>,
    checkpoints: Option<JoinHandle<()>>,
    graphs: Option<JoinHandle<()>>,
    graph_commits: Option<JoinHandle<()>>,
}

/// A server whose threads are started but serve no client yet.
pub struct Prepared {
    // The sender is dropped before the threads are joined, because the acceptor waits for its signal.
    go: SyncSender<()>,
    running: Running,
    left: Vec<Listener>,
}

impl Prepared {
    /// Begins to serve. When this returns, clients can connect.
    pub fn go(self) -> Running {
        // The acceptor waits for this signal and does nothing before it.
        let _ = self.go.send(());
        for mut listener in self.left {
            listener.share(false);
        }
        self.running
    }

    /// Returns the state that the server's threads share.
    pub fn shared(&self) -> &Arc<Shared> {
        self.running.shared()
    }
}

/// The way in which a server ended.
#[derive(Debug)]
pub enum EndedThread {
    /// The server stopped.
    Stopped,
    /// The server handed its state over to another process.
    HandedOver(HandoverState),
}

impl Running {
    /// Starts all threads. The acceptor waits for [`Prepared::go`] before it accepts clients.
    pub(crate) fn prepare(
        shared: Arc<Shared>,
        background: segment::Background,
        all: Endpoints,
    ) -> Result<Prepared, StartError> {
        let Endpoints { listeners, left, connections } = all;
        let mut running = Self {
            shared,
            io: IoChoice::Auto,
            addrs: listeners.iter().map(|listener| listener.addr().clone()).collect(),
            acceptor: None,
            workers: Vec::new(),
            background: None,
            memory: None,
            survey: None,
            passwords: None,
            flash: None,
            indexes: None,
            rebuilders: Vec::new(),
            checkpoints: None,
            graphs: None,
            graph_commits: None,
        };
        running.spawn_flash()?;
        running.spawn_background(background)?;
        running.survey = Some(running.spawn_helper("survey", survey::run)?);
        running.graphs = Some(running.spawn_helper("graphs", crate::graphs::run)?);
        if running.shared.config.graph_sync != GraphSync::Never {
            running.graph_commits = Some(running.spawn_helper("graph commits", crate::graphs::commit)?);
        }
        running.passwords = Some(running.spawn_helper("passwords", |shared| hash_passwords(&shared.threads))?);
        let go = running.spawn_workers(listeners, connections)?;
        running.spawn_indexes()?;
        Ok(Prepared { go, running, left })
    }

    fn spawn_background(&mut self, mut background: segment::Background) -> Result<(), StartError> {
        let (shared, populator) = (Arc::clone(&self.shared), background.leave_populating());
        let body = move || crate::background::populate(&shared, populator, &Clock::machine());
        self.memory = Some(sandbox::spawn("memory", Role::Helper, body)?);
        let shared = Arc::clone(&self.shared);
        let body = move || crate::background::run(&shared, background, &shared.clock());
        let thread = sandbox::spawn("background", Role::Helper, body)?;
        let _ = self.shared.threads.background.set(thread.thread().clone());
        self.background = Some(thread);
        self.spawn_checkpoints()?;
        self.spawn_rebuilders()
    }

    /// Starts the thread that writes the memory file to its disk, if checkpoints are configured.
    fn spawn_checkpoints(&mut self) -> Result<(), StartError> {
        let asked = self.shared.config.checkpoint.zip(self.shared.store.checkpointer());
        if let Some((every, checkpointer)) = asked {
            let shared = Arc::clone(&self.shared);
            let body = move || crate::checkpoint::run(&shared, checkpointer, every, &shared.clock());
            self.checkpoints = Some(sandbox::spawn("checkpoint", Role::Helper, body)?);
        }
        Ok(())
    }

    /// Starts as many threads as there are workers to rebuild the index, if the index is not in the memory file.
    fn spawn_rebuilders(&mut self) -> Result<(), StartError> {
        // The background thread also rebuilds, so one thread fewer is started.
        for number in 1..self.shared.config.workers {
            let Some(rebuilder) = self.shared.store.rebuilder() else { break };
            let shared = Arc::clone(&self.shared);
            let body = move || crate::background::rebuild(&shared, rebuilder, &shared.clock());
            self.rebuilders.push(sandbox::spawn(format!("rebuild-{number}"), Role::Helper, body)?);
        }
        Ok(())
    }

    /// Starts the threads of the second tier. They wake the workers that wait for a flash read.
    fn spawn_flash(&mut self) -> Result<(), StartError> {
        let Some(flash) = &self.shared.threads.flash else { return Ok(()) };
        let shared = Arc::downgrade(&self.shared);
        flash.wake_by(Box::new(move |handle| {
            let Some(shared) = shared.upgrade() else { return };
            match handle {
                // The workers have the first store handles, in the order of the workers.
                Some(handle) => shared.threads.workers.get(handle).into_iter().for_each(|worker| worker.waker.wake()),
                None => shared.host.wake_background(),
            }
        }));
        let bells = match self.shared.config.io {
            IoChoice::Epoll => Vec::new(),
            _ => self.shared.threads.workers.iter().map(|worker| worker.waker.clone()).collect(),
        };
        let threads = flash.spawn(&bells, || sandbox::narrow(Role::Helper))?;
        if let Some(refused) = threads.refused() {
            tracing::info!("threads read flash, not io_uring: {refused}");
        }
        self.flash = Some(threads);
        Ok(())
    }

    /// Starts a thread that works for the workers.
    fn spawn_helper(&self, name: &str, body: fn(&Shared)) -> Result<JoinHandle<()>, StartError> {
        let shared = Arc::clone(&self.shared);
        Ok(sandbox::spawn(name, Role::Helper, move || body(&shared))?)
    }

    /// Starts the thread that enters the stored records into the secondary indexes while the server serves.
    fn spawn_indexes(&mut self) -> Result<(), StartError> {
        if self.shared.indexes.any() {
            let shared = Arc::clone(&self.shared);
            let mut handle = shared.store.handle().expect("handles_max counts it");
            let body = move || insert_persisted(&shared, &mut handle, &shared.clock());
            self.indexes = Some(sandbox::spawn("indexes", Role::Helper, body)?);
        }
        Ok(())
    }

    /// Starts the workers and the acceptor. The acceptor begins when [`Prepared::go`] is called.
    fn spawn_workers(
        &mut self,
        listeners: Vec<Listener>,
        moved: Vec<ReleasedConnection<AcceptedStream>>,
    ) -> Result<SyncSender<()>, StartError> {
        let shared = &self.shared;
        let clock = shared.clock();
        let sessions_max = shared.config.sessions_max();
        let wakers: Vec<&Waker> = shared.threads.workers.iter().map(|worker| &worker.waker).collect();
        let reactors = reactor::open(shared.config.io, &wakers, sessions_max)?;
        let is_uring = reactors.iter().any(|reactor| reactor.kind() == IoChoice::Uring);
        let multiplexing = &shared.commands.config.process.multiplexing;
        let _ = multiplexing.set(if is_uring { "io_uring" } else { "epoll" });
        self.io = reactors[0].kind();
        let mut intakes = Vec::new();
        for (number, opened) in reactors.into_iter().enumerate() {
            let (sender, intake) = sync_channel(INTAKE_MAX);
            intakes.push(sender);
            let handle = shared.store.handle().expect("handles_max counts the workers");
            // A completed flash read wakes the worker whose number is the handle's.
            assert_eq!(handle.number(), number, "workers have the first handles, in their order");
            let shared = Arc::clone(shared);
            let cpu = shared.config.pin.get(number % shared.config.pin.len().max(1)).copied();
            let clock = clock.clone();
            let body = move || {
                if let Some(cpu) = cpu
                    && let Err(error) = io::affinity::pin_this_thread(cpu)
                {
                    tracing::warn!(worker = number, cpu, %error, "the worker runs unpinned");
                }
                sandbox::narrow(Role::Worker);
                opened.run(number, shared, handle, intake, clock, sessions_max)
            };
            self.workers.push(sandbox::spawn(format!("worker-{number}"), Role::NewWorker, body)?);
        }
        let handed = vec![0; intakes.len()];
        let shared = Arc::clone(shared);
        let reserve = open_reserve();
        let endpoints = endpoints(&shared.config).into_iter().map(|(endpoint, _)| endpoint).collect();
        let (ready, go) = sync_channel(1);
        let acceptor = Acceptor {
            listeners,
            endpoints,
            shared,
            intakes,
            sessions_max,
            handed,
            to_wake: 0,
            moved,
            go,
            reserve,
            refusal_logged: None,
        };
        self.acceptor = Some(sandbox::spawn("acceptor", Role::Helper, move || acceptor.run())?);
        Ok(ready)
    }

    /// Returns the way in which the workers wait for their sockets; never `Auto`.
    pub fn io(&self) -> IoChoice {
        self.io
    }

    /// Returns the listening addresses, with the ports that the kernel chose for port 0. The order is that of the
    /// configuration's `memcached`, `resp` and `endpoints`.
    pub fn addrs(&self) -> &[ListenAddr] {
        &self.addrs
    }

    /// Returns the listening addresses with their protocols.
    pub fn listeners(&self) -> impl Iterator<Item = (Protocol, &ListenAddr)> {
        self.endpoints().map(|(endpoint, addr)| (endpoint.protocol, addr))
    }

    /// Returns the listening addresses with their protocols and namespaces.
    pub fn endpoints(&self) -> impl Iterator<Item = (Endpoint, &ListenAddr)> {
        endpoints(&self.shared.config).into_iter().map(|(endpoint, _)| endpoint).zip(&self.addrs)
    }

    /// Returns the state that the server's threads share: counters, settings that can be changed, the stop switch.
    pub fn shared(&self) -> &Arc<Shared> {
        &self.shared
    }

    /// Stops gracefully: accepts no new connections, completes requests in flight within `stop_timeout`, then closes
    /// all connections. Commands in execution are abandoned if they do not end within as much time again, at least 5 s.
    /// Returns when every thread has ended.
    pub fn stop(self) {
        self.shared.host.request_stop();
        self.join();
    }

    /// Waits until a stop ([`Shared::request_stop`]) or a handover ([`Shared::request_hand_over`]) is requested and
    /// complete.
    pub fn join(mut self) -> EndedThread {
        // A thread that panicked has already reported its panic. The other threads are still joined.
        let listeners = self.acceptor.take().and_then(|acceptor| acceptor.join().ok());
        match listeners {
            Some(listeners) if !self.shared.threads.stop.is_off() => EndedThread::HandedOver(self.hand_over(listeners)),
            listeners => {
                drop(listeners);
                self.join_all();
                EndedThread::Stopped
            }
        }
    }

    /// Ends all threads and returns the state to hand over.
    fn hand_over(&mut self, mut listeners: Vec<Listener>) -> HandoverState {
        listeners.iter_mut().for_each(|listener| listener.share(true));
        self.shared.threads.hand_over();
        let mut connections = self.join_all();
        self.complete_connections(&mut connections);
        let (devices, graphs) = (self.shared.flash_files.clone(), self.shared.graph_file.clone());
        let users = self.shared.users.unsaved();
        let settings = command::resp::changed_settings(&self.shared);
        let known = Some(LoadedUsers { auth: self.shared.auth.clone(), rights: self.shared.users.lines() });
        let memory = self.shared.store.leave();
        let index = self.shared.store.leave_index().unwrap_or_else(|error| {
            tracing::warn!("cannot copy the index for the new process: {error}; it will rebuild the index");
            None
        });
        HandoverState { listeners, memory, index, devices, graphs, users, settings, known, connections }
    }

    /// Completes the state of the connections that have left their workers, once the last worker has ended. Adds the
    /// messages that were published for them, and compares the keys that they watch.
    fn complete_connections(&self, connections: &mut Vec<ReleasedConnection<AcceptedStream>>) {
        let now = self.shared.now();
        let mut handle = self.shared.store.handle().ok();
        // A subscriber that is too far behind is closed, as in normal operation.
        connections.retain(|moved| !moved.subscriber.as_ref().is_some_and(Subscriber::is_broken));
        for moved in connections.iter_mut() {
            let carried = Arc::make_mut(&mut moved.carried);
            if let Some(subscriber) = moved.subscriber.take() {
                let version = if carried.is_resp3 { Version::Resp3 } else { Version::Resp2 };
                let mut part = [0; 4096];
                while subscriber.has_messages() {
                    let bytes = subscriber.take(&mut part, version);
                    carried.output.extend_from_slice(&part[..bytes]);
                }
            }
            for watch in carried.transaction.iter_mut().flat_map(|transaction| &mut transaction.watched) {
                let is_same = handle.as_mut().is_some_and(|handle| {
                    let mut guard = handle.guard(now);
                    let key = guard.key(watch.namespace, &watch.key);
                    guard.versions().version(&key).ok() == watch.version
                });
                watch.version = watch.version.filter(|_| is_same);
            }
        }
    }

    /// Joins all threads. Returns the connections that have left their workers.
    fn join_all(&mut self) -> Vec<ReleasedConnection<AcceptedStream>> {
        if let Some(acceptor) = self.acceptor.take() {
            let _ = acceptor.join();
        }
        let moved = self.workers.drain(..).filter_map(|worker| worker.join().ok()).flatten().collect();
        self.shared.threads.stop.signal_workers_ended();
        self.shared.host.wake_background();
        if let Some(background) = self.background.take() {
            let _ = background.join();
        }
        drop(self.flash.take());
        let others = self.memory.take().into_iter().chain(self.survey.take()).chain(self.passwords.take());
        let others = others.chain(self.indexes.take()).chain(self.graphs.take()).chain(self.graph_commits.take());
        for thread in others.chain(self.rebuilders.drain(..)).chain(self.checkpoints.take()) {
            thread.thread().unpark();
            let _ = thread.join();
        }
        moved
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.shared.threads.switch_off();
        self.join_all();
    }
}
