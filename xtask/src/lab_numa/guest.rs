//! A guest of one kind: how QEMU is started, what is asked of it, and what comes back.

use std::fs::{self, File};
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::mpsc::{RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use serde_json::Value;

use super::image::Kernel;
use super::{Options, command};

/// The disk that the lab's files lie on, and the one that its outcome comes back on.
const DISK_BYTES: u64 = 4 << 30;
const OUTCOME_BYTES: u64 = 32 << 20;
/// Garbage and data in use that together nearly fill the nodes; an emulated machine writes no faster.
const SHAPE: &str = "--segment+4MiB+--garbage+0.45+--active+0.4+--writes+16MiB+--scan+8MiB";
/// What a phase takes beyond its time (garbage is read and segments made, in an emulated machine), and the start.
const PHASE_EXTRA_S: u64 = 180;
const START_S: u64 = 300;

/// Which lists of pages the kernel keeps.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lru {
    /// Active and inactive ones.
    Classic,
    /// Generations (MGLRU).
    Generations,
}

/// A kind of guest.
pub struct Guest {
    /// What it is called.
    pub name: String,
    lru: Lru,
    is_interleaved: bool,
}

/// QEMU, ended when this goes.
struct Machine(Child);

impl Drop for Machine {
    fn drop(&mut self) {
        // One that has ended is what is wanted.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

impl Guest {
    /// One with this kernel.
    pub fn new(version: &str, lru: Lru, is_interleaved: bool) -> Self {
        let lists = if lru == Lru::Classic { "classic" } else { "mglru" };
        let policy = if is_interleaved { "interleave" } else { "local" };
        Self { name: format!("{version}-{lists}-{policy}"), lru, is_interleaved }
    }

    /// The kernel's line: `+` stands for a space in what the guest reads of it.
    fn line(&self, options: &Options) -> String {
        let modes: Vec<String> = options.modes.iter().map(u32::to_string).collect();
        let lab = format!(
            "--rounds+{}+--seconds+{}+{SHAPE}+--compare+vm.zone_reclaim_mode={}",
            options.rounds,
            options.seconds,
            modes.join(",")
        );
        let lru = if self.lru == Lru::Classic { "n" } else { "y" };
        let policy = if self.is_interleaved { "interleave" } else { "local" };
        format!("console=ttyS0 quiet panic=-1 gannet.lru={lru} gannet.policy={policy} gannet.lab={lab}")
    }

    fn start(&self, folder: &Path, kernel: &Kernel, initramfs: &Path, options: &Options) -> Result<Machine, String> {
        let node = |id: u8| {
            let backing = format!("memory-backend-ram,id=m{id},size={}M", options.node_mib);
            ["-object".to_owned(), backing, "-numa".to_owned(), format!("node,nodeid={id},cpus={id},memdev=m{id}")]
        };
        let mut qemu = Command::new("qemu-system-x86_64");
        // KVM inside of a virtual machine is not to be counted on; in software counts are the same everywhere.
        qemu.args(["-accel", "tcg,thread=single", "-cpu", "max", "-smp", "2", "-m"])
            .arg(format!("{}M", 2 * options.node_mib));
        qemu.args(node(0)).args(node(1)).args(["-numa", "dist,src=0,dst=1,val=31"]);
        qemu.args(["-nodefaults", "-no-reboot", "-display", "none", "-serial", "stdio"]);
        for disk in ["disk", "outcome"] {
            let path = folder.join(disk);
            qemu.arg("-drive").arg(format!("file={},if=virtio,format=raw,cache=unsafe", path.display()));
        }
        qemu.arg("-kernel").arg(&kernel.image).arg("-initrd").arg(initramfs).arg("-append").arg(self.line(options));
        qemu.stdin(Stdio::null()).stdout(Stdio::piped());
        qemu.spawn().map(Machine).map_err(|error| format!("qemu-system-x86_64: {error}"))
    }

    /// Runs it to its end, and has the lab's outcome.
    ///
    /// # Errors
    /// What went wrong, with what the guest said last.
    pub fn run(&self, folder: &Path, kernel: &Kernel, initramfs: &Path, options: &Options) -> Result<Value, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        for (disk, bytes) in [("disk", DISK_BYTES), ("outcome", OUTCOME_BYTES)] {
            let _ = fs::remove_file(folder.join(disk));
            File::create(folder.join(disk)).and_then(|file| file.set_len(bytes)).map_err(failed)?;
        }
        command(folder, "mkfs.ext4", &["-q", "-F", "-E", "lazy_itable_init=1,nodiscard", "disk"])?;
        let mut machine = self.start(folder, kernel, initramfs, options)?;
        let phases = u64::from(options.rounds) * options.modes.len() as u64;
        let last = watch(&mut machine, Duration::from_secs(START_S + phases * (options.seconds + PHASE_EXTRA_S)))?;
        let bytes = fs::read(folder.join("outcome")).map_err(failed)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let _ = fs::remove_file(folder.join("disk"));
        fs::write(folder.join(format!("{}.json", self.name)), text).map_err(failed)?;
        serde_json::from_slice(text).map_err(|error| format!("{}: no outcome ({error}); last said: {last}", self.name))
    }
}

/// Hands on what the guest says of itself, until it has gone; the last line of all.
fn watch(machine: &mut Machine, time: Duration) -> Result<String, String> {
    let out = machine.0.stdout.take().expect("it is piped");
    let (tell, said) = channel();
    std::thread::spawn(move || {
        // Firmware and kernel write what is no text.
        let lines = BufReader::new(out).split(b'\n').map_while(Result::ok);
        lines.map(|line| String::from_utf8_lossy(&line).trim().to_owned()).all(|line| tell.send(line).is_ok())
    });
    let (begun, mut last) = (Instant::now(), String::new());
    loop {
        match said.recv_timeout(time.saturating_sub(begun.elapsed())) {
            Ok(line) => {
                if line.contains("guest: ") || line.contains("reclaim: ") || line.contains("gannet: ") {
                    println!("  {line}");
                }
                if !line.is_empty() {
                    last = line;
                }
            }
            Err(RecvTimeoutError::Disconnected) => return Ok(last),
            Err(RecvTimeoutError::Timeout) => return Err(format!("the guest takes too long; it said last: {last}")),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_guests_line_says_what_it_is_called() {
        let options =
            Options { rounds: 5, seconds: 20, node_mib: 512, modes: vec![0, 1], only: String::new(), program: None };
        let guest = Guest::new("6.12", Lru::Generations, true);
        let line = guest.line(&options);
        assert_eq!(guest.name, "6.12-mglru-interleave");
        assert!(line.contains("gannet.lru=y gannet.policy=interleave gannet.lab=--rounds+5+--seconds+20"), "{line}");
        assert!(line.ends_with("--compare+vm.zone_reclaim_mode=0,1"), "{line}");
    }
}
