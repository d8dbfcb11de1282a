//! `gannet doctor prove --remedy irq.affinity` in a guest whose kernel lets interrupts be moved.
//!
//! ```text
//!   the guest's network                                  a network of its own
//!   gannet doctor prove ── --live ──> gannet serve,      gannet load at a steady rate,
//!        │                            worker on CPU 1    on CPU 2
//!        v                                 │                  │
//!   its interrupts: CPU 1 as it was,  virtio NIC ── hub ── virtio NIC, its interrupts on CPU 2
//!   CPU 0 with the remedy (the plan's for the network)
//! ```
//!
//! Where a hypervisor takes no other CPU for an interrupt (EPERM) the remedy cannot be shown, so it is shown here: that
//! it is found, in the journal, written, read back, followed by the interrupts, and taken back. What is judged is the
//! server's own account of its requests: a generator in an emulated machine is late by itself. Its times compare the
//! two states with each other and with nothing else. Without QEMU it says so and ends well; it is no part of
//! `make test`.

mod shown;

use std::path::{Path, PathBuf};
use std::time::Duration;

use crate::guests::image::{self, Kernel};
use crate::guests::{self, Cpus, GuestMachine, Heard, command, disk_of, empty, path_text};
use shown::{GuestFiles, faults};
use testbed::needs::{Need, install};

/// The length and the load of the proof.
#[derive(Clone, Debug, clap::Args)]
pub struct ProveIrqOptions {
    /// Rounds of both states.
    #[arg(long, default_value_t = 7)]
    rounds: u64,
    /// Seconds for which each state of a round is measured.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Requests a second; a measurement takes 2,000.
    #[arg(long, default_value_t = 400)]
    rate: u64,
    /// Seed of the order of the rounds.
    #[arg(long, default_value_t = 7)]
    seed: u64,
    /// Flags of `gannet load`.
    #[arg(long, default_value = "--keys 2000 --connections 10", allow_hyphen_values = true)]
    load: String,
    /// The program that runs in the guest [default: the release build].
    #[arg(long)]
    program: Option<PathBuf>,
}

/// Programs that the guest's image needs, beside those of all guests.
const NEEDS: [Need; 2] = [
    Need { program: "ip", arguments: &["-V"], packages: &["iproute2"] },
    Need { program: "tar", arguments: &["--version"], packages: &["tar"] },
];
/// Debian's package that depends on the kernel.
const KERNEL: &str = "linux-image-cloud-amd64";
/// One for the network, which the plan wants of its own from three on, one for the worker, one for the generator.
const CPUS: [&str; 3] = ["3", "1", "2"];
const MEMORY: &str = "640M";
const DISK_BYTES: u64 = 256 << 20;
const OUTCOME_BYTES: u64 = 16 << 20;
/// Maximum time of the start, and of each measurement beyond its length.
const START_S: u64 = 600;
const EXTRA_S: u64 = 60;

/// Runs it; false where something of the remedy was not as it has to be.
///
/// # Errors
/// What failed; without QEMU nothing does.
pub fn run(target: &Path, options: &ProveIrqOptions) -> Result<bool, String> {
    for needs in [&guests::NEEDS[..], &NEEDS[..]] {
        if let Err(why) = install(needs) {
            println!("skipped: {why}");
            return Ok(true);
        }
    }
    let folder = &target.join("prove-irq");
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let program = options.program.clone().unwrap_or_else(|| target.join("release/gannet"));
    image::stripped(folder, &program, &folder.join("files/gannet"))?;
    let kernel = image::kernel(folder, KERNEL)?;
    let initramfs = image::initramfs(folder, "irq", &kernel, include_str!("init.sh"), &["ip"], &[&program])?;
    disk_of(folder, "disk", DISK_BYTES, &folder.join("files"))?;
    empty(&folder.join("outcome"), OUTCOME_BYTES)?;
    let said = said(folder, &kernel, &initramfs, options)?;
    let found = folder.join("found");
    let _ = std::fs::remove_dir_all(&found);
    std::fs::create_dir_all(&found).map_err(|error| format!("{}: {error}", found.display()))?;
    command(&found, "tar", &["-xf", "../outcome"])?;
    let faults = faults(&GuestFiles::read(&found, &said)?);
    for fault in &faults {
        println!("wrong: {fault}");
    }
    if faults.is_empty() {
        println!(
            "the remedy was found, in the journal, written, read back, followed by the interrupts, and taken back"
        );
    }
    println!("report: {}", found.join("irq.html").display());
    Ok(faults.is_empty())
}

/// Runs the guest to its end; its lines.
fn said(folder: &Path, kernel: &Kernel, initramfs: &Path, options: &ProveIrqOptions) -> Result<Vec<String>, String> {
    let [cpus, worker, generator] = CPUS;
    let mut shape = ["-smp", cpus, "-m", MEMORY].map(str::to_owned).to_vec();
    for (name, last) in [("serves", 1), ("asks", 2)] {
        // Nothing is started over the network, so that no firmware for it is needed.
        let device = format!("virtio-net-pci,netdev={name},romfile=,mac=52:54:00:12:34:0{last}");
        shape.extend(["-netdev".to_owned(), format!("hubport,id={name},hubid=0"), "-device".to_owned(), device]);
    }
    let ProveIrqOptions { rounds, seconds, rate, seed, .. } = options;
    let prove = format!("--rounds+{rounds}+--seconds+{seconds}+--seed+{seed}");
    let load = options.load.replace(' ', "+");
    let line = format!(
        "console=ttyS0 quiet panic=-1 mitigations=off tsc=reliable gannet.worker={worker} \
         gannet.generator={generator} gannet.rate={rate} gannet.prove={prove} gannet.load={load}"
    );
    let disks = ["disk", "outcome"].map(|name| folder.join(name));
    let disks = disks.each_ref().map(PathBuf::as_path);
    let machine = GuestMachine::start(kernel, initramfs, &line, &disks, Cpus::Together, &shape)?;
    // Half as many rounds more are tried for those that do not count, each of two measurements.
    let time = Duration::from_secs(START_S + 3 * rounds.max(&1) * (seconds + EXTRA_S));
    let mut said = Vec::new();
    machine.listen(time, |line| {
        said.push(line.to_owned());
        Heard::GoOn
    })?;
    if said.iter().any(|line| line.starts_with("guest: undone")) {
        return Ok(said);
    }
    Err(format!("the guest ended before its end; it said:\n{}\nwith the disk {}", said.join("\n"), path_text(disks[0])))
}
