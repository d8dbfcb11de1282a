//! TLS sessions of one thread, which reopened connections resume.
//!
//! A client resumes the session of its previous connection. A ticket of TLS 1.3 can be used once, a session of 1.2 any
//! number of times. So a thread stores as many tickets per server as it has connections, and all of them can resume
//! even if they reconnect at the same time. When there are more tickets, the oldest is dropped.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use rustls::NamedGroup;
use rustls::client::{ClientSessionStore, Tls12ClientSessionValue, Tls13ClientSessionValue};
use rustls::pki_types::ServerName;

/// Maximum number of servers with stored sessions.
const SERVERS_MAX: usize = 1024;

/// The TLS sessions of one server.
#[derive(Debug)]
struct ServerSessions {
    name: ServerName<'static>,
    group: Option<NamedGroup>,
    session: Option<Tls12ClientSessionValue>,
    tickets: VecDeque<Tls13ClientSessionValue>,
}

/// TLS sessions of one thread. The lock is never contended, because only that thread uses it.
#[derive(Debug)]
pub(super) struct Sessions {
    tickets_max: usize,
    servers: Mutex<Vec<ServerSessions>>,
}

impl Sessions {
    /// Creates the store of a thread with `connections` connections.
    pub fn new(connections: usize) -> Self {
        Self { tickets_max: connections.max(1), servers: Mutex::default() }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<ServerSessions>> {
        self.servers.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn read<T>(&self, name: &ServerName<'_>, read: impl FnOnce(&mut ServerSessions) -> Option<T>) -> Option<T> {
        self.lock().iter_mut().find(|server| server.name == *name).and_then(read)
    }

    fn change(&self, name: ServerName<'static>, change: impl FnOnce(&mut ServerSessions)) {
        let mut servers = self.lock();
        if let Some(server) = servers.iter_mut().find(|server| server.name == name) {
            return change(server);
        }
        if servers.len() < SERVERS_MAX {
            let mut server = ServerSessions { name, group: None, session: None, tickets: VecDeque::new() };
            change(&mut server);
            servers.push(server);
        }
    }
}

impl ClientSessionStore for Sessions {
    fn set_kx_hint(&self, name: ServerName<'static>, group: NamedGroup) {
        self.change(name, |server| server.group = Some(group));
    }

    fn kx_hint(&self, name: &ServerName<'_>) -> Option<NamedGroup> {
        self.read(name, |server| server.group)
    }

    fn set_tls12_session(&self, name: ServerName<'static>, value: Tls12ClientSessionValue) {
        self.change(name, |server| server.session = Some(value));
    }

    fn tls12_session(&self, name: &ServerName<'_>) -> Option<Tls12ClientSessionValue> {
        self.read(name, |server| server.session.clone())
    }

    fn remove_tls12_session(&self, name: &ServerName<'static>) {
        self.read(name, |server| server.session.take());
    }

    fn insert_tls13_ticket(&self, name: ServerName<'static>, value: Tls13ClientSessionValue) {
        self.change(name, |server| {
            if server.tickets.len() >= self.tickets_max {
                server.tickets.pop_front();
            }
            server.tickets.push_back(value);
        });
    }

    fn take_tls13_ticket(&self, name: &ServerName<'static>) -> Option<Tls13ClientSessionValue> {
        self.read(name, |server| server.tickets.pop_back())
    }
}
