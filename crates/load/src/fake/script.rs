//! The instants at which replies are due.

use base::prng::split_mix;

/// The time that a reply takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// A fixed number of nanoseconds.
    Fixed(u64),
    /// One of two delays, chosen by a draw that depends on the request's number.
    Bimodal {
        /// Delay of most replies, in nanoseconds.
        fast_ns: u64,
        /// Delay of the other replies, in nanoseconds.
        slow_ns: u64,
        /// Number of slow replies in 10,000.
        slow_per_10k: u64,
    },
}

/// A period in which the server sends no replies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Beginning of the stall, in nanoseconds from the server's first request.
    pub begin_ns: u64,
    /// Length of the stall in nanoseconds.
    pub length_ns: u64,
}

/// A deliberate error of the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misconduct {
    /// The server closes the connection instead of replying.
    Close,
    /// The server sends invalid bytes as a reply.
    Garbage,
    /// The server stops replying on the connection.
    Silence,
}

/// The behaviour of a fake server.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// Time to the reply, counted from the request's arrival, or with `one_by_one` from the instant at which the server
    /// begins to handle the request.
    pub delay: Delay,
    /// True if the server handles one request after another, so that its capacity is 1 / delay. Otherwise it handles
    /// any number of requests at once.
    pub one_by_one: bool,
    /// Period without replies; replies due in it are sent at its end.
    pub stall: Option<Stall>,
    /// The server misbehaves once in this number of requests; the first is request number `every` - 1.
    pub misconduct: Option<(u64, Misconduct)>,
}

/// The bytes sent instead of a reply.
pub(super) const GARBAGE: &[u8] = b"?what was that\r\n";

impl Script {
    /// Returns the script with a stall of `length_ns` from `begin_ns` on.
    #[must_use]
    pub const fn with_stall(self, begin_ns: u64, length_ns: u64) -> Self {
        Self { stall: Some(Stall { begin_ns, length_ns }), ..self }
    }

    /// Returns the script with a deliberate error once in `every` requests; `every` must be at least 1.
    #[must_use]
    pub const fn with_misconduct(self, every: u64, what: Misconduct) -> Self {
        assert!(every > 0, "an interval of 0 requests is invalid");
        Self { misconduct: Some((every, what)), ..self }
    }

    /// Returns a script that replies `delay_ns` after the arrival.
    pub const fn fixed(delay_ns: u64) -> Self {
        Self { delay: Delay::Fixed(delay_ns), one_by_one: false, stall: None, misconduct: None }
    }

    /// Returns a script that handles one request after another, each in `service_ns`.
    pub const fn queue(service_ns: u64) -> Self {
        Self { delay: Delay::Fixed(service_ns), one_by_one: true, stall: None, misconduct: None }
    }

    /// Returns the time that request number `number` takes.
    pub const fn delay_ns(&self, number: u64) -> u64 {
        match self.delay {
            Delay::Fixed(ns) => ns,
            Delay::Bimodal { fast_ns, slow_ns, slow_per_10k } => {
                if split_mix(number) % 10_000 < slow_per_10k {
                    slow_ns
                } else {
                    fast_ns
                }
            }
        }
    }

    /// Returns the deliberate error at request number `number`, if any.
    pub fn misconduct_at(&self, number: u64) -> Option<Misconduct> {
        self.misconduct.filter(|(every, _)| number % every == every - 1).map(|(_, what)| what)
    }

    /// Returns the instant of the reply to request `number` that arrived at `arrival_ns`, if the server was free from
    /// `free_ns` on.
    pub fn answer_ns(&self, arrival_ns: u64, free_ns: u64, number: u64) -> u64 {
        let begin_ns = if self.one_by_one { arrival_ns.max(free_ns) } else { arrival_ns };
        let answer_ns = begin_ns + self.delay_ns(number);
        match self.stall {
            Some(stall) if (stall.begin_ns..stall.begin_ns + stall.length_ns).contains(&answer_ns) => {
                stall.begin_ns + stall.length_ns
            }
            _ => answer_ns,
        }
    }
}
