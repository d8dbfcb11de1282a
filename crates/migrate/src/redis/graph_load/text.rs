//! The text of a file of edges, decompressed, in parts of whole lines.

use std::cell::Cell;
use std::fs::File;
use std::io::{self, BufRead, BufReader, ErrorKind, Read};
use std::path::Path;
use std::rc::Rc;

use xxhash_rust::xxh3::Xxh3;

use crate::MigrateError;

/// The size of the buffer before decompression, in bytes.
const BUFFER_BYTES: usize = 256 << 10;
/// The first bytes of files in gzip and zstd format.
const GZIP: &[u8] = &[0x1f, 0x8b];
const ZSTD: &[u8] = &[0x28, 0xb5, 0x2f, 0xfd];

/// A part of a text: whole lines, or one line that is longer than a part may be.
#[derive(Debug)]
pub struct EdgePart {
    /// The lines. Empty for a line that is too long.
    pub text: Vec<u8>,
    /// The length of the lines, in bytes.
    pub bytes: u64,
    /// The hash of the whole text up to its end.
    pub digest: u64,
    /// The number of lines before it.
    pub lines_before: u64,
    /// The number of its lines.
    pub lines: u64,
    /// The number of bytes of the file that were read at its end.
    pub read_bytes: u64,
}

impl EdgePart {
    /// Returns the names of its lines, for messages.
    #[must_use]
    pub fn name(&self) -> String {
        match (self.lines_before + 1, self.lines_before + self.lines) {
            (first, last) if first == last => format!("line {first}"),
            (first, last) => format!("lines {first} to {last}"),
        }
    }
}

/// A reader that counts the bytes of the file.
struct MeteredReader<R> {
    inner: R,
    bytes: Rc<Cell<u64>>,
}

impl<R: Read> Read for MeteredReader<R> {
    fn read(&mut self, buf: &mut [u8]) -> io::Result<usize> {
        let bytes = self.inner.read(buf)?;
        self.bytes.set(self.bytes.get() + bytes as u64);
        Ok(bytes)
    }
}

/// The text of a file of edges or of standard input. Files in gzip and zstd format are decompressed.
pub struct EdgeText {
    text: Box<dyn Read>,
    read_bytes: Rc<Cell<u64>>,
    /// The beginning of a line whose end is not read yet.
    rest: Vec<u8>,
    lines: u64,
    is_at_end: bool,
    name: String,
    /// The length of the file in bytes, or 0 for standard input.
    file_bytes: u64,
    /// The hash of the text that was returned or skipped.
    digest: Xxh3,
}

impl EdgeText {
    /// Opens a file, or standard input if there is no path.
    ///
    /// # Errors
    /// If the file cannot be read.
    pub fn open(path: Option<&Path>) -> Result<Self, MigrateError> {
        let name = path.map_or("standard input".to_owned(), |path| path.display().to_string());
        let refused = |error: io::Error| {
            let remedy = if error.kind() == ErrorKind::NotFound { "; check the path" } else { "" };
            MigrateError::Refused(format!("cannot read {name}: {error}{remedy}"))
        };
        let mut file_bytes = 0;
        let inner: Box<dyn Read> = match path {
            Some(path) => {
                let file = File::open(path).map_err(refused)?;
                let facts = file.metadata().map_err(refused)?;
                if facts.is_dir() {
                    return Err(MigrateError::Refused(format!("cannot read {name}: it is a folder; pass a file")));
                }
                file_bytes = facts.len();
                Box::new(file)
            }
            None => Box::new(io::stdin()),
        };
        let read_bytes = Rc::new(Cell::new(0));
        let counted = MeteredReader { inner, bytes: Rc::clone(&read_bytes) };
        let mut buffered = BufReader::with_capacity(BUFFER_BYTES, counted);
        let head = buffered.fill_buf().map_err(refused)?;
        let text: Box<dyn Read> = if head.starts_with(GZIP) {
            Box::new(flate2::bufread::MultiGzDecoder::new(buffered))
        } else if head.starts_with(ZSTD) {
            Box::new(zstd::stream::read::Decoder::with_buffer(buffered).map_err(refused)?)
        } else {
            Box::new(buffered)
        };
        let (rest, digest) = (Vec::new(), Xxh3::new());
        Ok(Self { text, read_bytes, rest, lines: 0, is_at_end: false, name, file_bytes, digest })
    }

    /// Returns the length of the file in bytes, or `None` for standard input.
    #[must_use]
    pub fn file_bytes(&self) -> Option<u64> {
        (self.file_bytes > 0).then_some(self.file_bytes)
    }

    fn damaged(&self, error: &io::Error) -> MigrateError {
        let (name, line) = (&self.name, self.lines + 1);
        MigrateError::Damaged(format!(
            "cannot read {name} beyond line {line}: {error}; the file may be incomplete: copy it again"
        ))
    }

    /// Skips `position` bytes of text with `lines` lines, which are loaded already and have the hash `digest`.
    ///
    /// # Errors
    /// If the text is shorter, differs or cannot be read.
    pub(crate) fn skip(&mut self, position: u64, lines: u64, digest: u64) -> Result<(), MigrateError> {
        let skipped = io::copy(&mut (&mut self.text).take(position), &mut Hashing(&mut self.digest));
        let skipped = skipped.map_err(|error| self.damaged(&error))?;
        if position > 0 && (skipped < position || self.digest.digest() != digest) {
            let name = &self.name;
            return Err(MigrateError::Refused(format!(
                "cannot resume: the text of {name} up to the position of the journal is not the one that was loaded; \
                 pass the same file, or delete the journal to begin again"
            )));
        }
        self.lines = lines;
        Ok(())
    }

    /// Returns the next part of whole lines, of at most `bytes_max` bytes, or `None` at the end. A longer line is a
    /// part of its own without text.
    ///
    /// # Errors
    /// If the text cannot be read.
    pub fn next_part(&mut self, bytes_max: usize) -> Result<Option<EdgePart>, MigrateError> {
        let mut text = std::mem::take(&mut self.rest);
        while text.len() < bytes_max && !self.is_at_end {
            let missing = (bytes_max - text.len()) as u64;
            match (&mut self.text).take(missing).read_to_end(&mut text) {
                Ok(bytes) => self.is_at_end = bytes == 0,
                Err(error) if text.contains(&b'\n') => {
                    // The lines before the damage are a part, and the next call reports the error.
                    self.text = Box::new(Failing(Some(error)));
                    break;
                }
                Err(error) => return Err(self.damaged(&error)),
            }
        }
        if text.is_empty() {
            return Ok(None);
        }
        let end = text.iter().rposition(|byte| *byte == b'\n');
        if !self.is_at_end {
            let Some(end) = end else { return self.skip_line(text).map(Some) };
            self.rest = text.split_off(end + 1);
        }
        self.digest.update(&text);
        let lines = text.iter().filter(|byte| **byte == b'\n').count() as u64 + u64::from(!text.ends_with(b"\n"));
        Ok(Some(self.part((text.len() as u64, lines), text)))
    }

    /// Returns the part of the next `bytes` bytes and `lines` lines.
    fn part(&mut self, (bytes, lines): (u64, u64), text: Vec<u8>) -> EdgePart {
        let (lines_before, digest, read_bytes) = (self.lines, self.digest.digest(), self.read_bytes.get());
        self.lines += lines;
        EdgePart { text, bytes, digest, lines_before, lines, read_bytes }
    }

    /// Skips the rest of a line that begins with `beginning`.
    fn skip_line(&mut self, beginning: Vec<u8>) -> Result<EdgePart, MigrateError> {
        let (mut piece, mut bytes) = (beginning, 0);
        loop {
            let end = piece.iter().position(|byte| *byte == b'\n').map(|at| at + 1);
            self.rest = piece.split_off(end.unwrap_or(piece.len()));
            self.digest.update(&piece);
            bytes += piece.len() as u64;
            if end.is_some() || self.is_at_end {
                return Ok(self.part((bytes, 1), Vec::new()));
            }
            piece.clear();
            let read = (&mut self.text).take(BUFFER_BYTES as u64).read_to_end(&mut piece);
            self.is_at_end = read.map_err(|error| self.damaged(&error))? == 0;
        }
    }
}

/// A hash of the bytes that are written to it.
struct Hashing<'a>(&'a mut Xxh3);

impl io::Write for Hashing<'_> {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.update(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A text that cannot be read.
struct Failing(Option<io::Error>);

impl Read for Failing {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        self.0.take().map_or(Ok(0), Err)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Write;

    /// A text of whole lines in parts of at most `bytes_max` bytes.
    fn parts(bytes: &[u8], bytes_max: usize) -> Result<Vec<(u64, String)>, (usize, String)> {
        static FILES: std::sync::atomic::AtomicU32 = std::sync::atomic::AtomicU32::new(0);
        let number = FILES.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let path = std::env::temp_dir().join(format!("gannet-edges-{}-{number}", std::process::id()));
        std::fs::write(&path, bytes).expect("written");
        let mut text = EdgeText::open(Some(&path)).expect("opens");
        let mut parts = Vec::new();
        let result = loop {
            match text.next_part(bytes_max) {
                Ok(Some(part)) => parts.push((part.lines_before, String::from_utf8(part.text).expect("text"))),
                Ok(None) => break Ok(parts),
                Err(error) => break Err((parts.len(), error.to_string())),
            }
        };
        std::fs::remove_file(&path).expect("there");
        result
    }

    #[test]
    fn parts_have_whole_lines_and_their_numbers() {
        let part = |before: u64, text: &str| (before, text.to_owned());
        assert_eq!(parts(b"", 8), Ok(Vec::new()));
        assert_eq!(parts(b"1 2\n3 4\n5 6", 8), Ok(vec![part(0, "1 2\n3 4\n"), part(2, "5 6")]));
        assert_eq!(parts(b"1 2\n3 4\n5 6", 7), Ok(vec![part(0, "1 2\n"), part(1, "3 4\n"), part(2, "5 6")]));
        assert_eq!(parts(b"\n\n1 2\n", 100), Ok(vec![part(0, "\n\n1 2\n")]));
        for long in ["333333333 4", &"3".repeat(3 * BUFFER_BYTES)] {
            let text = format!("1 2\n{long}\n5 6\n7 8\n");
            assert_eq!(
                parts(text.as_bytes(), 8),
                Ok(vec![part(0, "1 2\n"), part(1, ""), part(2, "5 6\n7 8\n")]),
                "the line of {} bytes has no text",
                long.len()
            );
        }
    }

    #[test]
    fn lines_before_damage_of_a_compressed_file_are_parts() {
        let text: String = (0..50_000).map(|line| format!("{line} {}\n", line * 7919 % 50_021)).collect();
        let mut gzip = flate2::write::GzEncoder::new(Vec::new(), flate2::Compression::fast());
        gzip.write_all(text.as_bytes()).expect("compressed");
        let gzip = gzip.finish().expect("compressed");
        let zstd = zstd::encode_all(text.as_bytes(), 1).expect("compressed");
        for whole in [gzip, zstd] {
            let read = parts(&whole, 4096).expect("whole");
            assert_eq!(read.into_iter().map(|(_, text)| text).collect::<String>(), text);
            let (read, error) = parts(&whole[..whole.len() / 2], 4096).expect_err("half of it");
            assert!(read > 10 && error.contains("copy it again"), "{read} {error}");
        }
    }
}
