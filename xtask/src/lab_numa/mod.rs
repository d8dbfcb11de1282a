//! The reclaim lab in a guest with two memory nodes, under several of Debian's kernels: what `zone_reclaim_mode` does.
//!
//! ```text
//!   Debian's kernel packages ─┐
//!   busybox, gannet, its libraries ─> initramfs ─> QEMU, in software: 2 CPUs, 2 nodes, a disk
//!                                        gannet doctor lab reclaim --whole-host --compare vm.zone_reclaim_mode=...
//!   table of counts  <── JSON, on a second disk ──┘
//! ```
//!
//! Counts mean something here, times do not: the machine is emulated. Without QEMU it says so and
//! ends well; it is no part of `make test`.

mod guest;
mod image;
mod table;

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::test_run::needs::{Need, install};
use guest::{Guest, Lru};

/// What is run.
#[derive(Clone, Debug, clap::Args)]
pub struct Options {
    /// Rounds: each has every mode once.
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Seconds of a phase.
    #[arg(long, default_value_t = 20)]
    pub seconds: u64,
    /// Memory of each of the two nodes, in MiB.
    #[arg(long, default_value_t = 512)]
    pub node_mib: u32,
    /// Values of vm.zone_reclaim_mode.
    #[arg(long, value_delimiter = ',', default_value = "0,1,3,5,7")]
    pub modes: Vec<u32>,
    /// Only guests whose name contains this: `6.12-classic`.
    #[arg(long, default_value = "")]
    pub only: String,
    /// The program that runs in the guest [default: the release build].
    #[arg(long)]
    pub program: Option<PathBuf>,
}

const NEEDS: [Need; 6] = [
    Need { program: "qemu-system-x86_64", arguments: &["--version"], packages: &["qemu-system-x86", "seabios"] },
    Need { program: "busybox", arguments: &["true"], packages: &["busybox-static"] },
    Need { program: "cpio", arguments: &["--version"], packages: &["cpio"] },
    Need { program: "mkfs.ext4", arguments: &["-V"], packages: &["e2fsprogs"] },
    Need { program: "numactl", arguments: &["--show"], packages: &["numactl"] },
    Need { program: "strip", arguments: &["--version"], packages: &["binutils"] },
];

/// Debian's packages that depend on a kernel, and what a guest with it is called.
const KERNELS: [(&str, &str); 2] = [("6.1", "linux-image-cloud-amd64"), ("6.12", "linux-image-6.12-cloud-amd64")];

/// Runs every guest, and prints their table. The outcomes lie below the folder of builds.
///
/// # Errors
/// What failed; without QEMU nothing does.
pub fn run(target: &Path, options: &Options) -> Result<bool, String> {
    if let Err(why) = install(&NEEDS) {
        println!("skipped: {why}");
        return Ok(true);
    }
    let folder = &target.join("lab-numa");
    let program = options.program.clone().unwrap_or_else(|| target.join("release/gannet"));
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut outcomes = Vec::new();
    for (version, package) in KERNELS {
        let guests: Vec<Guest> = [Lru::Classic, Lru::Generations]
            .into_iter()
            .flat_map(|lru| [true, false].map(|is_interleaved| Guest::new(version, lru, is_interleaved)))
            .filter(|guest| guest.name.contains(&options.only))
            .collect();
        if guests.is_empty() {
            continue;
        }
        let kernel = image::kernel(folder, package)?;
        let initramfs = image::initramfs(folder, version, &kernel, &program)?;
        for guest in guests {
            println!("{}", guest.name);
            let outcome = guest.run(folder, &kernel, &initramfs, options)?;
            outcomes.push((guest.name, outcome));
        }
    }
    let text = table::markdown(&outcomes);
    let path = folder.join("table.md");
    std::fs::write(&path, &text).map_err(|error| format!("{}: {error}", path.display()))?;
    println!("\n{text}\nOutcomes: {}", folder.display());
    Ok(true)
}

/// Runs a program of the system, in `folder`.
fn command(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}
