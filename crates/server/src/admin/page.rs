//! The pages of the admin port, by path.

use std::fmt::Write;
use std::sync::{Arc, PoisonError};
use std::time::Instant;

use base::units::ByteSize;

use super::http::Response;
use super::time::rfc3339;
use super::users::Credentials;
use super::{RunningSettings, figures, hot, json, namespaces, prometheus, put, users};
use crate::config::value::Auto;
use crate::config::{Origin, text};
use crate::shared::Shared;
use command::clients::audit::{AuditEvent, AuditOrigin};
use command::clients::source::ClientSource;
use command::metrics::{SlowRequest, Totals, Window};

const INDEX: &str = "\
Gannet's admin port

/metrics     everything that is counted and measured, for Prometheus
/stats.json  the same with latencies of the last minute and since the start, and slow requests
/histograms.json  the times of all requests since the start, bucket by bucket
/slow        requests that took longer than log.slow_request, by their parts
/hotkeys     hot, big and missed keys and prefixes of the last minutes (?minutes=60&count=20); .json for programs
/config      the settings that the server runs with, and where each came from; PUT changes those that can change
/namespaces  the namespaces that have names; PUT and DELETE below it create, change and drop one
/healthz     200 while the server serves, 503 while it stops
";

/// The latencies since the start, and in the last minute.
pub struct Latencies {
    /// The latencies since the start of the server.
    pub start: Totals,
    /// The latencies in the last minute.
    pub minute: Totals,
    /// The exact length of the last minute, in seconds.
    pub minute_s: f64,
}

/// The data sources of the admin pages.
pub struct Pages {
    shared: Arc<Shared>,
    settings: RunningSettings,
    window: Window,
}

impl Pages {
    /// Creates the admin pages of the server whose state is `shared`.
    pub fn new(shared: Arc<Shared>, settings: RunningSettings) -> Self {
        Self { shared, settings, window: Window::new(Instant::now()) }
    }

    /// Returns the instant at which [`Pages::tick`] must be called next.
    pub fn due(&self) -> Instant {
        self.window.due()
    }

    /// Reads the latency recorders if a reading is due.
    pub fn tick(&mut self, now: Instant) {
        if now >= self.window.due() {
            self.window.push(now, self.totals());
        }
    }

    fn totals(&self) -> Totals {
        Totals::read(self.shared.workers.iter().map(|worker| &worker.recorder))
    }

    fn latencies(&self, now: Instant) -> Latencies {
        let start = self.totals();
        let (length, minute) = self.window.last_minute(now, &start);
        Latencies { start, minute, minute_s: length.as_secs_f64() }
    }

    /// Returns true if `listen.admin_hosts` contains `name`.
    pub fn is_admin_host(&self, name: &str) -> bool {
        let running = self.settings.lock().unwrap_or_else(PoisonError::into_inner);
        running.0.admin_hosts.0.iter().any(|listed| listed == name)
    }

    /// Returns the response to a GET of `path` with `query`.
    pub fn answer(&mut self, path: &str, query: &str, now: Instant) -> Response {
        match path {
            "/" => Response::text(200, INDEX),
            "/metrics" => {
                let spaces = command::keyspace::figures::figures(&self.shared);
                let figures = figures::read(&self.shared, &spaces);
                let body = prometheus::write(&figures, &self.latencies(now), &spaces);
                Response { status: 200, content_type: prometheus::CONTENT_TYPE, body }
            }
            "/stats.json" => {
                let spaces = command::keyspace::figures::figures(&self.shared);
                let figures = figures::read(&self.shared, &spaces);
                let body = json::write(&figures, &self.latencies(now), &spaces, &self.slow());
                Response { status: 200, content_type: "application/json", body }
            }
            "/histograms.json" => {
                Response { status: 200, content_type: "application/json", body: json::histograms(&self.totals()) }
            }
            "/hotkeys" | "/hotkeys.json" => match hot::Query::parse(query) {
                Err(fault) => Response::text(400, fault),
                Ok(query) if path == "/hotkeys" => Response::text(200, hot::text(&self.shared, query)),
                Ok(query) => {
                    let body = hot::json(&self.shared, query);
                    Response { status: 200, content_type: "application/json", body }
                }
            },
            "/slow" => Response::text(200, self.slow_text()),
            "/config" => Response::text(200, self.config()),
            "/namespaces" => namespaces::list(&self.shared, &self.settings),
            "/healthz" if self.shared.threads.stop.is_off() => Response::text(503, "stopping\n"),
            "/healthz" => Response::text(200, "ok\n"),
            _ => Response::text(404, format!("there is no such page\n\n{INDEX}")),
        }
    }

    /// Executes a PUT of `body` to `path`, or a DELETE of `path` if `body` is `None`, if the user may change settings.
    pub fn change(
        &mut self,
        path: &str,
        query: &str,
        body: Option<&str>,
        credentials: Option<&Credentials>,
        source: ClientSource,
    ) -> Response {
        let user = credentials.map_or(&b""[..], Credentials::name);
        if let Err(refused) = users::permit(credentials, source, &self.shared) {
            if credentials.is_some() {
                let detail = || format!("status {}", refused.status);
                self.shared.audit.record(AuditEvent::LoginFailed, AuditOrigin::Admin, user, detail);
            }
            return refused;
        }
        let response = self.change_as_permitted(path, query, body);
        if response.status == 200 {
            let verb = if body.is_some() { "PUT" } else { "DELETE" };
            let changed = response.body.trim_end().replace('\n', "; ");
            let detail = || format!("{verb} {path}: {changed}");
            self.shared.audit.record(AuditEvent::Config, AuditOrigin::Admin, user, detail);
        }
        response
    }

    fn change_as_permitted(&mut self, path: &str, query: &str, body: Option<&str>) -> Response {
        let keep = match query {
            "" => false,
            "keep=true" => true,
            _ => return Response::text(400, "unknown query; only ?keep=true is allowed\n"),
        };
        match (path, path.strip_prefix("/namespaces/"), body) {
            ("/config", _, Some(body)) if !keep => put::config(body, &self.shared, &self.settings),
            (_, Some(name), Some(body)) => namespaces::put(name, body, keep, &self.shared, &self.settings),
            (_, Some(name), None) => namespaces::delete(name, keep, &self.shared, &self.settings),
            _ => Response::text(
                405,
                "PUT is allowed for /config and /namespaces/NAME, DELETE only for /namespaces/NAME\n",
            ),
        }
    }

    /// Returns the settings in force. The memory size is that of the store, which `cache_memlimit` may have changed.
    fn config(&self) -> String {
        let (mut settings, mut origins) = self.settings.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let memory = ByteSize(self.shared.store.memory_bytes());
        if settings.memory.explicit().is_some_and(|said| said != memory) {
            settings.memory = Auto::Is(memory);
            origins.insert("store.memory", Origin::Command("cache_memlimit"));
        }
        text::running(&settings, &origins)
    }

    /// Returns the slow requests of all workers, the latest first.
    fn slow(&self) -> Vec<SlowRequest> {
        let workers = self.shared.workers.iter().enumerate();
        let mut slow: Vec<SlowRequest> = workers.flat_map(|(number, w)| w.recorder.slow().read(number)).collect();
        slow.sort_by_key(|request| std::cmp::Reverse(request.at));
        slow
    }

    fn slow_text(&self) -> String {
        let mut out = String::from("Requests slower than log.slow_request, the latest first; times in us.\n\n");
        let _ = writeln!(
            out,
            "{:<24}  {:>6}  {:<11} {:>10} {:>10} {:>10} {:>10}  {:<21}  request",
            "when", "worker", "command", "wait", "execute", "send", "total", "client"
        );
        for slow in self.slow() {
            let _ = writeln!(
                out,
                "{}  {:>6}  {:<11} {:>10} {:>10} {:>10} {:>10}  {:<21}  {}",
                rfc3339(slow.at),
                slow.worker,
                slow.command.name(),
                slow.wait_ns / 1000,
                slow.execute_ns / 1000,
                slow.send_ns / 1000,
                slow.total_ns() / 1000,
                slow.client,
                slow.line
            );
        }
        out
    }
}
