//! What a run is asked to do.

use crate::schedule::SendPlan;
use io::affinity::{check_usable, usable_cpus};
use link::Address;
use link::tls::TlsClient;
use serde::{Deserialize, Serialize};

/// Threads of one stream.
pub const THREADS_MAX: usize = 256;
/// Connections of one stream, over all threads.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// Requests in flight on one connection.
pub const DEPTH_MAX: usize = 1 << 16;
/// Slices of a timeline.
pub const SLICES_MAX: u64 = 200_000;

/// The way in which requests are let out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Each request has an intended instant, whatever became of the ones before it.
    Open(SendPlan),
    /// Each connection keeps `depth` requests in flight. An answer lets out the next request, so that a server that
    /// stalls is asked less: what the run says of tails is not what users would see.
    Closed,
    /// By the plan, without matching answers to requests: what comes is counted in bytes. Without a plan each
    /// connection sends as fast as the server takes it.
    Blind(Option<SendPlan>),
}

/// The times at which connections are closed on purpose and made again.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconnect {
    /// So many connections a second, over all threads, are closed when they are idle and made again; 0: none.
    pub per_s: f64,
    /// Every so many nanoseconds all connections are closed at once and made again; 0: never.
    pub storm_every_ns: u64,
    /// Pause before a connection that broke or was refused is tried again, in nanoseconds.
    pub pause_ns: u64,
}

/// A second, paced stream beside the bulk, with its own thread and connections. It shares the bulk's traffic, times,
/// timeout and window, and is reported apart.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampler {
    /// Its target: perhaps by TCP while the bulk uses a unix socket.
    pub target: Address,
    /// Its connections.
    pub connections: usize,
    /// Requests a second.
    pub rate_per_s: f64,
    /// The CPU of its thread, if it is pinned.
    pub cpu: Option<usize>,
}

/// The way in which a thread waits for the next intended instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// It sleeps until shortly before the instant, by as much as this host wakes threads late, and polls for the rest.
    Sleep,
    /// It polls all the time: the least lateness, and a CPU for each thread.
    Poll,
}

/// A host's place in a run of several hosts: what its threads do is their share of what all threads do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// Threads of the hosts before this one.
    pub first_thread: usize,
    /// Threads of all hosts together.
    pub threads: usize,
}

/// A run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The servers; connections are spread over them evenly.
    pub targets: Vec<Address>,
    /// TLS of the connections to targets that are reached by TCP; `None`: none.
    pub tls: Option<TlsClient>,
    /// True if [`crate::traffic::Traffic::target`] says which target each request goes to; otherwise any connection
    /// serves any request.
    pub routed: bool,
    /// Threads.
    pub threads: usize,
    /// Of a run of several hosts: which part this one is. Connections, requests and reconnects are its own; the rate
    /// is that of all hosts.
    pub part: Option<HostShare>,
    /// The CPU of each thread, so many at least as there are threads; empty: the kernel places them.
    pub cpus: Vec<usize>,
    /// Connections over all threads; at least one a thread, and one for each target and thread where `routed`.
    pub connections: usize,
    /// Requests in flight on one connection, at most.
    pub depth: usize,
    /// Requests that are due at the same instant and leave in one send, on one connection (where `routed`: on one to
    /// each target that they are for). Each answer counts by itself, from that instant. A rate is of requests, not of
    /// batches.
    pub batch: usize,
    /// The way in which requests are let out.
    pub load: Load,
    /// Draws of the schedule follow from it.
    pub seed: u64,
    /// Nanoseconds before the measured part.
    pub warm_up_ns: u64,
    /// Nanoseconds of the measured part.
    pub duration_ns: u64,
    /// Time after the end for which requests in flight or still due are waited for, in nanoseconds.
    pub drain_ns: u64,
    /// Requests after which the run ends, over all threads; `None`: by time alone.
    pub requests_max: Option<u64>,
    /// Time limit for a reply, in nanoseconds. Then the connection is closed, since a reply that comes
    /// later would be taken for the next one's.
    pub timeout_ns: u64,
    /// Time limit for a connection, in nanoseconds.
    pub connect_timeout_ns: u64,
    /// The times at which connections are closed on purpose, and the pause before one is made again.
    pub reconnect: Reconnect,
    /// Connections that are being made at once, at the start and after a break; a storm knows no such limit.
    pub connects_at_once_max: usize,
    /// Length of a timeline's slice in nanoseconds.
    pub slice_ns: u64,
    /// True if the live figures tell what each verb did.
    pub live_verbs: bool,
    /// The way in which threads wait.
    pub wait: Wait,
    /// The generator's own lateness at the 99th percentile above which it is the limit, in nanoseconds.
    pub lateness_ns_max: u64,
    /// The second stream.
    pub sampler: Option<Sampler>,
}

impl Default for Config {
    /// One thread with one connection in an open loop for ten seconds. It has no target.
    fn default() -> Self {
        Self {
            targets: Vec::new(),
            tls: None,
            routed: false,
            threads: 1,
            part: None,
            cpus: Vec::new(),
            connections: 1,
            depth: 1,
            batch: 1,
            load: Load::Open(SendPlan::constant()),
            seed: 1,
            warm_up_ns: 0,
            duration_ns: 10_000_000_000,
            drain_ns: 1_000_000_000,
            requests_max: None,
            timeout_ns: 10_000_000_000,
            connect_timeout_ns: 5_000_000_000,
            reconnect: Reconnect { pause_ns: 100_000_000, ..Reconnect::default() },
            connects_at_once_max: 128,
            slice_ns: 1_000_000_000,
            live_verbs: false,
            wait: Wait::Sleep,
            lateness_ns_max: 1_000_000,
            sampler: None,
        }
    }
}

impl Config {
    /// Checks what the types do not hold; all faults, each with its remedy.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        check(!self.targets.is_empty(), "there is no target; name one, as in 127.0.0.1:11211 or unix:/run/cache.sock");
        check((1..=THREADS_MAX).contains(&self.threads), "threads are 1 to 256");
        check(
            self.part
                .is_none_or(|part| part.first_thread.checked_add(self.threads).is_some_and(|end| end <= part.threads)),
            "the threads of one host are among those of all hosts",
        );
        check(self.connections >= self.threads, "each thread has a connection of its own: raise connections");
        check(
            !self.routed || self.connections >= self.threads * self.targets.len(),
            "each thread has a connection to every target: raise connections or lower threads",
        );
        check(self.connections <= CONNECTIONS_MAX, "connections are at most 1048576");
        check((1..=DEPTH_MAX).contains(&self.depth), "the depth is 1 to 65536");
        check(self.batch >= 1, "a batch has one request at least");
        check(self.batch <= self.depth, "a batch fits the depth: raise the depth to the batch at least");
        check(self.duration_ns > 0, "the measured part has a length, as in 10s");
        check(self.slice_ns >= 1_000_000, "a slice of the timeline is at least 1ms");
        check(self.timeout_ns > 0 && self.connect_timeout_ns > 0, "a timeout is above 0, as in 10s");
        check(self.connects_at_once_max > 0, "at least one connection is made at once");
        let length_ns = self.warm_up_ns.saturating_add(self.duration_ns).saturating_add(self.drain_ns);
        check(
            length_ns / self.slice_ns.max(1) <= SLICES_MAX,
            "the timeline has more than 200000 slices: lengthen the slice or shorten the run",
        );
        check(
            self.reconnect.per_s.is_finite() && self.reconnect.per_s >= 0.0,
            "the reconnect rate is at least 0 a second",
        );
        if let Some(sampler) = &self.sampler {
            check(sampler.connections >= 1, "the sampler has at least one connection");
            check(sampler.rate_per_s > 0.0, "the sampler's rate is above 0 a second, as in 100");
            check(!matches!(self.load, Load::Blind(None)) || self.duration_ns > 0, "the sampler needs a run by time");
        }
        faults.extend(self.pin_faults());
        faults.extend(self.tls_faults());
        if let Load::Open(plan) | Load::Blind(Some(plan)) = &self.load
            && let Err(error) = plan.check()
        {
            faults.push(error.0);
        }
        if let (Load::Open(SendPlan::Trace { .. }) | Load::Blind(Some(SendPlan::Trace { .. })), 2..) =
            (&self.load, self.batch)
        {
            faults.push("each request of a trace has its own instant: leave the batch away".to_owned());
        }
        faults
    }

    /// Returns what is wrong with TLS to these targets.
    fn tls_faults(&self) -> Vec<String> {
        let Some(client) = &self.tls else { return Vec::new() };
        let sampled = self.sampler.iter().map(|sampler| &sampler.target);
        let names: Vec<_> = self.targets.iter().chain(sampled).map(|target| client.server_name(target)).collect();
        if !names.is_empty() && names.iter().all(|name| matches!(name, Ok(None))) {
            return vec!["tls: unix sockets are not secured; name a target by HOST:PORT, or leave tls away".to_owned()];
        }
        let mut faults: Vec<String> = names.into_iter().filter_map(Result::err).collect();
        faults.dedup();
        faults
    }

    /// Returns what is wrong with the CPUs of the threads: each has one of its own, and this process may run on it.
    fn pin_faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let of_sampler = self.sampler.as_ref().and_then(|sampler| sampler.cpu);
        let named: Vec<usize> = self.cpus.iter().copied().chain(of_sampler).collect();
        if !named.is_empty()
            && let Ok(usable) = usable_cpus()
            && let Err(refused) = check_usable(&named, &usable)
        {
            faults.push(format!("pin: {refused}"));
        }
        if self.cpus.is_empty() {
            return faults;
        }
        if self.cpus.len() < self.threads {
            let (cpus, threads) = (self.cpus.len(), self.threads);
            faults
                .push(format!("pin: {cpus} CPUs are named for {threads} threads; name one for each, or lower threads"));
            return faults;
        }
        match of_sampler {
            None if self.sampler.is_some() => faults.push(
                "pin: the sampler has no CPU of its own; name one more CPU than there are threads, or say --sampler-cpu"
                    .to_owned(),
            ),
            Some(cpu) if self.cpus[..self.threads].contains(&cpu) => faults.push(format!(
                "pin: the sampler would share CPU {cpu} with a thread of the load; give it a CPU of its own"
            )),
            _ => {}
        }
        faults
    }
}
