//! Uses only the instants of a trace, as the pace for the requests of another workload.

use std::sync::{Arc, Mutex, PoisonError};

use crate::format::{Selection, TraceError, TraceReader};
use load::schedule::{Next, OpenInstants, Stream};

/// The first fault of the threads that read a trace.
#[derive(Clone, Debug, Default)]
pub struct FirstError(Arc<Mutex<Option<TraceError>>>);

impl FirstError {
    /// Stores `fault` if no earlier fault is stored.
    pub fn keep(&self, fault: TraceError) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).get_or_insert(fault);
    }

    /// Returns the stored fault, if there is one.
    pub fn fault(&self) -> Option<TraceError> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }
}

/// The instants of a trace. Each thread of a run reads the file and takes its share of the instants.
#[derive(Clone, Debug)]
pub struct TracePace {
    ask: Selection,
    fault: FirstError,
}

impl TracePace {
    /// Opens the trace that `ask` selects.
    ///
    /// # Errors
    /// If the trace cannot be opened, or its first entry cannot be read.
    pub fn open(ask: Selection) -> Result<Self, TraceError> {
        TraceReader::open(&ask)?.entry()?;
        Ok(Self { ask, fault: FirstError::default() })
    }
}

impl OpenInstants for TracePace {
    fn open(&self, thread: usize, threads: usize) -> Stream {
        let fault = self.fault.clone();
        let mut reader = TraceReader::open(&self.ask).map_err(|first| fault.keep(first)).ok();
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_thread_gets_its_share_of_the_instants_and_an_error_names_its_line() {
        let line = |number: u64| format!("{},key-{},5,{},1,get,0\n", 100 + number / 4, number % 7, number);
        let text: String = (0..8).map(line).chain(["no line\n".to_owned()]).collect();
        let path = std::env::temp_dir().join(format!("gannet-trace-{}-pace.csv", std::process::id()));
        std::fs::write(&path, text).unwrap();
        let pace = TracePace::open(Selection::new(&path)).unwrap();
        assert_eq!(pace.fault(), None);
        let share = |thread| {
            let mut next = pace.open(thread, 3);
            let instants = std::iter::from_fn(|| if let Next::At(ns) = next() { Some(ns / 1_000_000) } else { None });
            instants.collect::<Vec<u64>>()
        };
        let shares: Vec<Vec<u64>> = (0..3).map(share).collect();
        assert_eq!(shares, [vec![0, 750], vec![250], vec![500]]);
        assert!(pace.fault().unwrap().contains("pace.csv:9: "));
        assert!(TracePace::open(Selection::new("/no/such/trace")).is_err());
        std::fs::remove_file(&path).unwrap();
    }
}
