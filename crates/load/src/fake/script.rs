//! When answers are due.

use base::prng::split_mix;

/// The time that an answer takes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Delay {
    /// Always so many nanoseconds.
    Fixed(u64),
    /// One or the other, by a draw that follows from the request's number.
    Bimodal {
        /// Nanoseconds of most answers.
        fast_ns: u64,
        /// Nanoseconds of the others.
        slow_ns: u64,
        /// Slow answers of 10,000.
        slow_per_10k: u64,
    },
}

/// A time in which nothing is answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Stall {
    /// Its begin, in nanoseconds from the server's first request.
    pub begin_ns: u64,
    /// Its length.
    pub length_ns: u64,
}

/// A server's misconduct.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Misconduct {
    /// It closes the connection instead of answering.
    Close,
    /// It answers with something else.
    Garbage,
    /// It does not answer, and nothing behind it on the same connection either.
    Silence,
}

/// A server's behaviour.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Script {
    /// From the arrival, or from the request's turn in the queue, to the answer.
    pub delay: Delay,
    /// One request after another: each has its delay to itself, so that the capacity is 1 / delay. Otherwise any
    /// number of requests are answered at once.
    pub one_by_one: bool,
    /// Nothing is answered within it; what falls into it is answered at its end.
    pub stall: Option<Stall>,
    /// Every so many requests it does something wrong; the first is request number `every` - 1.
    pub misconduct: Option<(u64, Misconduct)>,
}

/// The bytes that are sent instead of an answer.
pub(super) const GARBAGE: &[u8] = b"?what was that\r\n";

impl Script {
    /// The same, with nothing answered for `length_ns` from `begin_ns` on.
    #[must_use]
    pub const fn with_stall(self, begin_ns: u64, length_ns: u64) -> Self {
        Self { stall: Some(Stall { begin_ns, length_ns }), ..self }
    }

    /// The same, with something wrong at every request number `every`, which is at least 1.
    #[must_use]
    pub const fn with_misconduct(self, every: u64, what: Misconduct) -> Self {
        assert!(every > 0, "every 0th request is none");
        Self { misconduct: Some((every, what)), ..self }
    }

    /// Answers `delay_ns` after the arrival.
    pub const fn fixed(delay_ns: u64) -> Self {
        Self { delay: Delay::Fixed(delay_ns), one_by_one: false, stall: None, misconduct: None }
    }

    /// Answers one request after another, each in `service_ns`.
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

    /// Returns what it does wrong with request number `number`.
    pub fn misconduct_at(&self, number: u64) -> Option<Misconduct> {
        self.misconduct.filter(|(every, _)| number % every == every - 1).map(|(_, what)| what)
    }

    /// Returns when request number `number` that came at `arrival_ns` is answered, if the server was free from
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
