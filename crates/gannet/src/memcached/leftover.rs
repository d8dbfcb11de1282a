//! Files that memcached or another configuration has left, and which are started empty, as memcached starts them.
//!
//! ```text
//!   -e FILE         FILE.meta is memcached's ──> FILE is emptied, FILE.meta removed
//!                   Gannet's, of another size ─> FILE is emptied
//!                   other bytes ───────────────> the start is refused
//!   -o ext_path=P   items of memcached ────────> P is emptied
//!                   other bytes ───────────────> the start is refused
//! ```
//! memcached removes FILE.meta when it starts, and writes it when it ends. So while FILE.meta exists, no memcached uses
//! FILE. memcached itself discards the contents of its files of `ext_path` at each start.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use arena::MapFile;
use rustix::fs::{SeekFrom, seek};
use segment::FileFault;
use server::start::{ServerConfig, StartError};

use super::refusal::{Refusal, code};

/// Words that begin lines of the metadata that memcached writes beside its memory file.
const METADATA: [&str; 3] = ["Tmain", "Kmaxbytes ", "Kmmap_oldbase "];
/// The maximum length of that metadata, in bytes. memcached writes less than 1 KiB.
const METADATA_BYTES_MAX: u64 = 64 << 10;

/// Empties the files of memcached that the server is to use. Returns a note for each.
///
/// # Errors
/// If such a file cannot be changed.
pub fn discard(config: &ServerConfig) -> Result<Vec<String>, Refusal> {
    let mut notes = Vec::new();
    let failed = |path: &Path, error: io::Error| {
        let path = path.display();
        (code::FAILED, format!("cannot empty {path}, which memcached has left: {error}; remove the file"))
    };
    if let Some(path) = &config.file
        && discard_memory(path).map_err(|error| failed(path, error))?
    {
        notes.push(format!(
            "-e: {} holds items of memcached, which this server cannot read; it is emptied",
            path.display()
        ));
    }
    for place in &config.flash {
        if discard_storage(&place.path).map_err(|error| failed(&place.path, error))? {
            let path = place.path.display();
            notes.push(format!(
                "-o ext_path: {path} holds items of memcached, which it would discard too; it is emptied"
            ));
        }
    }
    Ok(notes)
}

/// Returns a note if the start failed because the memory file was created for other sizes or by another build, or is
/// damaged. As in memcached, the server then starts with an empty file.
pub fn discards(error: &StartError) -> Option<String> {
    let StartError::Store(segment::StartError::File { path, fault }) = error else { return None };
    match fault {
        FileFault::Io(_) | FileFault::Space { .. } | FileFault::UndoSpace { .. } | FileFault::Foreign => None,
        _ => {
            let why = fault.for_reader();
            let why = why.split(';').next().unwrap_or(&why);
            Some(super::in_memcached_flags(&format!("-e: {} is emptied: {why}", path.display())))
        }
    }
}

fn metadata_path(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".meta");
    PathBuf::from(name)
}

/// Empties the memory file at `path` and removes its metadata, if memcached wrote the metadata. Returns true if it did.
fn discard_memory(path: &Path) -> io::Result<bool> {
    let metadata = metadata_path(path);
    if !is_metadata(&metadata) {
        return Ok(false);
    }
    // The lock shows that no other server has taken over the file.
    match MapFile::open_there(path) {
        Ok(locked) => {
            OpenOptions::new().write(true).open(path)?.set_len(0)?;
            drop(locked);
        }
        Err(arena::OpenError::Io(error)) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(io::Error::other(error.to_string())),
    }
    std::fs::remove_file(metadata)?;
    Ok(true)
}

fn is_metadata(path: &Path) -> bool {
    let is_short = std::fs::metadata(path).is_ok_and(|found| found.is_file() && found.len() <= METADATA_BYTES_MAX);
    let text = if is_short { std::fs::read_to_string(path).unwrap_or_default() } else { String::new() };
    METADATA.iter().all(|word| text.lines().any(|line| line.starts_with(word)))
}

/// Empties the regular file at `path` if it holds items of memcached's external storage. Returns true if it did.
fn discard_storage(path: &Path) -> io::Result<bool> {
    if !std::fs::metadata(path).is_ok_and(|found| found.is_file()) {
        return Ok(false);
    }
    let file = OpenOptions::new().read(true).write(true).open(path)?;
    let found = first_bytes(&file)?.is_some_and(|bytes| is_item(&bytes));
    if found {
        file.set_len(0)?;
    }
    Ok(found)
}

/// The maximum length of an item in memcached's external storage that is examined, in bytes.
const ITEM_BYTES_MAX: usize = 64 << 20;

/// Returns the first written bytes of a file: memcached writes the pages of a sparse file in any order.
fn first_bytes(file: &File) -> io::Result<Option<Vec<u8>>> {
    let Ok(at) = seek(file, SeekFrom::Data(0)) else { return Ok(None) };
    let mut head = [0; ITEM_HEADER_BYTES];
    if file.read_exact_at(&mut head, at).is_err() {
        return Ok(None);
    }
    let len = item_bytes(&head).filter(|len| *len <= ITEM_BYTES_MAX);
    let Some(len) = len else { return Ok(None) };
    let mut bytes = vec![0; len];
    Ok(file.read_exact_at(&mut bytes, at).is_ok().then_some(bytes))
}

/// The length of memcached's item header, in bytes. The header, little-endian as this machine:
///
/// ```text
///   0 three links  24 hash  28 checksum  32 value length  36 references  38 flags  40 class  41 key length
/// ```
const ITEM_HEADER_BYTES: usize = 48;
/// The first byte that the checksum covers.
const SUMMED_FROM: usize = 32;
/// The flags of an item with a CAS token (8 bytes), and with client flags (4 bytes).
const ITEM_CAS: u16 = 2;
const ITEM_CLIENT_FLAGS: u16 = 256;

/// Returns the length of the item whose header is `head`, in bytes, or `None` if no item has that header.
fn item_bytes(head: &[u8; ITEM_HEADER_BYTES]) -> Option<usize> {
    let value_len = u32::from_ne_bytes(head[32..36].try_into().ok()?) as usize;
    let flags = u16::from_ne_bytes(head[38..40].try_into().ok()?);
    let key_len = usize::from(head[41]);
    let token_len = if flags & ITEM_CAS != 0 { 8 } else { 0 };
    let flags_len = if flags & ITEM_CLIENT_FLAGS != 0 { 4 } else { 0 };
    (key_len > 0 && value_len >= 2).then_some(ITEM_HEADER_BYTES + token_len + key_len + 1 + flags_len + value_len)
}

/// Returns true if `bytes` are an item of memcached with a valid checksum.
fn is_item(bytes: &[u8]) -> bool {
    let stored = bytes.get(28..SUMMED_FROM).and_then(|sum| sum.try_into().ok()).map(u32::from_ne_bytes);
    stored.is_some_and(|stored| stored == crc32c(&bytes[SUMMED_FROM..]))
}

/// Returns the CRC-32C (Castagnoli) of `bytes`.
fn crc32c(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0x82f6_3b78;
    !bytes.iter().fold(u32::MAX, |sum, byte| {
        (0..8).fold(sum ^ u32::from(*byte), |sum, _| (sum >> 1) ^ if sum & 1 != 0 { POLYNOMIAL } else { 0 })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn checksum_is_that_of_the_standard() {
        assert_eq!(crc32c(b"123456789"), 0xe306_9283);
    }

    #[test]
    fn only_an_item_with_a_valid_checksum_is_recognised_as_memcacheds() {
        let mut item = vec![0; ITEM_HEADER_BYTES];
        item[32..36].copy_from_slice(&7u32.to_ne_bytes());
        item[38..40].copy_from_slice(&(ITEM_CAS | ITEM_CLIENT_FLAGS).to_ne_bytes());
        item[41] = 3;
        item.extend_from_slice(b"TOKEN678key\0FLAGvalue\r\n");
        assert_eq!(item_bytes(item[..48].try_into().expect("48 bytes")), Some(item.len()));
        assert!(!is_item(&item));
        let sum = crc32c(&item[SUMMED_FROM..]);
        item[28..32].copy_from_slice(&sum.to_ne_bytes());
        assert!(is_item(&item));
        *item.last_mut().expect("a byte") = b'x';
        assert!(!is_item(&item));
        assert_eq!(item_bytes(&[0; 48]), None);
    }
}
