//! Runs `gannet doctor prove --remedy irq.affinity` in a guest whose kernel allows interrupts to be moved.
//!
//! ```text
//!   the guest's network                                  a separate network
//!   gannet doctor prove ── --live ──> gannet serve,      gannet load at a steady rate,
//!        │                            worker on CPU 1    on CPU 2
//!        v                                 │                  │
//!   NIC's interrupts: CPU 1 at first,  virtio NIC ── hub ── virtio NIC, its interrupts on CPU 2
//!   CPU 0 with the remedy (the CPU that the plan reserves for the network)
//! ```
//!
//! On a host whose hypervisor refuses to move an interrupt to another CPU (EPERM), the remedy cannot be tested, so it
//! is tested in a guest. The test checks that the remedy's settings are found, journaled, written, read back and
//! undone, and that the interrupts arrive on the new CPUs. The verdict uses the server's counts of requests, because a
//! generator in an emulated machine is late; response times only compare the two states. Without QEMU the command
//! prints that and succeeds. It is not part of `make test`.

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
    /// Number of rounds; each measures the state with the remedy and the state without it.
    #[arg(long, default_value_t = 7)]
    rounds: u64,
    /// Seconds for which each state is measured in a round.
    #[arg(long, default_value_t = 20)]
    seconds: u64,
    /// Requests per second; a measurement needs 2,000 requests.
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

/// Programs that the guest's image needs in addition to those of all guests.
const NEEDS: [Need; 2] = [
    Need { program: "ip", arguments: &["-V"], packages: &["iproute2"] },
    Need { program: "tar", arguments: &["--version"], packages: &["tar"] },
];
/// Debian's metapackage that depends on the package with the kernel.
const KERNEL: &str = "linux-image-cloud-amd64";
/// The guest's number of CPUs, the number of the worker's CPU, and the number of the generator's CPU. With three or
/// more CPUs, the doctor's plan reserves a CPU for the network.
const CPUS: [&str; 3] = ["3", "1", "2"];
const MEMORY: &str = "640M";
const DISK_BYTES: u64 = 256 << 20;
const OUTCOME_BYTES: u64 = 16 << 20;
/// Time limit for the guest's start, in seconds.
const START_S: u64 = 600;
/// Seconds by which a measurement may exceed its length.
const EXTRA_S: u64 = 60;

/// Runs the guest. Returns false if the remedy did not work as expected.
///
/// # Errors
/// A sentence with the failure. A missing QEMU is not an error.
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
        println!("the remedy was found, journaled, written, read back, obeyed by the interrupts, and undone");
    }
    println!("report: {}", found.join("irq.html").display());
    Ok(faults.is_empty())
}

/// Runs the guest to its end. Returns its output lines.
fn said(folder: &Path, kernel: &Kernel, initramfs: &Path, options: &ProveIrqOptions) -> Result<Vec<String>, String> {
    let [cpus, worker, generator] = CPUS;
    let mut shape = ["-smp", cpus, "-m", MEMORY].map(str::to_owned).to_vec();
    for (name, last) in [("serves", 1), ("asks", 2)] {
        // The guest does not boot over the network, so no firmware for that is needed.
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
    // A round has two measurements. Rounds that do not count are replaced by up to half as many additional rounds, so
    // the limit allows three measurements per requested round.
    let time = Duration::from_secs(START_S + 3 * rounds.max(&1) * (seconds + EXTRA_S));
    let mut said = Vec::new();
    machine.listen(time, |line| {
        said.push(line.to_owned());
        Heard::GoOn
    })?;
    if said.iter().any(|line| line.starts_with("guest: undone")) {
        return Ok(said);
    }
    Err(format!("the guest ended early; its disk image is {}; its output:\n{}", path_text(disks[0]), said.join("\n")))
}
