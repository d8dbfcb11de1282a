//! Reads a trace of any format, entry by entry.

use std::fs::File;
use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;

use super::blocks::{MAGIC, Summary};
use super::fault::{TraceDefect, TraceError, TracePlace};
use super::own::{self, End, Recorded, fill, unreadable};
use super::spread::Spread;
use super::{TraceEntry, oracle, twitter};

/// The number of bytes per read.
const BUFFER_BYTES: usize = 256 << 10;
/// The first bytes of a zstd stream.
const ZSTD_MAGIC: &[u8; 4] = &[0x28, 0xB5, 0x2F, 0xFD];
/// The largest window of a zstd stream, as a power of two in bytes: the default limit of `zstd --long`.
const ZSTD_WINDOW_LOG_MAX: u32 = 27;

/// The format of a trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TraceFormat {
    /// The format of [`super::Blocks`].
    Recorded,
    /// Twitter's text format.
    Twitter,
    /// libCacheSim's binary format oracleGeneral.
    OracleGeneral,
}

impl TraceFormat {
    /// All formats with their names.
    pub const NAMES: [(&'static str, Self); 3] =
        [("recorded", Self::Recorded), ("twitter", Self::Twitter), ("oracle-general", Self::OracleGeneral)];
}

/// The conversion of a trace's times to instants.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Times {
    /// Times are instants; times in whole seconds are spread evenly.
    #[default]
    Kept,
    /// Times are ignored: every instant is 0.
    Ignored,
}

/// The trace to read, and the part of it to use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Selection {
    /// The file; a zstd stream is decompressed during reading.
    pub path: PathBuf,
    /// The format; `None` to detect it by the first bytes.
    pub format: Option<TraceFormat>,
    /// The conversion of the trace's times to the instants of the requests.
    pub times: Times,
    /// The maximum number of requests to read; `None` for all.
    pub requests_max: Option<u64>,
    /// True to read the trace again after its end, with instants shifted by the length of the trace.
    pub repeat: bool,
}

impl Selection {
    /// Selects the whole trace at `path`, once.
    pub fn new(path: impl Into<PathBuf>) -> Self {
        Self { path: path.into(), format: None, times: Times::Kept, requests_max: None, repeat: false }
    }
}

type Bytes = BufReader<Box<dyn Read + Send>>;

/// A reader of a trace.
pub struct TraceReader {
    ask: Selection,
    source: TraceSource,
    spread: Spread,
    /// The number of entries, lines or accesses that were read in this pass.
    read: u64,
    /// The number of requests that were returned in all passes.
    given: u64,
    /// The first instant of a pass, in microseconds.
    first_us: Option<u64>,
    /// The beginning of this pass, in microseconds.
    pass_us: u64,
    /// The last instant of this pass, in microseconds.
    last_us: u64,
    cut: bool,
    over: bool,
}

enum TraceSource {
    Recorded(Box<Recorded<Bytes>>),
    Lines { bytes: Bytes, line: Vec<u8> },
    Accesses(Bytes),
}

impl std::fmt::Debug for TraceReader {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Reader").field("ask", &self.ask).field("read", &self.read).finish_non_exhaustive()
    }
}

impl TraceReader {
    /// Opens the trace and detects its format.
    ///
    /// # Errors
    /// If the file cannot be opened, or does not begin like any format of traces.
    pub fn open(ask: &Selection) -> Result<Self, TraceError> {
        let source = open(ask).map_err(|(place, wrong)| located(ask, place, wrong))?;
        Ok(Self::of(ask, source))
    }

    /// Reads a trace from a source other than its file; `ask` still has the file's name. The trace cannot be repeated.
    ///
    /// # Errors
    /// If the source does not begin like a trace.
    pub fn over(ask: &Selection, bytes: Box<dyn Read + Send>, length: Option<u64>) -> Result<Self, TraceError> {
        let ask = Selection { repeat: false, ..ask.clone() };
        let source = source(&ask, bytes, length).map_err(|(place, wrong)| located(&ask, place, wrong))?;
        Ok(Self::of(&ask, source))
    }

    fn of(ask: &Selection, source: TraceSource) -> Self {
        Self {
            ask: ask.clone(),
            source,
            spread: Spread::default(),
            read: 0,
            given: 0,
            first_us: None,
            pass_us: 0,
            last_us: 0,
            cut: false,
            over: false,
        }
    }

    /// Returns the format of the trace.
    pub const fn format(&self) -> TraceFormat {
        match self.source {
            TraceSource::Recorded(_) => TraceFormat::Recorded,
            TraceSource::Lines { .. } => TraceFormat::Twitter,
            TraceSource::Accesses(_) => TraceFormat::OracleGeneral,
        }
    }

    /// Returns true if the trace has no end because its recorder was killed. This is known only after the last entry.
    pub const fn is_cut(&self) -> bool {
        self.cut
    }

    /// Returns false if the file is a recorded trace without an end: its recorder was killed, or a part of the file is
    /// missing. Returns true if only reading the whole file can show that, because it is compressed or not a regular
    /// file.
    pub fn has_end(&self) -> bool {
        let is_plain = |file: &mut File| {
            let mut magic = [0; MAGIC.len()];
            file.read_exact(&mut magic).is_ok_and(|()| magic == *MAGIC) && file.metadata().is_ok_and(|it| it.is_file())
        };
        let Ok(mut file) = File::open(&self.ask.path) else { return true };
        !is_plain(&mut file) || own::has_end(&mut file).unwrap_or(true)
    }

    /// Returns the recorder's summary; `None` before the end, and for other formats.
    pub fn summary(&self) -> Option<Summary> {
        match &self.source {
            TraceSource::Recorded(recorded) => match recorded.end() {
                End::Whole(summary) => Some(summary),
                End::NotYet | End::Cut => None,
            },
            _ => None,
        }
    }

    /// Returns the next entry, with its instant relative to the first one; `None` at the end. After an error there are
    /// no more entries.
    ///
    /// # Errors
    /// If the file cannot be read further.
    pub fn entry(&mut self) -> Result<Option<TraceEntry>, TraceError> {
        if self.over {
            return Ok(None);
        }
        let next = self.one();
        if !matches!(next, Ok(Some(_))) {
            self.over = true;
        }
        next.map_err(|(place, wrong)| located(&self.ask, place, wrong))
    }

    fn one(&mut self) -> Result<Option<TraceEntry>, (TracePlace, TraceDefect)> {
        loop {
            let Some(mut entry) = self.raw()? else {
                if !self.begin_again()? {
                    return Ok(None);
                }
                continue;
            };
            if !entry.joined && self.ask.requests_max.is_some_and(|most| self.given >= most) {
                return Ok(None);
            }
            self.given += u64::from(!entry.joined);
            if self.ask.times == Times::Ignored {
                entry.at_us = 0;
                return Ok(Some(entry));
            }
            let first_us = *self.first_us.get_or_insert(entry.at_us);
            entry.at_us = self.pass_us.saturating_add(entry.at_us.saturating_sub(first_us));
            self.last_us = entry.at_us;
            return Ok(Some(entry));
        }
    }

    /// Opens the trace again if the selection repeats it and the trace is not empty. Returns whether it was opened.
    fn begin_again(&mut self) -> Result<bool, (TracePlace, TraceDefect)> {
        if !self.ask.repeat || self.read == 0 {
            return Ok(false);
        }
        let length_us = self.last_us - self.pass_us;
        let gap_us = match self.source {
            TraceSource::Recorded(_) => (length_us / self.read.saturating_sub(1).max(1)).max(1),
            // Rounds the length up to the next whole second.
            _ => 1_000_000 - length_us % 1_000_000,
        };
        self.pass_us = self.last_us.saturating_add(gap_us);
        self.source = open(&self.ask)?;
        (self.spread, self.read, self.first_us) = (Spread::default(), 0, None);
        Ok(true)
    }

    /// Returns the next entry of the file, spread within its second.
    fn raw(&mut self) -> Result<Option<TraceEntry>, (TracePlace, TraceDefect)> {
        loop {
            if let Some(entry) = self.spread.pop() {
                return Ok(Some(entry));
            }
            let read = match &mut self.source {
                TraceSource::Recorded(recorded) => {
                    let entry = recorded.entry()?;
                    self.cut |= recorded.end() == End::Cut;
                    self.read += u64::from(entry.is_some());
                    return Ok(entry);
                }
                TraceSource::Lines { bytes, line } => line_entry(bytes, line, &mut self.read)?,
                TraceSource::Accesses(bytes) => access_entry(bytes, &mut self.read)?,
            };
            let Some((second, entry)) = read else {
                self.spread.end();
                return Ok(self.spread.pop());
            };
            if self.ask.times == Times::Ignored {
                return Ok(Some(entry));
            }
            let place = self.place();
            self.spread.push(second, entry).map_err(|wrong| (place, wrong))?;
        }
    }

    /// Returns the place of the entry or line that was read last.
    const fn place(&self) -> TracePlace {
        match self.source {
            TraceSource::Lines { .. } => TracePlace::Line(self.read),
            _ => TracePlace::Entry(self.read),
        }
    }
}

fn located(ask: &Selection, place: TracePlace, wrong: TraceDefect) -> TraceError {
    TraceError { path: ask.path.clone(), place, what: wrong.what, remedy: wrong.remedy.to_owned() }
}

fn line_entry(
    bytes: &mut Bytes,
    line: &mut Vec<u8>,
    read: &mut u64,
) -> Result<Option<(u64, TraceEntry)>, (TracePlace, TraceDefect)> {
    line.clear();
    let most = twitter::LINE_BYTES_MAX as u64;
    let got = bytes.by_ref().take(most).read_until(b'\n', line).map_err(unreadable)?;
    if got == 0 {
        return Ok(None);
    }
    *read += 1;
    let place = TracePlace::Line(*read);
    let is_whole = line.last() == Some(&b'\n');
    if !is_whole && got == twitter::LINE_BYTES_MAX {
        let what = format!("the line is longer than {} bytes", twitter::LINE_BYTES_MAX);
        return Err((place, TraceDefect::new(what, "pass a trace in Twitter's format")));
    }
    let text = line.strip_suffix(b"\n").unwrap_or(line);
    twitter::entry(text).map(Some).map_err(|wrong| {
        let what = if is_whole { wrong.what } else { format!("the last line has no line end ({})", wrong.what) };
        (place, TraceDefect { what, remedy: wrong.remedy })
    })
}

fn access_entry(bytes: &mut Bytes, read: &mut u64) -> Result<Option<(u64, TraceEntry)>, (TracePlace, TraceDefect)> {
    let mut access = [0; oracle::ACCESS_BYTES];
    let got = fill(bytes, &mut access).map_err(unreadable)?;
    if got == 0 {
        return Ok(None);
    }
    *read += 1;
    if got < oracle::ACCESS_BYTES {
        let what = format!("the last access has {got} of its {} bytes", oracle::ACCESS_BYTES);
        return Err((TracePlace::Entry(*read), TraceDefect::new(what, "download the file again: it is truncated")));
    }
    oracle::entry(&access).map(Some).map_err(|wrong| (TracePlace::Entry(*read), wrong))
}

fn open(ask: &Selection) -> Result<TraceSource, (TracePlace, TraceDefect)> {
    let remedy = "name a file that exists and is readable";
    let file = File::open(&ask.path)
        .map_err(|error| (TracePlace::File, TraceDefect::new(format!("cannot open the file ({error})"), remedy)))?;
    let length = file.metadata().ok().filter(std::fs::Metadata::is_file).map(|facts| facts.len());
    source(ask, Box::new(file), length)
}

/// Detects the format of `bytes`, whose length is `length` if known.
fn source(
    ask: &Selection,
    bytes: Box<dyn Read + Send>,
    length: Option<u64>,
) -> Result<TraceSource, (TracePlace, TraceDefect)> {
    let wrong = |what: String, remedy| (TracePlace::File, TraceDefect::new(what, remedy));
    let mut packed = BufReader::with_capacity(BUFFER_BYTES, bytes);
    let is_packed = packed.fill_buf().map_err(unreadable)?.starts_with(ZSTD_MAGIC);
    let mut bytes: Bytes = if is_packed {
        let mut unpacked = zstd::stream::read::Decoder::with_buffer(packed).map_err(unreadable)?;
        unpacked.window_log_max(ZSTD_WINDOW_LOG_MAX).map_err(unreadable)?;
        BufReader::with_capacity(BUFFER_BYTES, Box::new(unpacked))
    } else {
        packed
    };
    let first = bytes.fill_buf().map_err(unreadable)?;
    if first.is_empty() {
        return Err(wrong("the file is empty".to_owned(), "pass a trace that contains requests"));
    }
    let seen = match () {
        () if first.starts_with(MAGIC) => Some(TraceFormat::Recorded),
        () if twitter::begins(first) => Some(TraceFormat::Twitter),
        // Only the length of the file identifies this format, and the length of a compressed file is unknown.
        () if first.len() >= oracle::ACCESS_BYTES && (is_packed || length.is_none_or(whole_accesses)) => {
            Some(TraceFormat::OracleGeneral)
        }
        () => None,
    };
    match ask.format.or(seen) {
        Some(TraceFormat::Recorded) if seen != Some(TraceFormat::Recorded) => {
            Err(wrong("the file is not a recorded trace".to_owned(), "remove --format"))
        }
        Some(TraceFormat::Recorded) => Ok(TraceSource::Recorded(Box::new(Recorded::open(bytes)?))),
        Some(TraceFormat::Twitter) => Ok(TraceSource::Lines { bytes, line: Vec::new() }),
        Some(TraceFormat::OracleGeneral) => Ok(TraceSource::Accesses(bytes)),
        None => Err(wrong(
            "unknown trace format: the file is not a recorded trace, not text in Twitter's format, and not in the \
             oracleGeneral format (accesses of 24 bytes)"
                .to_owned(),
            "pass another file, or pass --format twitter or oracle-general to find the damage",
        )),
    }
}

const fn whole_accesses(bytes: u64) -> bool {
    bytes.is_multiple_of(oracle::ACCESS_BYTES as u64)
}
