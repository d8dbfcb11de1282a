//! Chooses the request rate for both sides if the caller names no rate. The generator must be able to keep the rate in
//! every round.
//!
//! ```text
//!   a closed loop ─> the rate that server and generator reach together, and whether they compete for CPUs
//!         │ half of that rate; a third if they compete for CPUs
//!         v
//!   a trial at the rate ── keeps pace ──> the rate; if it is not the first, or CPUs are shared, three quarters of it
//!      ^                        │ behind
//!      └────── two thirds ──────┘ six trials at most, then the caller must name a rate
//! ```
//! A trial is behind if the generator used more than half of a limit beyond which a measurement is invalid, or if too
//! few requests got a reply. It is also behind if an objective that the caller gave was broken. If every rate broke an
//! objective, the highest rate that is not behind for another reason is chosen, because the change may be necessary to
//! meet the objective.
//!
//! Invariants:
//! - The chosen rate is never above half of the closed loop's rate, nor above any rate that was behind.
//! - The search also returns the reason for the chosen rate, in words, for the reader of the proof.

use page::words::{duration, grouped, percent};

/// The share of the closed loop's rate that is tried first. `FIRST_SHARED` is used if server and generator compete for
/// CPUs.
const FIRST: f64 = 1.0 / 2.0;
const FIRST_SHARED: f64 = 1.0 / 3.0;
/// The factor from one trial's rate to the next.
const STEP: f64 = 2.0 / 3.0;
/// The share of the found rate that is used if a higher rate was behind, or if server and generator compete for CPUs.
/// It leaves room for differences between rounds.
const ROOM: f64 = 3.0 / 4.0;
/// Maximum number of trials.
pub const TRIALS_MAX: usize = 6;
/// Busy share of the host during the closed loop from which the server and the generator compete for CPUs.
const BUSY_MIN: f64 = 0.8;
/// The share of any limit of a valid measurement that a trial may use.
const USED_MAX: f64 = 0.5;
/// The minimum share of the requests that must get a reply.
const ANSWERED_MIN: f64 = 0.97;
/// Minimum rate in requests per second. At a lower rate a measurement has no meaning.
pub const RATE_MIN: f64 = 10.0;

const _: () = assert!(FIRST_SHARED < FIRST && STEP < 1.0 && ROOM < 1.0, "each only lowers the rate");

/// The generator's use of a resource, and the highest use in a valid measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// The use.
    pub value: f64,
    /// The highest allowed use.
    pub allowed: f64,
}

impl Used {
    fn is_near(self) -> bool {
        self.value > USED_MAX * self.allowed
    }
}

/// The figures of a run that show whether a rate is too high.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Replies per second.
    pub answered_per_s: f64,
    /// The lateness of the sends at the 99th percentile, in ns.
    pub late_ns: Used,
    /// The share of the time that a thread of the generator was runnable and had no CPU.
    pub waited: Used,
    /// The share of this host's CPU time that was used, if the kernel reported it.
    pub busy: Option<f64>,
    /// The reason why the figures are invalid, if they are.
    pub fault: Option<String>,
    /// True if an objective was broken.
    pub is_broken: bool,
}

impl Trial {
    /// Returns the reason why the rate is too high, apart from objectives; `None` if it is not.
    fn behind(&self, rate_per_s: f64) -> Option<String> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        if self.answered_per_s < ANSWERED_MIN * rate_per_s {
            return Some(format!("only {}/s were answered", grouped(self.answered_per_s)));
        }
        if self.late_ns.is_near() {
            let late = duration(self.late_ns.value);
            return Some(format!("requests were sent late: {late} at p99"));
        }
        self.waited
            .is_near()
            .then(|| format!("the generator waited for a CPU {} of the time", percent(self.waited.value)))
    }
}

struct Tried {
    rate_per_s: f64,
    behind: Option<String>,
    is_broken: bool,
}

impl Tried {
    fn keeps(&self) -> bool {
        self.behind.is_none() && !self.is_broken
    }

    fn words(&self) -> String {
        let rate = grouped(self.rate_per_s);
        match &self.behind {
            // Uses only the first cause of a fault, without its remedy, because the next, lower rate is the remedy.
            Some(why) => format!("at {rate}/s {}", why.split(';').next().unwrap_or_default()),
            None if self.is_broken => format!("at {rate}/s the objectives were broken"),
            None => format!("{rate}/s kept pace"),
        }
    }
}

/// A search for the rate, trial by trial.
pub struct RateSearch {
    closed: Trial,
    tried: Vec<Tried>,
}

/// A rate, and the reason for it.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Requests per second.
    pub rate_per_s: f64,
    /// The reason, in words.
    pub why: String,
}

impl RateSearch {
    /// Begins a search from the result of a closed loop.
    pub const fn new(closed: Trial) -> Self {
        Self { closed, tried: Vec::new() }
    }

    /// Returns true if server and generator compete for CPUs: in the closed loop all of this host's CPUs were busy, or
    /// the generator waited for a CPU.
    pub fn shares_cpus(&self) -> bool {
        self.closed.busy.is_some_and(|share| share >= BUSY_MIN) || self.closed.waited.is_near()
    }

    /// Returns the rate of the next trial; `None` if the search has ended.
    pub fn next(&self) -> Option<f64> {
        let rate = match self.tried.last() {
            Some(last) if last.keeps() || self.tried.len() == TRIALS_MAX => return None,
            Some(last) => last.rate_per_s * STEP,
            None => self.closed.answered_per_s * if self.shares_cpus() { FIRST_SHARED } else { FIRST },
        };
        Some(two_digits(rate)).filter(|rate| *rate >= RATE_MIN)
    }

    /// Takes the result of a trial at the rate of [`RateSearch::next`].
    pub fn take(&mut self, rate_per_s: f64, trial: &Trial) {
        debug_assert_eq!(self.next(), Some(rate_per_s));
        self.tried.push(Tried { rate_per_s, behind: trial.behind(rate_per_s), is_broken: trial.is_broken });
    }

    /// Returns the rate that follows from the trials.
    ///
    /// # Errors
    /// The reason, if no trial leads to a rate.
    pub fn chosen(&self) -> Result<Chosen, String> {
        let closed = format!("a closed loop reached {}/s", grouped(self.closed.answered_per_s));
        let shared = if self.shares_cpus() { ", in which server and generator want the same CPUs" } else { "" };
        let trials: Vec<String> = self.tried.iter().map(Tried::words).collect();
        let trials = trials.join("; ");
        // Takes the trial that meets the objectives, if there is one. Otherwise takes the first trial that is not
        // behind, which has the highest rate of those.
        let found = self.tried.iter().find(|tried| tried.keeps());
        let Some(found) = found.or_else(|| self.tried.iter().find(|tried| tried.behind.is_none())) else {
            let tried = if trials.is_empty() { String::new() } else { format!("; {trials}") };
            return Err(format!("{closed}{shared}{tried}: give the generator CPUs of its own, or name a --rate"));
        };
        let has_room = self.tried[0].behind.is_none() && !self.shares_cpus();
        let rate_per_s = two_digits(found.rate_per_s * if has_room { 1.0 } else { ROOM });
        let part = if has_room { String::new() } else { format!(", three quarters of {}", grouped(found.rate_per_s)) };
        let why = format!("{closed}{shared}; {trials}; so it is {}/s{part}", grouped(rate_per_s));
        Ok(Chosen { rate_per_s, why })
    }
}

/// Rounds a rate down to two digits, so that people can read it and write it down.
fn two_digits(rate: f64) -> f64 {
    if !(rate.is_finite() && rate > 0.0) {
        return 0.0;
    }
    let unit = 10f64.powf(rate.log10().floor() - 1.0);
    // The factor prevents rounding errors from turning a whole number of units into the next lower one.
    (rate / unit * (1.0 + 1e-9)).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// Returns a trial with this many replies per second, on a host that was busy for that share.
    fn trial(answered_per_s: f64, busy: f64) -> Trial {
        let waited = Used { value: 0.0, allowed: 0.1 };
        Trial {
            answered_per_s,
            late_ns: Used { value: 0.1 * MS, allowed: MS },
            waited,
            busy: Some(busy),
            ..Trial::default()
        }
    }

    /// Runs a search on a host on which server and generator compete for CPUs, or not. `answer` converts an undisturbed
    /// trial into the measured trial.
    fn search(is_shared: bool, answer: impl Fn(f64, Trial) -> Trial) -> (Vec<f64>, Result<Chosen, String>) {
        let mut pace = RateSearch::new(trial(136_000.0, if is_shared { 0.97 } else { 0.1 }));
        let mut rates = Vec::new();
        while let Some(rate) = pace.next() {
            pace.take(rate, &answer(rate, trial(rate, 0.3)));
            rates.push(rate);
        }
        (rates, pace.chosen())
    }

    /// Returns a function that makes requests late above the rate `limit`.
    fn late_above(limit: f64) -> impl Fn(f64, Trial) -> Trial {
        move |rate, mut trial| {
            trial.late_ns.value = if rate > limit { 0.6 * MS } else { 0.1 * MS };
            trial
        }
    }

    #[test]
    fn unloaded_generator_uses_half_the_closed_loop_rate() {
        let (rates, chosen) = search(false, |_, trial| trial);
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![68_000.0], 68_000.0));
        let why = "a closed loop reached 136,000/s; 68,000/s kept pace; so it is 68,000/s";
        assert_eq!(chosen.why, why);
    }

    #[test]
    fn rate_is_lowered_when_server_and_generator_share_cpus() {
        let (rates, chosen) = search(true, |_, trial| trial);
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![45_000.0], 33_000.0));
        assert!(
            chosen
                .why
                .contains("server and generator want the same CPUs; 45,000/s kept pace; so it is 33,000/s, three")
        );
        let kept_off = Trial { waited: Used { value: 0.06, allowed: 0.1 }, ..trial(1000.0, 0.1) };
        assert!(
            RateSearch::new(kept_off).shares_cpus()
                && !RateSearch::new(Trial { busy: None, ..trial(1.0, 1.0) }).shares_cpus()
        );
    }

    #[test]
    fn each_late_trial_lowers_the_rate_and_is_explained() {
        let (rates, chosen) = search(false, late_above(40_000.0));
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![68_000.0, 45_000.0, 30_000.0], 22_000.0));
        assert!(chosen.why.contains("at 45,000/s requests were sent late: 600 us at p99; 30,000/s kept"));
        for (part, behind) in [
            (
                "the generator waited for a CPU 6 %",
                Trial { waited: Used { value: 0.06, allowed: 0.1 }, ..trial(68e3, 0.3) },
            ),
            ("only 60,000/s were answered", trial(60e3, 0.3)),
            (
                "GENERATOR LIMITED: x; 45,000/s kept",
                Trial { fault: Some("GENERATOR LIMITED: x; do y".to_owned()), ..trial(68e3, 0.3) },
            ),
        ] {
            let (rates, chosen) = search(false, |rate, trial| if rate > 50e3 { behind.clone() } else { trial });
            let chosen = chosen.unwrap();
            assert!(rates == [68e3, 45e3] && chosen.rate_per_s == 33e3 && chosen.why.contains(part), "{chosen:?}");
        }
    }

    #[test]
    fn always_late_generator_requires_an_explicit_rate() {
        let (rates, chosen) = search(true, late_above(0.0));
        let why = chosen.unwrap_err();
        assert_eq!(rates.len(), TRIALS_MAX);
        assert!(why.contains("at 45,000/s requests were sent late") && why.ends_with("name a --rate"), "{why}");
        let slow = RateSearch::new(trial(12.0, 0.1));
        assert!(slow.next().is_none() && slow.chosen().unwrap_err().starts_with("a closed loop reached 12/s: give"));
    }

    #[test]
    fn violated_objectives_lower_the_rate_but_never_abort_the_proof() {
        let broken_above = |limit: f64| move |rate: f64, trial: Trial| Trial { is_broken: rate > limit, ..trial };
        let (_, chosen) = search(false, broken_above(50_000.0));
        assert_eq!(chosen.unwrap().rate_per_s, 45_000.0, "the generator had room at the first rate");
        let (rates, chosen) = search(false, broken_above(0.0));
        let chosen = chosen.unwrap();
        assert_eq!((rates.len(), chosen.rate_per_s), (TRIALS_MAX, 68_000.0));
        assert!(chosen.why.contains("at 68,000/s the objectives were broken"), "{}", chosen.why);
    }

    #[test]
    fn chosen_rate_is_below_every_late_rate_and_half_the_closed_loop_rate() {
        let mut prng = base::prng::Prng::new(4);
        let (mut found, mut given_up) = (0, 0);
        for _ in 0..2_000 {
            let closed = 20.0 * 10f64.powf(5.0 * prng.unit());
            let mut pace = RateSearch::new(trial(closed, prng.unit()));
            let (limit, mut behind) = (closed * prng.unit(), f64::INFINITY);
            while let Some(rate) = pace.next() {
                assert!(rate < behind && rate >= RATE_MIN);
                if rate > limit {
                    behind = rate;
                }
                pace.take(rate, &late_above(limit)(rate, trial(rate, 0.3)));
            }
            match pace.chosen() {
                Ok(chosen) => {
                    found += 1;
                    assert!(chosen.rate_per_s < behind && chosen.rate_per_s <= closed / 2.0 + 1e-6, "{chosen:?}");
                }
                Err(_) => given_up += 1,
            }
        }
        assert!(found > 500 && given_up > 10, "{found} {given_up}");
    }
}
