//! Runs one emulated machine: starts QEMU, passes its console output on, and ends it.

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use super::image::Kernel;
use super::{command, path_text};

/// QEMU's CPU model. It has no fast string instructions, which an emulator executes byte by byte, and no fifth level of
/// page tables, which slows each address translation.
const CPU: &str = "max,-erms,-fsrm,-la57";
/// Options of `mkfs`. The disk is discarded with the guest, so its file system needs no journal and no background
/// initialisation.
const FILE_SYSTEM: [&str; 6] = ["-q", "-F", "-O", "^has_journal,^metadata_csum", "-E", "lazy_itable_init=0"];

/// The emulation of a machine's CPUs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Cpus {
    /// One thread emulates all CPUs in turn.
    InTurn,
    /// Each CPU has its own thread. A clock based on instructions (`-icount`) would be steadier, but a kernel with more
    /// than one CPU does not start with it.
    Together,
}

/// The caller's decision after a line on the machine's console.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Heard {
    /// The machine continues.
    GoOn,
    /// The machine's power is cut off.
    CutOff,
}

/// A running machine. Dropping it cuts the power.
#[derive(Debug)]
pub struct GuestMachine(Child);

impl Drop for GuestMachine {
    fn drop(&mut self) {
        // Ignores the error of `kill` if the machine has already ended.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Creates an empty file of this size, replacing an existing one.
///
/// # Errors
/// The system's error.
pub fn empty(path: &Path, bytes: u64) -> Result<(), String> {
    let _ = std::fs::remove_file(path);
    let made = File::create(path).and_then(|file| file.set_len(bytes));
    made.map_err(|error| format!("{}: {error}", path.display()))
}

/// Creates a disk with all files below `files`.
///
/// # Errors
/// The error message of `mkfs`.
pub fn disk_of(folder: &Path, name: &str, bytes: u64, files: &Path) -> Result<(), String> {
    empty(&folder.join(name), bytes)?;
    command(folder, "mkfs.ext4", &[&FILE_SYSTEM[..], &["-d", &path_text(files), name]].concat()).map(drop)
}

impl GuestMachine {
    /// Starts a machine with the kernel, its command line, and the disks in this order. `more` has QEMU's arguments for
    /// memory and devices.
    ///
    /// # Errors
    /// If QEMU does not start.
    pub fn start(
        kernel: &Kernel,
        initramfs: &Path,
        line: &str,
        disks: &[&Path],
        cpus: Cpus,
        more: &[String],
    ) -> Result<Self, String> {
        let mut qemu = Command::new("qemu-system-x86_64");
        // Software emulation runs on every host, even where KVM is missing, and yields the same counts on all hosts.
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

    /// Passes the guest's console output to `heard` until the guest ends, is cut off, or exceeds the time limit.
    /// Returns the last line.
    ///
    /// # Errors
    /// If the guest exceeds the time limit.
    pub fn listen(mut self, time: Duration, mut heard: impl FnMut(&str) -> Heard) -> Result<String, String> {
        let out = self.0.stdout.take().expect("the output is piped, and read once");
        let (tell, said) = channel();
        // This thread ends when the machine closes its output.
        std::thread::spawn(move || {
            // Firmware and kernel may print bytes that are not UTF-8.
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
                    return Err(format!("the guest exceeded its time limit; last output: {last}"));
                }
            }
        }
    }
}
