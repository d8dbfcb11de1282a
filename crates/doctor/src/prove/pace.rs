//! Which rate both sides are asked for, where nobody names one: one that the generator sends in time on every round.
//!
//! ```text
//!   a closed loop ─> what server and generator do together, and whether they want the same CPUs
//!         │ a half of it; where they want the same, a third
//!         v
//!   a trial at the rate ── keeps pace ──> the rate; if it is not the first, or CPUs are shared, three quarters of it
//!      ^                        │ behind
//!      └────── two thirds ──────┘ six trials at most, then a person has to name one
//! ```
//! A trial is behind if the generator was its limit or half of the way there, if less was answered than asked, or if
//! an objective that was given was broken. Of rates that all broke one the highest that is not behind otherwise is
//! taken: a change may be what keeps it.
//!
//! Invariants:
//! - What is chosen is never more than half of what the closed loop reached, nor than any rate that was behind.
//! - What is chosen comes with the reason in words, for who reads the proof.

use page::words::{duration, grouped, percent};

/// The part of what a closed loop reaches that is tried first, and where server and generator want the same CPUs.
const FIRST: f64 = 1.0 / 2.0;
const FIRST_SHARED: f64 = 1.0 / 3.0;
/// From one trial to the next.
const STEP: f64 = 2.0 / 3.0;
/// Of a rate that is near one that was behind, or that shares its CPUs, as much is taken: rounds differ.
const ROOM: f64 = 3.0 / 4.0;
/// Trials at most.
pub const TRIALS_MAX: usize = 6;
/// A host whose CPUs the closed loop has busy so much of the time has none over for one of the two.
const BUSY_MIN: f64 = 0.8;
/// The part of what makes a measurement not count that a trial may use.
const USED_MAX: f64 = 0.5;
/// The part of what was asked that has to be answered.
const ANSWERED_MIN: f64 = 0.97;
/// Requests a second at least: of fewer a measurement tells nothing.
pub const RATE_MIN: f64 = 10.0;

const _: () = assert!(FIRST_SHARED < FIRST && STEP < 1.0 && ROOM < 1.0, "each only lowers the rate");

/// What the generator used of something, and from where on that is the limit of a measurement.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Used {
    /// Used.
    pub value: f64,
    /// Allowed.
    pub allowed: f64,
}

impl Used {
    fn is_near(self) -> bool {
        self.value > USED_MAX * self.allowed
    }
}

/// A run's figures of what tells whether a rate is too high.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trial {
    /// Answers a second.
    pub answered_per_s: f64,
    /// By how much requests went out late, at the 99th percentile, in ns.
    pub late_ns: Used,
    /// The share of the time that a thread of the generator was ready without a CPU.
    pub waited: Used,
    /// The share of this host's CPU time that was used, if it was told.
    pub busy: Option<f64>,
    /// Why its figures say nothing, if they do not.
    pub fault: Option<String>,
    /// An objective was broken.
    pub is_broken: bool,
}

impl Trial {
    /// Why the rate is too high, objectives aside.
    fn behind(&self, rate_per_s: f64) -> Option<String> {
        if let Some(fault) = &self.fault {
            return Some(fault.clone());
        }
        if self.answered_per_s < ANSWERED_MIN * rate_per_s {
            return Some(format!("only {}/s were answered", grouped(self.answered_per_s)));
        }
        if self.late_ns.is_near() {
            let late = duration(self.late_ns.value);
            return Some(format!("one request in a hundred went out {late} late or more"));
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
            // The first of a fault's causes, and no remedy: the rate that follows is one.
            Some(why) => format!("at {rate}/s {}", why.split(';').next().unwrap_or_default()),
            None if self.is_broken => format!("at {rate}/s the objectives were broken"),
            None => format!("{rate}/s kept pace"),
        }
    }
}

/// A search for the rate, a trial after the other.
pub struct Pace {
    closed: Trial,
    tried: Vec<Tried>,
}

/// A rate, and why it is this one.
#[derive(Clone, Debug, PartialEq)]
pub struct Chosen {
    /// Requests a second.
    pub rate_per_s: f64,
    /// In words.
    pub why: String,
}

impl Pace {
    /// From what a closed loop did.
    pub const fn new(closed: Trial) -> Self {
        Self { closed, tried: Vec::new() }
    }

    /// Server and generator want the same CPUs: the closed loop had all of this host's busy, or kept the generator off.
    pub fn shares_cpus(&self) -> bool {
        self.closed.busy.is_some_and(|share| share >= BUSY_MIN) || self.closed.waited.is_near()
    }

    /// The rate of the next trial; `None` once there is nothing more to try.
    pub fn next(&self) -> Option<f64> {
        let rate = match self.tried.last() {
            Some(last) if last.keeps() || self.tried.len() == TRIALS_MAX => return None,
            Some(last) => last.rate_per_s * STEP,
            None => self.closed.answered_per_s * if self.shares_cpus() { FIRST_SHARED } else { FIRST },
        };
        Some(two_digits(rate)).filter(|rate| *rate >= RATE_MIN)
    }

    /// Takes what came of a trial at the rate of [`Pace::next`].
    pub fn take(&mut self, rate_per_s: f64, trial: &Trial) {
        debug_assert_eq!(self.next(), Some(rate_per_s));
        self.tried.push(Tried { rate_per_s, behind: trial.behind(rate_per_s), is_broken: trial.is_broken });
    }

    /// What the trials lead to.
    ///
    /// # Errors
    /// Why none of them does.
    pub fn chosen(&self) -> Result<Chosen, String> {
        let closed = format!("a closed loop reached {}/s", grouped(self.closed.answered_per_s));
        let shared = if self.shares_cpus() { ", in which server and generator want the same CPUs" } else { "" };
        let trials: Vec<String> = self.tried.iter().map(Tried::words).collect();
        let trials = trials.join("; ");
        // The last one keeps the objectives, if any does; else the first that is not behind is the highest.
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

/// People read and write it down; never more than it was.
fn two_digits(rate: f64) -> f64 {
    if !(rate.is_finite() && rate > 0.0) {
        return 0.0;
    }
    let unit = 10f64.powf(rate.log10().floor() - 1.0);
    // A whole number of units that is a hair below one is that one.
    (rate / unit * (1.0 + 1e-9)).floor() * unit
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: f64 = 1e6;

    /// A trial that answered so much, on a host that was busy for that share.
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

    /// Searches on a host that has CPUs of its own for the generator, or not; `answer` makes a trial of what a calm one
    /// would be.
    fn search(is_shared: bool, answer: impl Fn(f64, Trial) -> Trial) -> (Vec<f64>, Result<Chosen, String>) {
        let mut pace = Pace::new(trial(136_000.0, if is_shared { 0.97 } else { 0.1 }));
        let mut rates = Vec::new();
        while let Some(rate) = pace.next() {
            pace.take(rate, &answer(rate, trial(rate, 0.3)));
            rates.push(rate);
        }
        (rates, pace.chosen())
    }

    /// Late from a rate on.
    fn late_above(limit: f64) -> impl Fn(f64, Trial) -> Trial {
        move |rate, mut trial| {
            trial.late_ns.value = if rate > limit { 0.6 * MS } else { 0.1 * MS };
            trial
        }
    }

    #[test]
    fn a_generator_with_room_gets_half_of_what_a_closed_loop_reaches() {
        let (rates, chosen) = search(false, |_, trial| trial);
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![68_000.0], 68_000.0));
        let why = "a closed loop reached 136,000/s; 68,000/s kept pace; so it is 68,000/s";
        assert_eq!(chosen.why, why);
    }

    #[test]
    fn where_both_want_the_same_cpus_the_generator_keeps_its_part() {
        let (rates, chosen) = search(true, |_, trial| trial);
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![45_000.0], 33_000.0));
        assert!(
            chosen
                .why
                .contains("server and generator want the same CPUs; 45,000/s kept pace; so it is 33,000/s, three")
        );
        let kept_off = Trial { waited: Used { value: 0.06, allowed: 0.1 }, ..trial(1000.0, 0.1) };
        assert!(Pace::new(kept_off).shares_cpus() && !Pace::new(Trial { busy: None, ..trial(1.0, 1.0) }).shares_cpus());
    }

    #[test]
    fn each_trial_that_is_behind_lowers_the_rate_and_is_told() {
        let (rates, chosen) = search(false, late_above(40_000.0));
        let chosen = chosen.unwrap();
        assert_eq!((rates, chosen.rate_per_s), (vec![68_000.0, 45_000.0, 30_000.0], 22_000.0));
        assert!(
            chosen.why.contains("at 45,000/s one request in a hundred went out 600 us late or more; 30,000/s kept")
        );
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
    fn a_generator_that_is_always_behind_has_a_person_name_the_rate() {
        let (rates, chosen) = search(true, late_above(0.0));
        let why = chosen.unwrap_err();
        assert_eq!(rates.len(), TRIALS_MAX);
        assert!(why.contains("at 45,000/s one request") && why.ends_with("name a --rate"), "{why}");
        let slow = Pace::new(trial(12.0, 0.1));
        assert!(slow.next().is_none() && slow.chosen().unwrap_err().starts_with("a closed loop reached 12/s: give"));
    }

    #[test]
    fn objectives_lower_the_rate_too_and_one_that_is_never_kept_does_not_end_the_proof() {
        let broken_above = |limit: f64| move |rate: f64, trial: Trial| Trial { is_broken: rate > limit, ..trial };
        let (_, chosen) = search(false, broken_above(50_000.0));
        assert_eq!(chosen.unwrap().rate_per_s, 45_000.0, "the generator had room at the first rate");
        let (rates, chosen) = search(false, broken_above(0.0));
        let chosen = chosen.unwrap();
        assert_eq!((rates.len(), chosen.rate_per_s), (TRIALS_MAX, 68_000.0));
        assert!(chosen.why.contains("at 68,000/s the objectives were broken"), "{}", chosen.why);
    }

    #[test]
    fn nothing_that_was_behind_is_reached_and_half_of_the_closed_loop_is_the_most() {
        let mut prng = base::prng::Prng::new(4);
        let (mut found, mut given_up) = (0, 0);
        for _ in 0..2_000 {
            let closed = 20.0 * 10f64.powf(5.0 * prng.unit());
            let mut pace = Pace::new(trial(closed, prng.unit()));
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
