//! A trace as a pace: its instants alone, for requests that come from elsewhere.

use std::sync::{Arc, Mutex, PoisonError};

use super::{Ask, Fault, Reader};
use crate::schedule::{Next, OpenInstants, Stream};

/// The first fault that threads met while they read a trace.
#[derive(Clone, Debug, Default)]
pub struct FirstFault(Arc<Mutex<Option<Fault>>>);

impl FirstFault {
    /// Keeps `fault`, if it is the first.
    pub fn keep(&self, fault: Fault) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// The fault, if there is one.
    pub fn fault(&self) -> Option<Fault> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The instants of a trace. Each thread of a run reads the file and takes its share.
#[derive(Clone, Debug)]
pub struct TracePace {
    ask: Ask,
    fault: FirstFault,
}

impl TracePace {
    /// Of the trace that `ask` names.
    ///
    /// # Errors
    /// If the trace cannot be opened, or its first entry cannot be read.
    pub fn open(ask: Ask) -> Result<Self, Fault> {
        Reader::open(&ask)?.entry()?;
        Ok(Self { ask, fault: FirstFault::default() })
    }
}

impl OpenInstants for TracePace {
    fn open(&self, thread: usize, threads: usize) -> Stream {
        let fault = self.fault.clone();
        let mut reader = Reader::open(&self.ask).map_err(|first| fault.keep(first)).ok();
        let mut request = move || {
            loop {
                match reader.as_mut()?.entry() {
                    Ok(Some(entry)) if entry.joined => {}
                    Ok(Some(entry)) => return Some(entry.at_us.saturating_mul(1000)),
                    Ok(None) => reader = None,
                    Err(first) => {
                        fault.keep(first);
                        reader = None;
                    }
                }
            }
        };
        let mut skipped = thread;
        Box::new(move || {
            for _ in 0..skipped {
                request();
            }
            skipped = threads - 1;
            request().map_or(Next::End, Next::At)
        })
    }

    fn fault(&self) -> Option<String> {
        self.fault.fault().map(|fault| fault.to_string())
    }
}
