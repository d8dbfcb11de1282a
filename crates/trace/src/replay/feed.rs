//! Distributes a trace's entries to the shares of a run's threads.

use std::sync::mpsc::{Receiver, SyncSender, TryRecvError, sync_channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::thread;

use base::prng::split_mix;

use super::REQUEST_KEYS_MAX;
use crate::FirstError;
use crate::format::{Summary, TraceEntry, TraceError, TraceReader, Verb};
use load::schedule::{Next, OpenInstants, Stream};

/// The maximum number of waiting chunks of a share.
pub const SHARE_CHUNKS_MAX: usize = 64;
/// The number of entries that are read before they are distributed.
const ROUND_ENTRIES: usize = 4096;

/// A list of entries of one share, in the trace's order.
pub(super) type Chunk = Arc<[TraceEntry]>;

/// A trace that is being read for one run; each share is taken once.
#[derive(Debug)]
pub struct Feed {
    shares: Vec<Mutex<ThreadShare>>,
    deal: Deal,
    fault: FirstError,
    end: Arc<Mutex<Option<FeedEnd>>>,
}

/// The rule that assigns requests to shares.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Deal {
    /// By the request's (first) key, so that requests for one key stay in order. Used at the trace's own instants: a
    /// share with few requests does not wait for others.
    ByKey,
    /// In rotation, for a run at another pace: every share has equal work. The instants are not used.
    InTurn,
}

/// The state at the end of reading.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FeedEnd {
    /// The number of entries that were read.
    pub entries: u64,
    /// True if the trace has no end because its recorder was killed.
    pub is_cut: bool,
    /// The summary that the recorder wrote at the end.
    pub summary: Option<Summary>,
}

/// The receivers of one thread: one for the instants and one for the requests. Both return the same chunks.
#[derive(Debug)]
struct ThreadShare {
    entries: Option<Receiver<Chunk>>,
    instants: Option<Receiver<Chunk>>,
}

/// The senders of one share.
struct Mouth {
    entries: SyncSender<Chunk>,
    instants: SyncSender<Chunk>,
    waiting: Vec<TraceEntry>,
}

impl Feed {
    /// Starts reading for `threads` threads.
    ///
    /// # Errors
    /// If the system cannot start a thread.
    pub fn start(reader: TraceReader, threads: usize, deal: Deal) -> std::io::Result<Self> {
        let (mut shares, mut mouths) = (Vec::with_capacity(threads), Vec::with_capacity(threads));
        for _ in 0..threads {
            let (entries, entries_in) = sync_channel(SHARE_CHUNKS_MAX);
            let (instants, instants_in) = sync_channel(SHARE_CHUNKS_MAX);
            mouths.push(Mouth { entries, instants, waiting: Vec::new() });
            let instants = (deal == Deal::ByKey).then_some(instants_in);
            shares.push(Mutex::new(ThreadShare { entries: Some(entries_in), instants }));
        }
        let feed = Self { shares, deal, fault: FirstError::default(), end: Arc::default() };
        let (fault, end) = (feed.fault.clone(), feed.end.clone());
        let body = move || {
            let ended = deal_out(reader, mouths, deal).unwrap_or_else(|first| {
                fault.keep(first);
                FeedEnd::default()
            });
            *end.lock().unwrap_or_else(PoisonError::into_inner) = Some(ended);
        };
        thread::Builder::new().name("trace-reader".to_owned()).spawn(body)?;
        Ok(feed)
    }

    /// Returns the end of the reading; `None` while the feed still reads, or if it was ended early.
    pub fn end(&self) -> Option<FeedEnd> {
        *self.end.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Returns true if the run sends requests at the times of the trace's entries.
    pub(super) fn is_paced(&self) -> bool {
        self.deal == Deal::ByKey
    }

    /// Returns the entries of share `thread`. Each share can be taken once; a later call returns an empty receiver.
    pub(super) fn entries(&self, thread: usize) -> Option<Receiver<Chunk>> {
        self.shares.get(thread)?.lock().unwrap_or_else(PoisonError::into_inner).entries.take()
    }

    /// Ends the reading by dropping all receivers.
    pub fn close(&self) {
        for share in &self.shares {
            let mut share = share.lock().unwrap_or_else(PoisonError::into_inner);
            (share.entries, share.instants) = (None, None);
        }
    }
}

impl OpenInstants for Feed {
    fn fault(&self) -> Option<String> {
        self.fault.fault().map(|fault| fault.to_string())
    }

    fn open(&self, thread: usize, threads: usize) -> Stream {
        debug_assert_eq!(threads, self.shares.len(), "the feed was started with this number of threads");
        let Some(chunks) = self.shares[thread].lock().unwrap_or_else(PoisonError::into_inner).instants.take() else {
            return Box::new(|| Next::End);
        };
        let (mut chunk, mut at): (Chunk, usize) = (Chunk::default(), 0);
        Box::new(move || {
            loop {
                while let Some(entry) = chunk.get(at) {
                    at += 1;
                    if !entry.joined {
                        return Next::At(entry.at_us.saturating_mul(1000));
                    }
                }
                (chunk, at) = match chunks.try_recv() {
                    Ok(chunk) => (chunk, 0),
                    Err(TryRecvError::Empty) => return Next::NotYet,
                    Err(TryRecvError::Disconnected) => return Next::End,
                };
            }
        })
    }
}

/// Reads until the end, or until all receivers are dropped.
fn deal_out(mut reader: TraceReader, mut mouths: Vec<Mouth>, deal: Deal) -> Result<FeedEnd, TraceError> {
    let (mut entries, mut requests, mut share) = (0, 0, 0);
    let (mut round, mut keys, mut verb) = (0, 0, Verb::Get);
    loop {
        let next = match reader.entry() {
            Ok(next) => next,
            Err(fault) => {
                hand_over(&mut mouths);
                return Err(fault);
            }
        };
        let Some(mut entry) = next else {
            hand_over(&mut mouths);
            return Ok(FeedEnd { entries, is_cut: reader.is_cut(), summary: reader.summary() });
        };
        // A request is not divided between rounds, unless it is longer than a round.
        let is_full = round >= ROUND_ENTRIES && (!entry.joined || round >= 2 * ROUND_ENTRIES);
        if is_full {
            if !hand_over(&mut mouths) {
                return Ok(FeedEnd { entries, ..FeedEnd::default() });
            }
            round = 0;
        }
        entry.joined &= round > 0 && keys < REQUEST_KEYS_MAX && entry.verb == verb && is_read_together(verb);
        (keys, verb) = (if entry.joined { keys + 1 } else { 1 }, entry.verb);
        if !entry.joined {
            share = match deal {
                Deal::ByKey => (split_mix(entry.key) % mouths.len() as u64) as usize,
                Deal::InTurn => requests % mouths.len(),
            };
            requests += 1;
        }
        mouths[share].waiting.push(entry);
        entries += 1;
        round += 1;
    }
}

/// Returns true if requests for several keys of this verb may be sent as one. Joined writes are sent one by one.
const fn is_read_together(verb: Verb) -> bool {
    matches!(verb, Verb::Get | Verb::Gets | Verb::Gat)
}

/// Hands every share its waiting chunks: requests before instants, so that a thread with an instant finds the request.
/// Returns false if the receiver was dropped.
fn hand_over(mouths: &mut [Mouth]) -> bool {
    let mut is_taken = false;
    for mouth in mouths {
        if mouth.waiting.is_empty() {
            is_taken = true;
            continue;
        }
        let chunk: Chunk = mouth.waiting.drain(..).collect();
        is_taken |= mouth.entries.send(chunk.clone()).is_ok();
        // In a run at another pace, no thread receives the instants.
        let _ = mouth.instants.send(chunk);
    }
    is_taken
}
