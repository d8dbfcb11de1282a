//! Runs the reclaim lab in a guest with two memory nodes, under several of Debian's kernels, to show the effect of
//! `zone_reclaim_mode`.
//!
//! ```text
//!   Debian's kernel packages ─┐
//!   busybox, libraries ─> initramfs ──────────> QEMU, in software: 2 CPUs, 2 nodes
//!   gannet ─> a disk, also for the lab's files ───> gannet doctor lab reclaim --whole-host
//!                                                  --compare vm.zone_reclaim_mode=...
//!   table of counts, phases as CSV  <── JSON, on a second disk ──┘
//! ```
//!
//! The counts of a guest are valid, but its times are not, because the machine is emulated. Without QEMU the command
//! prints that and succeeds. It is not part of `make test`.

mod guest;
mod table;

use std::path::{Path, PathBuf};

use crate::guests::{self, image};
use guest::{Guest, Lru};
use testbed::needs::install;

/// The options of the guests and of the labs that run in them.
#[derive(Clone, Debug, clap::Args)]
pub struct NumaOptions {
    /// Number of rounds; each runs every mode once.
    #[arg(long, default_value_t = 5)]
    pub rounds: u32,
    /// Length of a phase in seconds.
    #[arg(long, default_value_t = 8)]
    pub seconds: u64,
    /// Memory of each of the two nodes, in MiB.
    #[arg(long, default_value_t = 256)]
    pub node_mib: u32,
    /// Values of vm.zone_reclaim_mode to compare.
    #[arg(long, value_delimiter = ',', default_value = "0,1,3,5,7")]
    pub modes: Vec<u32>,
    /// Run only guests whose names contain this, as in `6.12-classic`.
    #[arg(long, default_value = "")]
    pub only: String,
    /// Use the outcomes of guests that completed in an earlier call.
    #[arg(long)]
    pub resume: bool,
    /// Run the labs of a quota and of reclaim instead, each in a control group of version 2.
    #[arg(long)]
    pub groups: bool,
    /// The program that runs in the guest [default: the release build].
    #[arg(long)]
    pub program: Option<PathBuf>,
}

/// For each kernel: its version in the names of guests, and Debian's metapackage that depends on the package with it.
const KERNELS: [(&str, &str); 2] = [("6.1", "linux-image-cloud-amd64"), ("6.12", "linux-image-6.12-cloud-amd64")];

/// Runs every guest and prints the table. The outcomes are stored in the target directory.
///
/// # Errors
/// A sentence with the failure. A missing QEMU is not an error.
pub fn run(target: &Path, options: &NumaOptions) -> Result<bool, String> {
    if let Err(why) = install(&guests::NEEDS) {
        println!("skipped: {why}");
        return Ok(true);
    }
    let folder = &target.join("lab-numa");
    let program = options.program.clone().unwrap_or_else(|| target.join("release/gannet"));
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let mut outcomes = Vec::new();
    for (version, package) in KERNELS {
        let guests: Vec<Guest> = guests_with(version, options.groups)
            .into_iter()
            .filter(|guest| guest.name.contains(&options.only))
            .collect();
        if guests.is_empty() {
            continue;
        }
        let kernel = image::kernel(folder, package)?;
        image::stripped(folder, &program, &folder.join("files/gannet"))?;
        let initramfs = image::initramfs(folder, version, &kernel, include_str!("init.sh"), &["numactl"], &[&program])?;
        for guest in guests {
            println!("{}", guest.name);
            let known = if options.resume { guest.known(folder) } else { None };
            let outcome = known.map_or_else(|| guest.run(folder, &kernel, &initramfs, options), Ok)?;
            println!("  {}", outcome["headline"].as_str().unwrap_or("it printed nothing"));
            outcomes.push((guest.name, outcome));
        }
    }
    if options.groups {
        println!("\nOutcomes: {}", folder.display());
        return Ok(true);
    }
    let text = table::markdown(&outcomes);
    for (name, text) in [("table.md", &text), ("phases.csv", &table::csv(&outcomes))] {
        let path = folder.join(name);
        std::fs::write(&path, text).map_err(|error| format!("{}: {error}", path.display()))?;
    }
    println!("\n{text}\nOutcomes: {}", folder.display());
    Ok(true)
}

/// Returns all guests with a kernel.
fn guests_with(version: &str, in_groups: bool) -> Vec<Guest> {
    if in_groups {
        return guest::IN_GROUPS.into_iter().map(|lab| Guest::in_group(version, lab)).collect();
    }
    let lists = [Lru::Classic, Lru::Generations].into_iter();
    lists.flat_map(|lru| [true, false].map(|is_interleaved| Guest::new(version, lru, is_interleaved))).collect()
}
