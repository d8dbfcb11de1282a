//! One machine: QEMU, from its start to its end.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::image::Kernel;
use super::{command, path_text};

/// In software a move of bytes by one instruction is a step a byte, and five levels of page tables are one too many.
const CPU: &str = "max,-erms,-fsrm,-la57";
/// Of a disk that is gone with the guest no journal is needed, and nothing is left to be made in the background.
const FILE_SYSTEM: [&str; 6] = ["-q", "-F", "-O", "^has_journal,^metadata_csum", "-E", "lazy_itable_init=0"];

/// The way in which a machine's CPUs are emulated.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// One after the other by one thread.
    InTurn,
    /// Each by a thread of its own. A clock of instructions (`-icount`) would be steadier: with more than one CPU a
    /// kernel does not start under it.
    Together,
}

/// The caller's decision after a line of the machine's console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// It goes on.
    GoOn,
    /// Its power is cut off.
    CutOff,
}

/// A machine that runs; cut off when this goes.
#[derive(Debug)]
pub struct GuestMachine(Child);

impl Drop for GuestMachine {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates an empty file of this size, in the place of an older one.
///
/// # Errors
/// The system's.
pub fn empty(path: &Path, bytes: u64) -> Result<(), String> {
    let _ = std::fs::remove_file(path);
    let made = File::create(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

/// A new disk with all that lies below `files`.
///
/// # Errors
/// What `mkfs` says.
pub fn disk_of(folder: &Path, name: &str, bytes: u64, files: &Path) -> Result<(), String> {
    empty(&folder.join(name), bytes)?;
    command(folder, "mkfs.ext4", &[&FILE_SYSTEM[..], &["-d", &path_text(files), name]].concat()).map(drop)
}

impl GuestMachine {
    /// Starts one with the kernel, its line, and disks in this order; `more`: QEMU's arguments for memory and devices.
    ///
    /// # Errors
    /// When QEMU does not start.
    pub fn start(
        kernel: &Kernel,
        initramfs: &Path,
        line: &str,
        disks: &[&Path],
        cpus: Cpus,
        more: &[String],
    ) -> Result<Self, String> {
        let mut qemu = Command::new("qemu-system-x86_64");
        // KVM inside of a virtual machine may be missing; in software counts are the same everywhere.
        let threads = if cpus == Cpus::InTurn { "tcg,thread=single" } else { "tcg,thread=multi" };
        qemu.args(["-accel", threads, "-cpu", CPU, "-nodefaults", "-no-reboot", "-display", "none"]);
        qemu.args(["-serial", "stdio"]).args(more);
        for disk in disks {
            qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", disk.display()));
        }
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs).arg("-append").arg(line);
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        qemu.spawn().map(Self).map_err(|error| format!("qemu-system-x86_64: {error}"))
    }

    /// Hands on what the guest says of itself, until it has gone, is cut off, or has taken too long; the last line.
    ///
    /// # Errors
    /// When it takes too long.
    pub fn listen(mut self, time: Duration, mut heard: impl FnMut(&str) -> Heard) -> Result<String, String> {
        let out = self.0.stdout.take().expect("it is piped, and listened to once");
        let (tell, said) = channel();
        // It ends with the machine, whose console it reads.
        std::thread::spawn(move || {
            // Firmware and kernel write what is no text.
            let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
            lines.map(|line| String::from_utf8_lossy(&line).trim().to_owned()).all(|line| tell.send(line).is_ok())
        });
        let (begun, mut last) = (Instant::now(), String::new());
        loop {
            match said.recv_timeout(time.saturating_sub(begun.elapsed())) {
                Ok(line) => {
                    if ["guest: ", "reclaim: ", "gannet: ", "test "].iter().any(|mark| line.contains(mark)) {
                        println!("  {:>4} s  {line}", begun.elapsed().as_secs());
                    }
                    if heard(&line) == Heard::CutOff {
                        return Ok(line);
                    }
                    if !line.is_empty() {
                        last = line;
                    }
                }
                Err(RecvTimeoutError::Disconnected) => return Ok(last),
                Err(RecvTimeoutError::Timeout) => {
                    return Err(format!("the guest takes too long; it said last: {last}"));
                }
            }
        }
    }
}
