//! The targets of items.

use super::item::{Item, KeyValue, Lookup};
use super::memcached::{self, Memcached};
use super::place::{Protocol, ServerAddress};
use super::reconnect::{ConnectSettings, Context, Reconnecting, ServerRun, persist};
use super::redis::{Others, Redis, Wanted, ping};
use super::{BATCH_BYTES_MAX, MigrateError};

/// The outcome of storing an item.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum StoreOutcome {
    /// The item was stored.
    Copied,
    /// The key already existed.
    There,
    /// The item expired during the copy.
    Expired,
    /// The target cannot store the item, for this reason.
    Unfit(String),
    /// The target refused the item with this error text.
    Refused(String),
    /// The target does not support the command.
    Unknown,
}

/// A server that items are written to.
#[derive(Debug)]
pub(super) enum CopyTarget {
    Memcached(Memcached),
    Redis(Redis),
}

impl CopyTarget {
    /// Creates the client of `server`, not yet connected.
    pub fn new(server: &ServerAddress, settings: &ConnectSettings) -> Self {
        match server.protocol {
            Protocol::Memcached => Self::Memcached(Memcached::new(server, settings)),
            Protocol::Redis => Self::Redis(Redis::new(server, settings)),
        }
    }

    /// Connects, so that an unreachable target is reported before anything is read. `run` is the server's run that has
    /// the keys of an earlier process.
    pub fn reach(&mut self, run: Option<&str>, context: &Context<'_>) -> Result<(), MigrateError> {
        if let Some(run) = run {
            self.server_run().0.expect(run);
        }
        match self {
            Self::Memcached(memcached) => persist(memcached, context, |_| Ok(())),
            Self::Redis(redis) => persist(redis, context, |_| Ok(())),
        }
    }

    /// Returns the run of the server, and the server's name.
    fn server_run(&mut self) -> (&mut ServerRun, String) {
        match self {
            Self::Memcached(memcached) => {
                let name = memcached.name().to_owned();
                (&mut memcached.run, name)
            }
            Self::Redis(redis) => {
                let name = redis.name().to_owned();
                (&mut redis.run, name)
            }
        }
    }

    /// Returns the identifier of the server's run; empty if the server does not report it.
    pub fn run(&self) -> &str {
        match self {
            Self::Memcached(memcached) => memcached.run.id(),
            Self::Redis(redis) => redis.run.id(),
        }
    }

    /// Returns a sentence about a restart of the server, once. Keys that were stored before may be lost.
    pub fn take_restart(&mut self) -> Option<String> {
        let (run, name) = self.server_run();
        run.take_end(&name)
    }

    /// Sends a request without effect, so that a restart of the server after the last store is noticed.
    pub fn confirm(&mut self, context: &Context<'_>) -> Result<(), MigrateError> {
        match self {
            Self::Memcached(memcached) => persist(memcached, context, Memcached::confirm),
            Self::Redis(redis) => persist(redis, context, ping),
        }
    }

    /// Returns whether the target supports hashes and other types.
    pub const fn has_types(&self) -> bool {
        matches!(self, Self::Redis(_))
    }

    /// Returns whether the target stores the client flags of memcached items.
    pub const fn has_flags(&self) -> bool {
        matches!(self, Self::Memcached(_))
    }

    /// Returns whether the target reports when an item expires.
    pub const fn tells_expiry(&self) -> bool {
        match self {
            Self::Memcached(memcached) => memcached.has_meta,
            Self::Redis(_) => true,
        }
    }

    /// Returns whether the target has expiries of hash fields.
    pub const fn has_field_times(&self) -> bool {
        matches!(self, Self::Redis(redis) if redis.has_field_times)
    }

    /// Returns the milliseconds by which the target's clock is ahead of this host's.
    pub const fn skew_ms(&self) -> i64 {
        match self {
            Self::Memcached(memcached) => memcached.skew_s * 1000,
            Self::Redis(redis) => redis.skew_ms,
        }
    }

    /// Returns the reason why the target cannot store `key` with any value; otherwise `None`.
    pub fn why_unstorable(&self, key: &[u8]) -> Option<String> {
        match self {
            Self::Memcached(_) => memcached::why_unstorable(key),
            Self::Redis(_) => None,
        }
    }

    /// Stores `items` and returns an outcome for each. Stores nothing more, and returns `None`, after a restart of the
    /// server, because the copy begins again then.
    pub fn store(
        &mut self,
        items: &[Item],
        overwrite: bool,
        context: &Context<'_>,
    ) -> Result<Option<Vec<StoreOutcome>>, MigrateError> {
        let mut outcomes = vec![None; items.len()];
        match self {
            Self::Memcached(memcached) => persist(memcached, context, |side| {
                if side.run.has_ended() { Ok(()) } else { side.store(items, overwrite, &mut outcomes) }
            })?,
            Self::Redis(redis) => persist(redis, context, |side| {
                if side.run.has_ended() { Ok(()) } else { side.store(items, overwrite, &mut outcomes) }
            })?,
        }
        Ok(outcomes.into_iter().collect())
    }

    /// Reads the keys of `items` from the target.
    pub fn read(&mut self, items: &[Item], context: &Context<'_>) -> Result<Vec<Lookup>, MigrateError> {
        match self {
            Self::Memcached(memcached) => {
                // Divides the keys into reads by the items' sizes, because the values at the target have about the same
                // sizes.
                let mut found = Vec::with_capacity(items.len());
                let mut rest = items;
                while !rest.is_empty() {
                    let mut bytes = 0;
                    let count = rest.iter().take_while(|item| {
                        let fits = bytes == 0 || bytes + item.weight() <= BATCH_BYTES_MAX;
                        bytes += item.weight();
                        fits
                    });
                    let (now, later) = rest.split_at(count.count());
                    let keys = now.iter().map(|item| (item.key.as_slice(), None));
                    found.append(&mut persist(memcached, context, |side| side.read(keys.clone()))?);
                    rest = later;
                }
                Ok(found)
            }
            Self::Redis(redis) => {
                let keys: Vec<&[u8]> = items.iter().map(|item| item.key.as_slice()).collect();
                let others = if items.iter().any(|item| matches!(item.value, KeyValue::Elements(..))) {
                    Others::Listed
                } else {
                    Others::No
                };
                let wanted = Wanted { hashes: true, others, bytes_max: BATCH_BYTES_MAX };
                let mut found = Vec::with_capacity(keys.len());
                while found.len() < keys.len() {
                    let rest = &keys[found.len()..];
                    found.append(&mut persist(redis, context, |side| side.read(rest, wanted))?);
                }
                Ok(found)
            }
        }
    }
}
