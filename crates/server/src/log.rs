//! The log: one line for each event on standard error, with time, level, target, message and fields.
//!
//! No code on a request's path writes to the log, because a slow reader of the log must never delay a request. The
//! level can change while the server runs.

use tracing_subscriber::filter::LevelFilter;
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::registry::Registry;
use tracing_subscriber::reload;
use tracing_subscriber::util::{SubscriberInitExt, TryInitError};

use crate::config::kinds::LogLevel;

/// The log of the process.
#[derive(Debug)]
pub struct Log {
    level: reload::Handle<LevelFilter, Registry>,
}

impl Log {
    /// Starts the log.
    ///
    /// # Errors
    /// If this process already has a log.
    pub fn start(level: LogLevel) -> Result<Self, TryInitError> {
        let (filter, handle) = reload::Layer::new(filter(level));
        let lines = tracing_subscriber::fmt::layer().with_ansi(false).with_writer(std::io::stderr);
        tracing_subscriber::registry().with(filter).with(lines).try_init()?;
        Ok(Self { level: handle })
    }

    /// Writes events of `level` and above from now on.
    pub fn set_level(&self, level: LogLevel) {
        // The call fails only if the log no longer exists. Then there is no level to set.
        let _ = self.level.reload(filter(level));
    }
}

fn filter(level: LogLevel) -> LevelFilter {
    match level {
        LogLevel::Off => LevelFilter::OFF,
        LogLevel::Error => LevelFilter::ERROR,
        LogLevel::Warn => LevelFilter::WARN,
        LogLevel::Info => LevelFilter::INFO,
        LogLevel::Debug => LevelFilter::DEBUG,
        LogLevel::Trace => LevelFilter::TRACE,
    }
}
