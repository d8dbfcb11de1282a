//! Reads recorded traces block by block.

use std::io::{Read, Seek, SeekFrom};

use super::TraceEntry;
use super::blocks::{BLOCK_HEAD_BYTES, BlockHead, HEADER_BYTES, Header, Payload, SUMMARY_BYTES, Summary};
use super::fault::{TraceDefect, TracePlace};

/// The remedy for a damaged trace.
const DAMAGED: &str = "record the trace again, or pass --limit to replay only the part before the damage";

/// A reader of a recorded trace.
#[derive(Debug)]
pub struct Recorded<R> {
    source: R,
    header: Header,
    payload: Vec<u8>,
    entries: std::vec::IntoIter<TraceEntry>,
    blocks: u64,
    given: u64,
    end: End,
}

/// The progress of reading a recorded trace.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// More entries may follow.
    NotYet,
    /// The trace was read to its end.
    Whole(Summary),
    /// The trace has no end because its recorder was killed. All whole blocks were read.
    Cut,
}

impl<R: Read> Recorded<R> {
    /// Reads the header.
    ///
    /// # Errors
    /// If there is no header, or if it is damaged or has another version.
    pub fn open(mut source: R) -> Result<Self, (TracePlace, TraceDefect)> {
        let mut bytes = [0; HEADER_BYTES];
        let remedy = "record the trace again";
        if fill(&mut source, &mut bytes).map_err(unreadable)? < HEADER_BYTES {
            return Err((TracePlace::File, TraceDefect::new("the header of the trace is truncated", remedy)));
        }
        let header = Header::read(&bytes).map_err(|what| (TracePlace::File, TraceDefect::new(what, remedy)))?;
        let (payload, entries) = (Vec::new(), Vec::new().into_iter());
        Ok(Self { source, header, payload, entries, blocks: 0, given: 0, end: End::NotYet })
    }

    /// Returns the facts about the trace that precede its entries.
    pub const fn header(&self) -> Header {
        self.header
    }

    /// Returns the progress of reading.
    pub const fn end(&self) -> End {
        self.end
    }

    /// Returns the next entry; `None` at the end.
    ///
    /// # Errors
    /// If a block is damaged, or the file cannot be read.
    pub fn entry(&mut self) -> Result<Option<TraceEntry>, (TracePlace, TraceDefect)> {
        loop {
            if let Some(entry) = self.entries.next() {
                self.given += 1;
                return Ok(Some(entry));
            }
            if self.end != End::NotYet {
                return Ok(None);
            }
            self.block()?;
        }
    }

    fn block(&mut self) -> Result<(), (TracePlace, TraceDefect)> {
        let place = TracePlace::Block { number: self.blocks + 1, entries: self.given };
        let wrong = |what: String| (place, TraceDefect::new(what, DAMAGED));
        let mut head = [0; BLOCK_HEAD_BYTES];
        if fill(&mut self.source, &mut head).map_err(unreadable)? < BLOCK_HEAD_BYTES {
            self.end = End::Cut;
            return Ok(());
        }
        let head = BlockHead::read(&head).map_err(wrong)?;
        self.payload.resize(head.payload_bytes, 0);
        if fill(&mut self.source, &mut self.payload).map_err(unreadable)? < head.payload_bytes {
            self.end = End::Cut;
            return Ok(());
        }
        self.blocks += 1;
        match head.payload(&self.payload).map_err(wrong)? {
            Payload::Entries(entries) => self.entries = entries.into_iter(),
            Payload::End(summary) => self.end = End::Whole(summary),
        }
        Ok(())
    }
}

/// Returns true if a recorded trace ends with the block that its recorder writes last. Otherwise the recorder was
/// killed, or the file is not complete.
pub(super) fn has_end(source: &mut (impl Read + Seek)) -> std::io::Result<bool> {
    const END_BYTES: usize = BLOCK_HEAD_BYTES + SUMMARY_BYTES;
    if source.seek(SeekFrom::End(0))? < (HEADER_BYTES + END_BYTES) as u64 {
        return Ok(false);
    }
    source.seek(SeekFrom::End(-(END_BYTES as i64)))?;
    let (mut head, mut payload) = ([0; BLOCK_HEAD_BYTES], [0; SUMMARY_BYTES]);
    source.read_exact(&mut head)?;
    source.read_exact(&mut payload)?;
    let read = BlockHead::read(&head).ok().filter(|head| head.payload_bytes == SUMMARY_BYTES);
    Ok(read.is_some_and(|head| matches!(head.payload(&payload), Ok(Payload::End(_)))))
}

/// Returns the fault for an error of the system, or of a decompressor, on reading the next bytes.
pub(super) fn unreadable(error: std::io::Error) -> (TracePlace, TraceDefect) {
    let what = format!("cannot read the next bytes ({error})");
    (TracePlace::File, TraceDefect::new(what, "check the disk, or decompress the file again if it is damaged"))
}

/// Reads until `into` is full or the source ends. Returns the number of bytes.
pub(super) fn fill(source: &mut impl Read, into: &mut [u8]) -> std::io::Result<usize> {
    let mut have = 0;
    while have < into.len() {
        match source.read(&mut into[have..]) {
            Ok(0) => break,
            Ok(bytes) => have += bytes,
            Err(error) if error.kind() == std::io::ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(have)
}
