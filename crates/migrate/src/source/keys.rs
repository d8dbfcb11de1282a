//! The list of a memcached server's keys, in a file. A dump blocks the server's LRU crawler while it runs, so
//! the dump is read as fast as possible. The list is in a file because it may not fit in memory.
//!
//! ```text
//!  key length 1 | item's bytes 4 | expiry 8 (seconds since 1970, 0: none) | key      numbers are little-endian
//! ```
//! A position in the list is an offset in the file, so that a copy can be resumed.

use std::fs::File;
use std::io::{self, BufReader, BufWriter, ErrorKind, Read, Seek, SeekFrom, Write};
use std::path::Path;

use crate::memcached::ListedKey;

const HEAD_BYTES: usize = 13;

/// A writer of the file with the list of the server's keys.
#[derive(Debug)]
pub(super) struct KeyList {
    file: BufWriter<File>,
    /// Number of keys written so far.
    pub keys: u64,
    /// Number of bytes written so far.
    pub bytes: u64,
}

/// A reader of the file with the list of the server's keys.
#[derive(Debug)]
pub(super) struct KeyListReader {
    file: BufReader<File>,
    offset: u64,
    end: u64,
}

impl KeyList {
    /// Creates an empty list at `path`, or in an unnamed file that is removed with the process.
    pub fn create(path: Option<&Path>) -> io::Result<Self> {
        let mut options = File::options();
        options.read(true).write(true).create(true).truncate(true);
        let file = match path {
            Some(path) => options.open(path)?,
            None => {
                let path = std::env::temp_dir().join(format!("gannet-warm-{}.keys", std::process::id()));
                let file = options.open(&path)?;
                std::fs::remove_file(&path)?;
                file
            }
        };
        Ok(Self { file: BufWriter::new(file), keys: 0, bytes: 0 })
    }

    /// Empties the list and starts again.
    pub fn clear(&mut self) -> io::Result<()> {
        self.file.flush()?;
        self.file.get_ref().set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        (self.keys, self.bytes) = (0, 0);
        Ok(())
    }

    /// Appends a key of at most 255 bytes.
    pub fn push(&mut self, listed: &ListedKey) -> io::Result<()> {
        let mut head = [0; HEAD_BYTES];
        head[0] = u8::try_from(listed.key.len()).map_err(|_| ErrorKind::InvalidInput)?;
        head[1..5].copy_from_slice(&listed.bytes.to_le_bytes());
        head[5..].copy_from_slice(&listed.expire_at_s.unwrap_or(0).to_le_bytes());
        self.file.write_all(&head)?;
        self.file.write_all(&listed.key)?;
        self.keys += 1;
        self.bytes += (HEAD_BYTES + listed.key.len()) as u64;
        Ok(())
    }

    /// Completes the list and returns its file for reading.
    pub fn finish(self) -> io::Result<File> {
        let file = self.file.into_inner().map_err(io::IntoInnerError::into_error)?;
        file.sync_all()?;
        Ok(file)
    }
}

impl KeyListReader {
    /// Creates a reader at `offset` of a list of `bytes` bytes.
    pub fn new(mut file: File, offset: u64, bytes: u64) -> io::Result<Self> {
        file.seek(SeekFrom::Start(offset))?;
        Ok(Self { file: BufReader::with_capacity(128 << 10, file), offset, end: bytes })
    }

    /// Returns the position of the next key.
    pub const fn offset(&self) -> u64 {
        self.offset
    }

    /// Returns to the first key.
    pub fn rewind(&mut self) -> io::Result<()> {
        self.offset = 0;
        self.file.seek(SeekFrom::Start(0)).map(drop)
    }

    /// Returns the next key.
    pub fn next(&mut self) -> io::Result<Option<ListedKey>> {
        if self.offset >= self.end {
            return Ok(None);
        }
        let mut head = [0; HEAD_BYTES];
        self.file.read_exact(&mut head)?;
        let mut key = vec![0; head[0].into()];
        self.file.read_exact(&mut key)?;
        self.offset += (HEAD_BYTES + key.len()) as u64;
        let expire_at_s = u64::from_le_bytes(head[5..].try_into().expect("eight bytes"));
        let bytes = u32::from_le_bytes(head[1..5].try_into().expect("four bytes"));
        Ok(Some(ListedKey { key, bytes, expire_at_s: (expire_at_s > 0).then_some(expire_at_s) }))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_list_reads_back_from_every_key_on() {
        let mut list = KeyList::create(None).unwrap();
        list.push(&ListedKey { key: b"gone".to_vec(), bytes: 1, expire_at_s: None }).unwrap();
        list.clear().unwrap();
        let listed: Vec<ListedKey> = (0..300u32)
            .map(|n| ListedKey {
                key: vec![n as u8; (n as usize) % 251],
                bytes: n * 1_000_003,
                expire_at_s: (n % 3 > 0).then_some(u64::from(n) << 30),
            })
            .collect();
        listed.iter().for_each(|one| list.push(one).unwrap());
        let (keys, bytes) = (list.keys, list.bytes);
        assert_eq!(keys, 300);
        let file = list.finish().unwrap();
        let mut offset = 0;
        for from in 0..listed.len() {
            let mut reader = KeyListReader::new(file.try_clone().unwrap(), offset, bytes).unwrap();
            assert_eq!(reader.next().unwrap().as_ref(), listed.get(from));
            offset = reader.offset();
            if from == 200 {
                assert_eq!(reader.next().unwrap(), Some(listed[201].clone()));
                reader.rewind().unwrap();
                assert_eq!(reader.next().unwrap(), Some(listed[0].clone()));
            }
        }
        assert_eq!(offset, bytes);
        assert_eq!(KeyListReader::new(file, bytes, bytes).unwrap().next().unwrap(), None);
    }
}
