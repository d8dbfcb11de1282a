//! The delay of authentication attempts: those from an address with failed attempts are answered late.
//!
//! ```text
//!   worker: attempt ──begin──> no delay ─────────────────────────────────────────> check ──> succeeded, or failed
//!                       └────> delay: the connection rests until its deadline ──────^
//!   survey, once a second: failures since the last report ──> log
//! ```
//! The table of sources is shared by all workers and both protocols. Its lock is taken only for authentication attempts
//! and once a second.
//!
//! The password is checked after the delay, so neither the reply nor its time reveals anything earlier. An attempt that
//! is delayed counts as failed when its delay begins. So attempts over many connections at once are delayed like
//! attempts one after another, and a client that leaves during its delay gains nothing.
//!
//! Bounds: the table has [`SOURCES_MAX`] entries of about 200 bytes. A further source replaces the source whose last
//! failure is the oldest. A report lists [`REPORTS_MAX`] sources.

use crate::clients::client_info::{CLIENT_TEXT_MAX, ClientText};
use crate::clients::source::ClientSource;
use base::clock::UnixMillis;
use std::collections::{BTreeMap, HashMap};
use std::sync::atomic::{AtomicUsize, Ordering::Relaxed};
use std::sync::{Mutex, MutexGuard, PoisonError};

/// The maximum number of sources in the table.
pub const SOURCES_MAX: usize = 4096;
/// The maximum number of sources that one report lists.
pub const REPORTS_MAX: usize = 64;
/// The number of failures of a source after which further attempts are delayed.
const FREE_FAILURES: u32 = 3;
/// The first delay, in ms. Each further failure doubles it.
const DELAY_MIN_MS: u64 = 10;
/// The longest delay, in ms.
const DELAY_MAX_MS: u64 = 2000;
/// The name of the admin port's protocol in the log.
const ADMIN: &str = "HTTP";
/// The time in ms after a source's last failure at which its failures are forgotten.
const FORGET_MS: u64 = 60_000;

/// The failures of a source.
#[derive(Clone, Debug)]
struct SourceFailures {
    /// The number of failures that determines the delay.
    failures: u32,
    last: UnixMillis,
    /// The position of the last failure among all failures.
    number: u64,
    /// The number of failures since the last report.
    unreported: u64,
    /// The user and the protocol of the last failure.
    user: ClientText,
    protocol: &'static str,
}

#[derive(Debug, Default)]
struct FailureTable {
    by_source: HashMap<ClientSource, SourceFailures>,
    /// All sources by the position of their last failure.
    by_number: BTreeMap<u64, ClientSource>,
    next: u64,
    /// The number of unreported failures of sources that were replaced.
    replaced: u64,
}

impl FailureTable {
    /// Returns the delay of the next attempt of a source, in ms, and the instant of its last failure. Returns `None` if
    /// it has no delay.
    fn delay(&self, source: ClientSource, now: UnixMillis) -> Option<(u64, UnixMillis)> {
        let known = self.by_source.get(&source)?;
        if known.failures < FREE_FAILURES || now.ms_since(known.last) >= FORGET_MS {
            return None;
        }
        let doubled = (known.failures - FREE_FAILURES).min(DELAY_MAX_MS.ilog2());
        Some(((DELAY_MIN_MS << doubled).min(DELAY_MAX_MS), known.last))
    }

    fn remove(&mut self, source: ClientSource) {
        if let Some(removed) = self.by_source.remove(&source) {
            self.by_number.remove(&removed.number);
            self.replaced += removed.unreported;
        }
    }

    /// Counts a failure of `source`. Returns its entry.
    fn count(&mut self, source: ClientSource, now: UnixMillis) -> &mut SourceFailures {
        if !self.by_source.contains_key(&source)
            && self.by_source.len() >= SOURCES_MAX
            && let Some((_, oldest)) = self.by_number.pop_first()
        {
            self.remove(oldest);
        }
        let number = self.next;
        self.next += 1;
        let entry = self.by_source.entry(source).or_insert_with(|| SourceFailures {
            failures: 0,
            last: now,
            number,
            unreported: 0,
            user: ClientText::new(),
            protocol: ADMIN,
        });
        self.by_number.remove(&entry.number);
        self.by_number.insert(number, source);
        if now.ms_since(entry.last) >= FORGET_MS {
            entry.failures = 0;
        }
        entry.failures = entry.failures.saturating_add(1);
        (entry.number, entry.last) = (number, now);
        entry
    }
}

/// Failed authentication attempts of one source, for the log.
#[derive(Debug, PartialEq, Eq)]
struct FailureReport {
    source: ClientSource,
    failures: u64,
    /// The user and the protocol of the last attempt.
    user: ClientText,
    protocol: &'static str,
}

/// The sources of failed authentication attempts.
#[derive(Debug, Default)]
pub struct AuthDelay {
    table: Mutex<FailureTable>,
    /// The number of sources in the table.
    sources: AtomicUsize,
}

impl AuthDelay {
    fn table(&self) -> MutexGuard<'_, FailureTable> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns the number of sources whose failures are not forgotten.
    pub fn sources(&self) -> usize {
        self.sources.load(Relaxed)
    }

    /// Returns the delay of an attempt that begins, in ms. Returns `None` if the attempt is not delayed.
    pub(crate) fn begin(&self, source: ClientSource, now: UnixMillis) -> Option<u64> {
        if self.sources() == 0 {
            return None;
        }
        let mut table = self.table();
        let (delay_ms, _) = table.delay(source, now)?;
        table.count(source, now);
        Some(delay_ms)
    }

    /// Returns the time in ms until which attempts of a source are refused that cannot wait: the delay since the last
    /// failure. Returns 0 if an attempt may be made now.
    pub fn refused_ms(&self, source: ClientSource, now: UnixMillis) -> u64 {
        if self.sources() == 0 {
            return 0;
        }
        self.table().delay(source, now).map_or(0, |(delay_ms, last)| delay_ms.saturating_sub(now.ms_since(last)))
    }

    /// Records a failed attempt at the admin port, which is not delayed but refused ([`AuthDelay::refused_ms`]).
    pub fn fail_admin(&self, source: ClientSource, user: &[u8], now: UnixMillis) {
        self.fail(source, (user, ADMIN), false, now);
    }

    /// Records a failed attempt. `is_counted`: [`AuthDelay::begin`] has already counted it, because it was delayed.
    pub(crate) fn fail(
        &self,
        source: ClientSource,
        (user, protocol): (&[u8], &'static str),
        is_counted: bool,
        now: UnixMillis,
    ) {
        let mut table = self.table();
        if !is_counted || !table.by_source.contains_key(&source) {
            table.count(source, now);
        }
        if let Some(entry) = table.by_source.get_mut(&source) {
            entry.unreported += 1;
            entry.user = user.iter().take(CLIENT_TEXT_MAX).copied().collect();
            entry.protocol = protocol;
        }
        self.sources.store(table.by_source.len(), Relaxed);
    }

    /// Forgets the failures of a source, because an attempt has succeeded.
    pub fn succeed(&self, source: ClientSource) {
        if self.sources() > 0 {
            // The entry remains until its failures are reported.
            if let Some(entry) = self.table().by_source.get_mut(&source) {
                entry.failures = 0;
            }
        }
    }

    /// Returns the failures since the last report, of at most [`REPORTS_MAX`] sources, and the number of those that no
    /// report will list. Removes sources whose failures are forgotten.
    fn take_reports(&self, now: UnixMillis) -> (Vec<FailureReport>, u64) {
        if self.sources() == 0 {
            return (Vec::new(), 0);
        }
        let (mut reports, mut forgotten) = (Vec::new(), Vec::new());
        let mut table = self.table();
        let FailureTable { by_source, by_number, .. } = &mut *table;
        // The oldest failures come first, so that no source is left out for long.
        for source in by_number.values() {
            let Some(entry) = by_source.get_mut(source) else { continue };
            if entry.unreported > 0 && reports.len() < REPORTS_MAX {
                let failures = std::mem::take(&mut entry.unreported);
                let (user, protocol) = (entry.user.clone(), entry.protocol);
                reports.push(FailureReport { source: *source, failures, user, protocol });
            }
            let is_forgotten = entry.failures == 0 || now.ms_since(entry.last) >= FORGET_MS;
            if is_forgotten && entry.unreported == 0 {
                forgotten.push(*source);
            }
        }
        forgotten.into_iter().for_each(|source| table.remove(source));
        self.sources.store(table.by_source.len(), Relaxed);
        (reports, std::mem::take(&mut table.replaced))
    }

    /// Logs the failures since the last call: one line for each source. A thread that serves no clients calls it once a
    /// second.
    pub fn log_failures(&self, now: UnixMillis) {
        let (reports, replaced) = self.take_reports(now);
        for FailureReport { source, failures, user, protocol } in reports {
            let user = String::from_utf8_lossy(&user);
            tracing::warn!(
                "authentication failed: user={user:?} source={source} protocol={protocol} failures={failures}"
            );
        }
        if replaced > 0 {
            tracing::warn!("authentication failed: failures={replaced} from more than {SOURCES_MAX} sources");
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str) -> ClientSource {
        ClientSource::of(Some(text.parse().unwrap()))
    }

    /// Makes a failed attempt at `now`. Returns its delay.
    fn attempt(delay: &AuthDelay, source: ClientSource, now: u64) -> u64 {
        let begun = delay.begin(source, UnixMillis(now));
        delay.fail(source, (b"ann", "Redis"), begun.is_some(), UnixMillis(now));
        begun.unwrap_or(0)
    }

    #[test]
    fn delay_doubles_to_its_maximum_and_is_forgotten_after_a_minute() {
        let (delay, one) = (AuthDelay::default(), source("10.0.0.1:5"));
        let delays: Vec<u64> = (0..14).map(|number| attempt(&delay, one, number)).collect();
        assert_eq!(delays, [0, 0, 0, 10, 20, 40, 80, 160, 320, 640, 1280, 2000, 2000, 2000]);
        assert_eq!(attempt(&delay, source("10.0.0.2:5"), 14), 0);
        assert_eq!(attempt(&delay, one, 13 + FORGET_MS - 1), 2000);
        let later = 13 + 2 * FORGET_MS - 1;
        let delays: Vec<u64> = (0..4).map(|number| attempt(&delay, one, later + number)).collect();
        assert_eq!(delays, [0, 0, 0, 10]);
        delay.succeed(one);
        assert_eq!(attempt(&delay, one, later + 9), 0);
    }

    #[test]
    fn attempts_over_many_connections_at_once_are_each_delayed_longer() {
        let (delay, one) = (AuthDelay::default(), source("10.0.0.1:5"));
        (0..3).for_each(|_| assert_eq!(attempt(&delay, one, 0), 0));
        let delays: Vec<_> = (0..9).filter_map(|_| delay.begin(one, UnixMillis(1))).collect();
        assert_eq!(delays, [10, 20, 40, 80, 160, 320, 640, 1280, 2000]);
    }

    #[test]
    fn a_full_table_replaces_the_oldest_source_and_counts_its_failures() {
        let delay = AuthDelay::default();
        let of = |number: u32| ClientSource::of(Some((std::net::Ipv4Addr::from(number), 1).into()));
        (0..4).for_each(|_| _ = attempt(&delay, of(0), 0));
        for number in 1..=SOURCES_MAX as u32 {
            assert_eq!(attempt(&delay, of(number), 1), 0);
        }
        assert_eq!((delay.sources(), delay.table().by_number.len()), (SOURCES_MAX, SOURCES_MAX));
        assert_eq!(delay.begin(of(0), UnixMillis(2)), None, "the oldest is forgotten");
        let (mut reported, mut all, mut replaced) = (0, 0, 0);
        while all + replaced < 4 + SOURCES_MAX as u64 {
            let (reports, of_replaced) = delay.take_reports(UnixMillis(2));
            assert!(reports.len() <= REPORTS_MAX);
            reported += reports.len();
            all += reports.iter().map(|report| report.failures).sum::<u64>();
            replaced += of_replaced;
        }
        assert_eq!((reported, replaced), (SOURCES_MAX, 4));
        assert!(delay.take_reports(UnixMillis(FORGET_MS + 1)).0.is_empty());
        assert_eq!(delay.sources(), 0, "all are forgotten");
    }

    #[test]
    fn failures_of_a_source_are_reported_once_with_their_number() {
        let (delay, one) = (AuthDelay::default(), source("10.0.0.1:5"));
        (0..5).for_each(|_| _ = attempt(&delay, one, 0));
        delay.succeed(one);
        let (reports, _) = delay.take_reports(UnixMillis(1));
        let user = b"ann".iter().copied().collect();
        assert_eq!(reports, [FailureReport { source: one, failures: 5, user, protocol: "Redis" }]);
        assert_eq!((delay.take_reports(UnixMillis(1)).0.len(), delay.sources()), (0, 0));
    }

    #[test]
    fn attempts_that_cannot_wait_are_refused_for_the_delay_since_the_last_failure() {
        let (delay, one) = (AuthDelay::default(), source("127.0.0.1:5"));
        for failures in 0..4 {
            assert!(failures > 2 || delay.refused_ms(one, UnixMillis(1000)) == 0, "the first three are free");
            delay.fail_admin(one, b"ann", UnixMillis(1000));
        }
        assert_eq!([1000, 1019, 1020].map(|now| delay.refused_ms(one, UnixMillis(now))), [20, 1, 0]);
        (0..20).for_each(|_| delay.fail_admin(one, b"ann", UnixMillis(2000)));
        assert_eq!(delay.refused_ms(one, UnixMillis(2000)), DELAY_MAX_MS);
        let (reports, _) = delay.take_reports(UnixMillis(2000));
        assert_eq!((reports[0].failures, reports[0].protocol), (24, "HTTP"));
    }
}
