//! Writes the audit log: a JSON object for each event, in files of a bounded size.
//!
//! ```text
//!   audit.log        the latest records
//!   audit.log.1      the ones before; .2 is older, and the oldest is removed
//! ```
//! The survey thread writes once a second, and once more when all workers have ended. The file is opened for each
//! write, so another program may rename or remove it at any time.

use crate::admin::time::rfc3339;
use crate::shared::Shared;
use crate::start::sandbox;
use base::clock::UnixMillis;
use command::clients::audit::{AuditOrigin, AuditRecord};
use serde_json::{Map, Value, json};
use std::fs::{File, OpenOptions};
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

/// The settings of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AuditConfig {
    /// The path of the file.
    pub path: PathBuf,
    /// The maximum size of each file, in bytes.
    pub bytes_max: u64,
    /// The maximum number of files.
    pub files_max: u64,
}

/// Opens the file for appending. Only its owner can read it. A pipe in its place is refused, because it could block the
/// thread.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    let no_wait = rustix::fs::OFlags::NONBLOCK.bits() as i32;
    let file = OpenOptions::new().create(true).read(true).append(true).mode(0o600).custom_flags(no_wait).open(path)?;
    if file.metadata()?.is_file() { Ok(file) } else { Err(std::io::Error::other("it is not a regular file")) }
}

/// Writes all queued records.
pub(crate) fn write(shared: &Shared) {
    let Some(config) = &shared.config.audit else { return };
    let (records, dropped) = shared.audit.take();
    let count = records.len() as u64;
    let mut lines: Vec<String> = records.iter().map(line).collect();
    if dropped > 0 {
        let at = rfc3339(UnixMillis::now());
        lines.push(format!("{}\n", json!({"time": at, "event": "dropped", "detail": dropped.to_string()})));
    }
    let (written, result) = append(config, &lines);
    if let Err(error) = result {
        let unwritten = count - count.min(written as u64);
        shared.audit.note_unwritten(unwritten, dropped);
        let hint = sandbox::hint(&error.to_string());
        let path = config.path.display();
        tracing::error!("cannot write {unwritten} records of the audit log to {path}: {error}{hint}");
    }
}

/// Appends lines to the file. If the file is full, begins another one first. Returns the number of whole lines that
/// were written, also if another one could not be.
fn append(config: &AuditConfig, lines: &[String]) -> (usize, std::io::Result<()>) {
    let mut written = 0;
    while written < lines.len() {
        match append_to_file(config, &lines[written..]) {
            Ok(count) => written += count,
            Err((count, error)) => return (written + count, Err(error)),
        }
    }
    (written, Ok(()))
}

/// Appends as many lines as fit into one file. Returns their number; in an error, of those that were written whole.
fn append_to_file(config: &AuditConfig, lines: &[String]) -> Result<usize, (usize, std::io::Error)> {
    let none = |error| (0, error);
    let mut file = open(&config.path).map_err(none)?;
    let len = file.metadata().map_err(none)?.len();
    let mut room = config.bytes_max.saturating_sub(len);
    let fits = |line: &String| {
        let fits = line.len() as u64 <= room;
        room = room.saturating_sub(line.len() as u64);
        fits
    };
    let mut count = lines.iter().map(fits).take_while(|fits| *fits).count();
    let mut begin = len;
    if count == 0 {
        rotate(config).map_err(none)?;
        file = open(&config.path).map_err(none)?;
        (count, begin) = (1, 0);
    }
    write_whole(&mut file, begin, &lines[..count])?;
    Ok(count)
}

/// Writes lines at the end of a file of `begin` bytes. If it cannot write them all, for example on a full disk, removes
/// the part of a line, to which a later record would be appended.
fn write_whole(file: &mut File, begin: u64, lines: &[String]) -> Result<(), (usize, std::io::Error)> {
    file.write_all(lines.concat().as_bytes()).map_err(|error| (keep_whole(file, begin, lines), error))
}

/// Removes what follows the last whole line of `lines`, which were written in part at the end of a file of `begin`
/// bytes. Returns the number of whole lines.
fn keep_whole(file: &File, begin: u64, lines: &[String]) -> usize {
    let there = file.metadata().map_or(begin, |meta| meta.len()).saturating_sub(begin);
    let (mut whole, mut end) = (0, 0);
    for line in lines {
        if end + line.len() as u64 > there {
            break;
        }
        (whole, end) = (whole + 1, end + line.len() as u64);
    }
    let _ = file.set_len(begin + end);
    whole
}
/// Renames all files to the next number, and removes the oldest.
fn rotate(config: &AuditConfig) -> std::io::Result<()> {
    let name = |number: u64| {
        let mut name = config.path.clone().into_os_string();
        if number > 0 {
            name.push(format!(".{number}"));
        }
        PathBuf::from(name)
    };
    if config.files_max < 2 {
        return std::fs::remove_file(name(0));
    }
    for number in (0..config.files_max - 1).rev() {
        match std::fs::rename(name(number), name(number + 1)) {
            Err(error) if error.kind() != std::io::ErrorKind::NotFound => return Err(error),
            _ => {}
        }
    }
    Ok(())
}

/// Formats a record as a line.
fn line(record: &AuditRecord) -> String {
    let (source, protocol) = match record.origin {
        AuditOrigin::Client(Some(peer), protocol) => (peer.to_string(), protocol.name()),
        AuditOrigin::Client(None, protocol) => ("unix".to_owned(), protocol.name()),
        AuditOrigin::Admin => ("admin port".to_owned(), "HTTP"),
        AuditOrigin::Server => ("server".to_owned(), ""),
    };
    let mut fields = Map::new();
    fields.insert("time".to_owned(), Value::String(rfc3339(record.at)));
    for (name, text) in [
        ("event", record.event.name()),
        ("user", &record.user),
        ("source", &source),
        ("protocol", protocol),
        ("detail", &record.detail),
    ] {
        if !text.is_empty() {
            fields.insert(name.to_owned(), Value::String(text.to_owned()));
        }
    }
    format!("{}\n", Value::Object(fields))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn full_file_is_renamed_and_no_more_files_remain_than_allowed() {
        let folder = std::env::temp_dir().join(format!("gannet-audit-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let config = AuditConfig { path: folder.join("audit.log"), bytes_max: 100, files_max: 3 };
        let lines: Vec<String> = (0..20).map(|number| format!("{number:029}\n")).collect();
        for part in lines.chunks(4) {
            append(&config, part).1.unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let all = [read("audit.log.2"), read("audit.log.1"), read("audit.log")];
        assert_eq!(all.concat(), lines[12..].concat(), "the latest records, in order");
        assert!(all.iter().all(|text| text.len() <= 100) && std::fs::read_dir(&folder).unwrap().count() == 3);
        // A line that is longer than a file has one of its own.
        append(&config, &["x".repeat(200) + "\n"]).1.unwrap();
        assert_eq!(read("audit.log").len(), 201);
        append(&AuditConfig { files_max: 1, ..config.clone() }, &["y\n".to_owned()]).1.unwrap();
        assert_eq!(read("audit.log"), "y\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }

    #[test]
    fn pipe_in_place_of_the_file_is_refused_and_does_not_block() {
        let path = std::env::temp_dir().join(format!("gannet-audit-pipe-{}", std::process::id()));
        rustix::fs::mknodat(rustix::fs::CWD, &path, rustix::fs::FileType::Fifo, 0o600.into(), 0).unwrap();
        let config = AuditConfig { path: path.clone(), bytes_max: 100, files_max: 3 };
        let (written, result) = append(&config, &["x\n".to_owned()]);
        assert!(written == 0 && result.unwrap_err().to_string().contains("not a regular file"));
        std::fs::remove_file(&path).unwrap();
    }

    #[test]
    fn full_disk_leaves_whole_lines_and_their_number() {
        let path = std::env::temp_dir().join(format!("gannet-audit-full-{}", std::process::id()));
        std::fs::write(&path, "before\n").unwrap();
        let mut file = open(&path).unwrap();
        // `/dev/full` has no room, and no part of a line.
        let mut full = OpenOptions::new().write(true).open("/dev/full").unwrap();
        assert_eq!(write_whole(&mut full, 0, &["x\n".to_owned()]).unwrap_err().0, 0);
        // A write that was cut in the second line.
        file.write_all(b"one\ntw").unwrap();
        let lines = ["one\n".to_owned(), "two\n".to_owned()];
        assert_eq!(
            (keep_whole(&file, 7, &lines), std::fs::read_to_string(&path).unwrap()),
            (1, "before\none\n".into())
        );
        std::fs::remove_file(&path).unwrap();
    }
}
