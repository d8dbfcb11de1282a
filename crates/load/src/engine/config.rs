//! The configuration of a run.

use crate::schedule::SendPlan;
use io::affinity::{check_usable, usable_cpus};
use link::Address;
use link::tls::TlsClient;
use serde::{Deserialize, Serialize};

/// Highest number of threads of one stream.
pub const THREADS_MAX: usize = 256;
/// Highest number of connections of one stream, over all threads.
pub const CONNECTIONS_MAX: usize = 1 << 20;
/// Highest number of requests in flight on one connection.
pub const DEPTH_MAX: usize = 1 << 16;
/// Highest number of slices of a timeline.
pub const SLICES_MAX: u64 = 200_000;

/// The rule by which requests are sent.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Load {
    /// Open loop: each request has an intended instant that does not depend on earlier requests.
    Open(SendPlan),
    /// Closed loop: each connection keeps `depth` requests in flight, and each reply triggers the next request. A
    /// stalled server receives fewer requests, so measured tails are lower than what users would see.
    Closed,
    /// Sends by the plan and counts received bytes without matching replies to requests. Without a plan each connection
    /// sends as fast as the server accepts bytes.
    Blind(Option<SendPlan>),
}

/// The schedule by which connections are closed on purpose and reopened.
#[derive(Clone, Copy, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Reconnect {
    /// Number of idle connections that are closed and reopened per second, over all threads; 0 for none.
    pub per_s: f64,
    /// Interval in nanoseconds at which all connections are closed at once and reopened; 0 for never.
    pub storm_every_ns: u64,
    /// Pause before a broken or refused connection is retried, in nanoseconds.
    pub pause_ns: u64,
}

/// A second, paced stream beside the bulk load, with its own thread and connections. It uses the traffic, times,
/// timeout and window of the bulk load, and its figures are separate.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Sampler {
    /// The sampler's target. It may use TCP while the bulk load uses a unix socket.
    pub target: Address,
    /// Number of connections of the sampler.
    pub connections: usize,
    /// Requests per second of the sampler.
    pub rate_per_s: f64,
    /// The CPU that the sampler's thread is pinned to, if any.
    pub cpu: Option<usize>,
}

/// The method by which a thread waits for the next intended instant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Wait {
    /// The thread sleeps until shortly before the instant, then polls. The margin follows the lateness with which this
    /// host wakes threads.
    Sleep,
    /// The thread polls all the time. This gives the least lateness and uses a whole CPU per thread.
    Poll,
}

/// A host's part in a run on several hosts: its threads are a range of the threads of all hosts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostShare {
    /// Number of threads on the hosts before this one.
    pub first_thread: usize,
    /// Number of threads on all hosts.
    pub threads: usize,
}

/// The configuration of a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Config {
    /// The servers; connections are spread evenly over them.
    pub targets: Vec<Address>,
    /// TLS settings for targets that are reached by TCP; `None` disables TLS.
    pub tls: Option<TlsClient>,
    /// True if [`crate::traffic::Traffic::target`] chooses the target of each request; otherwise any connection may
    /// send any request.
    pub routed: bool,
    /// Number of threads.
    pub threads: usize,
    /// This host's part of a run on several hosts. `connections`, `requests_max` and `reconnect` are this host's own;
    /// the rate is the rate of all hosts.
    pub part: Option<HostShare>,
    /// The CPU of each thread, at least one per thread. If empty, the kernel chooses the CPUs.
    pub cpus: Vec<usize>,
    /// Number of connections over all threads: at least one per thread, or one per thread and target if `routed`.
    pub connections: usize,
    /// Highest number of requests in flight on one connection.
    pub depth: usize,
    /// Number of requests that are due at the same instant and are sent together on one connection; if `routed`, on one
    /// connection to each of their targets. Each request is measured separately, from that instant. A rate counts
    /// requests, not batches.
    pub batch: usize,
    /// The rule by which requests are sent.
    pub load: Load,
    /// Seed of the schedule's random draws.
    pub seed: u64,
    /// Length of the warm-up before the measured part, in nanoseconds.
    pub warm_up_ns: u64,
    /// Length of the measured part in nanoseconds.
    pub duration_ns: u64,
    /// Time after the end during which outstanding requests may still complete, in nanoseconds.
    pub drain_ns: u64,
    /// Number of requests over all threads after which the run ends; `None` if only time ends it.
    pub requests_max: Option<u64>,
    /// Time limit for a reply, in nanoseconds. After it the connection is closed, because a later reply would be
    /// matched with the wrong request.
    pub timeout_ns: u64,
    /// Time limit for opening a connection, in nanoseconds.
    pub connect_timeout_ns: u64,
    /// The schedule of deliberate reconnects, and the pause before a retry.
    pub reconnect: Reconnect,
    /// Highest number of simultaneous connection attempts, at the start and after a failure. It does not limit a
    /// reconnect storm.
    pub connects_at_once_max: usize,
    /// Length of a timeline slice in nanoseconds.
    pub slice_ns: u64,
    /// True if the live figures include counts of each verb.
    pub live_verbs: bool,
    /// The method by which threads wait.
    pub wait: Wait,
    /// Limit for the generator's own lateness at the 99th percentile, in nanoseconds. Above it, the generator was the
    /// bottleneck.
    pub lateness_ns_max: u64,
    /// The second stream, if any.
    pub sampler: Option<Sampler>,
}

impl Default for Config {
    /// Returns one thread with one connection in an open loop for ten seconds, without a target.
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
    /// Checks the configuration and returns all faults, each with its remedy.
    pub fn faults(&self) -> Vec<String> {
        let mut faults = Vec::new();
        let mut check = |holds: bool, text: &str| {
            if !holds {
                faults.push(text.to_owned());
            }
        };
        check(
            !self.targets.is_empty(),
            "there is no target; pass an address, as in 127.0.0.1:11211 or unix:/run/cache.sock",
        );
        check((1..=THREADS_MAX).contains(&self.threads), "threads must be 1 to 256");
        check(
            self.part
                .is_none_or(|part| part.first_thread.checked_add(self.threads).is_some_and(|end| end <= part.threads)),
            "a host's threads must be in the range of all hosts' threads",
        );
        check(self.connections >= self.threads, "each thread needs its own connection: raise connections");
        check(
            !self.routed || self.connections >= self.threads * self.targets.len(),
            "each thread needs a connection to every target: raise connections or lower threads",
        );
        check(self.connections <= CONNECTIONS_MAX, "connections must be at most 1048576");
        check((1..=DEPTH_MAX).contains(&self.depth), "the depth must be 1 to 65536");
        check(self.batch >= 1, "a batch must have at least one request");
        check(self.batch <= self.depth, "a batch exceeds the depth: raise the depth to the size of a batch");
        check(self.duration_ns > 0, "the measured part has a length of 0: set a duration, as in 10s");
        check(self.slice_ns >= 1_000_000, "a slice of the timeline must be at least 1ms");
        check(self.timeout_ns > 0 && self.connect_timeout_ns > 0, "the timeout must be above 0, as in 10s");
        check(self.connects_at_once_max > 0, "at least one simultaneous connection attempt must be allowed");
        let length_ns = self.warm_up_ns.saturating_add(self.duration_ns).saturating_add(self.drain_ns);
        check(
            length_ns / self.slice_ns.max(1) <= SLICES_MAX,
            "the timeline has more than 200000 slices: lengthen the slice or shorten the run",
        );
        check(
            self.reconnect.per_s.is_finite() && self.reconnect.per_s >= 0.0,
            "the reconnect rate must be at least 0 per second",
        );
        if let Some(sampler) = &self.sampler {
            check(sampler.connections >= 1, "the sampler needs at least one connection");
            check(sampler.rate_per_s > 0.0, "the sampler's rate must be above 0 per second, as in 100");
            check(
                !matches!(self.load, Load::Blind(None)) || self.duration_ns > 0,
                "the sampler needs a run that ends by time",
            );
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
            faults.push("each request of a trace has its own instant: remove the batch".to_owned());
        }
        faults
    }

    /// Returns the faults of the TLS settings for these targets.
    fn tls_faults(&self) -> Vec<String> {
        let Some(client) = &self.tls else { return Vec::new() };
        let sampled = self.sampler.iter().map(|sampler| &sampler.target);
        let names: Vec<_> = self.targets.iter().chain(sampled).map(|target| client.server_name(target)).collect();
        if !names.is_empty() && names.iter().all(|name| matches!(name, Ok(None))) {
            return vec!["tls: unix sockets cannot use TLS; write the target as HOST:PORT, or remove tls".to_owned()];
        }
        let mut faults: Vec<String> = names.into_iter().filter_map(Result::err).collect();
        faults.dedup();
        faults
    }

    /// Returns the faults of the threads' CPUs: each thread needs its own CPU, and this process must be allowed to run
    /// on it.
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
            faults.push(format!(
                "pin: {cpus} CPUs are given for {threads} threads; name one CPU per thread, or lower \
                               threads"
            ));
            return faults;
        }
        match of_sampler {
            None if self.sampler.is_some() => faults
                .push("pin: the sampler has no CPU of its own; name one more CPU, or pass --sampler-cpu".to_owned()),
            Some(cpu) if self.cpus[..self.threads].contains(&cpu) => {
                faults.push(format!("pin: the sampler would share CPU {cpu} with a load thread; give it another CPU"))
            }
            _ => {}
        }
        faults
    }
}
