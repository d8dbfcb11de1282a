//! Writes entries to a file in a separate thread, so that the recorder never waits for a disk.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::Path;
use std::sync::mpsc::{Receiver, SyncSender, TrySendError, sync_channel};
use std::thread::JoinHandle;

use crate::format::{Blocks, Header, Summary, TraceEntry, twitter};

/// The maximum number of pieces that wait to be written: about 4 MiB.
const PIECES_MAX: usize = 64;
/// The number of bytes of lines written at once.
const LINES_BYTES: usize = 60 << 10;

/// The reason why a trace could not be written.
#[derive(Debug)]
pub struct TapeError(pub String);

impl std::fmt::Display for TapeError {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(&self.0)
    }
}

impl std::error::Error for TapeError {}

/// A trace file that is being written.
#[derive(Debug)]
pub struct Tape {
    form: Form,
    /// The number of entries that are encoded but not yet handed to the writer.
    waiting: u64,
    written: u64,
    lost: u64,
    to_writer: Option<SyncSender<Vec<u8>>>,
    writer: Option<JoinHandle<std::io::Result<()>>>,
}

#[derive(Debug)]
enum Form {
    Blocks(Blocks),
    Lines(Vec<u8>),
}

impl Tape {
    /// Creates the file at `path`, which must not exist. If `lines` is true, entries are written in Twitter's format.
    ///
    /// # Errors
    /// If the file cannot be created, or if the thread cannot be started.
    pub fn create(path: &Path, header: &Header, lines: bool) -> Result<Self, TapeError> {
        let mut file = OpenOptions::new().write(true).create_new(true).open(path).map_err(|error| {
            let remedy = match error.kind() {
                std::io::ErrorKind::AlreadyExists => "name another file, or remove this one",
                _ => "name a file in a writable directory",
            };
            TapeError(format!("{}: cannot create the file ({error}); {remedy}", path.display()))
        })?;
        let begins: &[u8] = if lines { &[] } else { &header.bytes() };
        file.write_all(begins).map_err(|error| TapeError(format!("{}: {error}", path.display())))?;
        let (to_writer, pieces) = sync_channel(PIECES_MAX);
        let writer = std::thread::Builder::new()
            .name("trace-writer".to_owned())
            .spawn(move || write(file, &pieces))
            .map_err(|error| TapeError(format!("cannot start the writer thread ({error})")))?;
        let form = if lines { Form::Lines(Vec::with_capacity(LINES_BYTES)) } else { Form::Blocks(Blocks::default()) };
        Ok(Self { form, waiting: 0, written: 0, lost: 0, to_writer: Some(to_writer), writer: Some(writer) })
    }

    /// Returns the number of entries handed to the file so far, and the number of lost entries.
    pub const fn counts(&self) -> (u64, u64) {
        (self.written, self.lost)
    }

    /// Returns true if the file can no longer be written, so that entries are lost.
    pub fn is_broken(&self) -> bool {
        self.writer.as_ref().is_none_or(JoinHandle::is_finished)
    }

    /// Adds an entry to the trace.
    pub fn put(&mut self, entry: &TraceEntry) {
        let piece = match &mut self.form {
            Form::Blocks(blocks) => blocks.push(entry),
            Form::Lines(lines) => {
                twitter::put_line(entry, lines);
                (lines.len() >= LINES_BYTES).then(|| std::mem::take(lines))
            }
        };
        if matches!(self.form, Form::Lines(_)) {
            self.waiting += 1;
        }
        if let Some(piece) = piece {
            self.hand_over(piece);
        }
        if matches!(self.form, Form::Blocks(_)) {
            // The completed block does not contain this entry, which begins the next block.
            self.waiting += 1;
        }
    }

    /// Hands the collected entries to the writer, so that a killed recorder loses few entries.
    pub fn flush(&mut self) {
        let piece = match &mut self.form {
            Form::Blocks(blocks) => blocks.take(),
            Form::Lines(lines) => (!lines.is_empty()).then(|| std::mem::take(lines)),
        };
        if let Some(piece) = piece {
            self.hand_over(piece);
        }
    }

    fn hand_over(&mut self, piece: Vec<u8>) {
        let entries = std::mem::take(&mut self.waiting);
        match self.to_writer.as_ref().map(|writer| writer.try_send(piece)) {
            Some(Ok(())) => self.written += entries,
            Some(Err(TrySendError::Full(_) | TrySendError::Disconnected(_))) | None => self.lost += entries,
        }
    }

    /// Ends the file after all pending pieces are written. Adds the written and lost entries to `seen`.
    ///
    /// # Errors
    /// If a piece could not be written.
    pub fn end(mut self, seen: &mut Summary) -> Result<(), TapeError> {
        self.flush();
        seen.entries = self.written;
        seen.lost += self.lost;
        if let (Form::Blocks(blocks), Some(writer)) = (&self.form, &self.to_writer) {
            // Waits for room for the last piece.
            let _ = writer.send(blocks.end(seen));
        }
        self.to_writer = None;
        let Some(writer) = self.writer.take() else { return Ok(()) };
        let remedy = "check the free space of the disk; the part that was written before is intact";
        match writer.join() {
            Ok(Ok(())) => Ok(()),
            Ok(Err(error)) => Err(TapeError(format!("cannot continue writing the trace ({error}); {remedy}"))),
            Err(_) => Err(TapeError(format!("the writer thread ended early; {remedy}"))),
        }
    }
}

fn write(mut file: File, pieces: &Receiver<Vec<u8>>) -> std::io::Result<()> {
    for piece in pieces {
        file.write_all(&piece)?;
    }
    file.flush()
}
