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

/// Opens the file for appending. Only its owner can read it.
pub(crate) fn open(path: &Path) -> std::io::Result<File> {
    OpenOptions::new().create(true).append(true).mode(0o600).open(path)
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
    if let Err(error) = append(config, &lines) {
        shared.audit.note_unwritten(count);
        tracing::error!("cannot write {count} records of the audit log to {}: {error}", config.path.display());
    }
}

/// Appends lines to the file. If the file is full, begins another one first.
fn append(config: &AuditConfig, lines: &[String]) -> std::io::Result<()> {
    let mut lines = lines;
    while !lines.is_empty() {
        let mut file = open(&config.path)?;
        let mut room = config.bytes_max.saturating_sub(file.metadata()?.len());
        let fits = |line: &String| {
            let fits = line.len() as u64 <= room;
            room = room.saturating_sub(line.len() as u64);
            fits
        };
        let mut count = lines.iter().map(fits).take_while(|fits| *fits).count();
        if count == 0 {
            rotate(config)?;
            file = open(&config.path)?;
            count = 1;
        }
        file.write_all(lines[..count].concat().as_bytes())?;
        lines = &lines[count..];
    }
    Ok(())
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
            append(&config, part).unwrap();
        }
        let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap_or_default();
        let all = [read("audit.log.2"), read("audit.log.1"), read("audit.log")];
        assert_eq!(all.concat(), lines[12..].concat(), "the latest records, in order");
        assert!(all.iter().all(|text| text.len() <= 100) && std::fs::read_dir(&folder).unwrap().count() == 3);
        // A line that is longer than a file has one of its own.
        append(&config, &["x".repeat(200) + "\n"]).unwrap();
        assert_eq!(read("audit.log").len(), 201);
        append(&AuditConfig { files_max: 1, ..config.clone() }, &["y\n".to_owned()]).unwrap();
        assert_eq!(read("audit.log"), "y\n");
        std::fs::remove_dir_all(&folder).unwrap();
    }
}
