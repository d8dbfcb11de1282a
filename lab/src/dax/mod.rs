//! Tests memory files on persistent memory (ext4 with DAX), in a guest whose NVDIMM is a file on this machine.
//!
//! ```text
//!   kills    the tests that kill servers (`make torture`), with every memory file on the persistent memory
//!   before   fills a store that has checkpoints; after two more checkpoints, cuts the power of the machine
//!   after    starts another machine with the same persistent memory: every checkpointed item must be available
//! ```
//!
//! The tests check that no item is lost, no value is torn, and no key returns another key's value, if the memory file's
//! mapping bypasses the page cache. They cannot simulate the loss of CPU caches at a power failure, because every
//! memory write of the guest reaches the file. Without QEMU the command prints that and succeeds. It is not part of
//! `make test`.

use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::guests::image::{self, Kernel};
use crate::guests::{Cpus, GuestMachine, Heard, NEEDS, disk_of, empty, path_text};
use testbed::needs::install;

/// The number of kills, and the program.
#[derive(Clone, Debug, clap::Args)]
pub struct DaxOptions {
    /// Kills of all tests together, as for `make torture`.
    #[arg(long, default_value_t = 50)]
    kills: u32,
    /// Number of items that are stored before the machine is cut off.
    #[arg(long, default_value_t = 20_000)]
    items: u32,
}

/// Debian's metapackage that depends on the package with the kernel.
const KERNEL: &str = "linux-image-cloud-amd64";
const MEMORY_MIB: u64 = 768;
const PERSISTENT_BYTES: u64 = 512 << 20;
const DISK_BYTES: u64 = 256 << 20;
/// Time limit for the start of an emulated machine; the next two limits are for each kill and for each thousand items.
const START: Duration = Duration::from_secs(600);
const KILL: Duration = Duration::from_secs(60);

/// Runs all parts. Returns false if one of them found a fault.
///
/// # Errors
/// If a part cannot run; a missing QEMU is not an error.
pub fn run(target: &Path, options: &DaxOptions) -> Result<bool, String> {
    if let Err(why) = install(&NEEDS) {
        println!("skipped: {why}");
        return Ok(true);
    }
    let folder = &target.join("dax");
    std::fs::create_dir_all(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    let (tests, program) = programs()?;
    image::stripped(folder, &program, &folder.join("files/gannet"))?;
    image::stripped(folder, &tests, &folder.join("files/program"))?;
    let kernel = image::kernel(folder, KERNEL)?;
    let initramfs =
        image::initramfs(folder, "dax", &kernel, include_str!("init.sh"), &["mkfs.ext4"], &[&program, &tests])?;
    disk_of(folder, "disk", DISK_BYTES, &folder.join("files"))?;
    let guest = Guest { folder, kernel, initramfs };
    let mut all_well = guest.kills(&program, options.kills)?;
    for index in ["file", "dram"] {
        all_well &= guest.power(index, options.items)?;
    }
    println!("{}", if all_well { "no item was lost, torn or another key's" } else { "a fault was found: see above" });
    Ok(all_well)
}

/// Builds the tests that kill servers. Returns their path and the path of the program that they run.
fn programs() -> Result<(PathBuf, PathBuf), String> {
    let build = ["test", "--release", "--package", "gannet", "--test", "program", "--no-run", "--message-format=json"];
    let output = Command::new("cargo").args(build).stderr(Stdio::inherit()).output();
    let output = output.map_err(|error| format!("cargo: {error}"))?;
    if !output.status.success() {
        return Err(format!("cargo {}: {}", build.join(" "), output.status));
    }
    let text = String::from_utf8_lossy(&output.stdout);
    let built: Vec<Value> = text.lines().filter_map(|line| serde_json::from_str(line).ok()).collect();
    let path_of = |name: &str| {
        let is_it = |line: &&Value| line["target"]["name"] == name && line["executable"].is_string();
        let line = built.iter().find(is_it).ok_or_else(|| format!("cargo built no {name}"))?;
        Ok::<_, String>(PathBuf::from(line["executable"].as_str().unwrap_or_default()))
    };
    Ok((path_of("program")?, path_of("gannet")?))
}

struct Guest<'f> {
    folder: &'f Path,
    kernel: Kernel,
    initramfs: PathBuf,
}

impl Guest<'_> {
    /// Replaces the persistent memory by an empty one.
    fn clear(&self) -> Result<(), String> {
        empty(&self.folder.join("nvdimm"), PERSISTENT_BYTES)
    }

    /// Runs a part of `init.sh` with its arguments until the guest has ended or printed `cut_at`. Returns its output.
    fn part(&self, part: &str, more: &str, time: Duration, cut_at: Option<&str>) -> Result<Vec<String>, String> {
        println!("{part} {more}");
        let nvdimm = path_text(&self.folder.join("nvdimm"));
        let backing = format!("memory-backend-file,id=kept,share=on,mem-path={nvdimm},size={PERSISTENT_BYTES}");
        let most = MEMORY_MIB + 2 * (PERSISTENT_BYTES >> 20);
        let memory = format!("{MEMORY_MIB}M,slots=2,maxmem={most}M");
        let shape = ["-machine", "pc,nvdimm=on", "-m", &memory, "-object", &backing, "-device", "nvdimm,memdev=kept"];
        let line = format!("console=ttyS0 quiet panic=-1 mitigations=off gannet.part={part} {more}");
        let disk = self.folder.join("disk");
        let shape = shape.map(str::to_owned);
        let machine = GuestMachine::start(&self.kernel, &self.initramfs, &line, &[&disk], Cpus::InTurn, &shape)?;
        let mut said = Vec::new();
        machine.listen(time, |line| {
            said.push(line.to_owned());
            if cut_at.is_some_and(|at| line.starts_with(at)) { Heard::CutOff } else { Heard::GoOn }
        })?;
        Ok(said)
    }

    /// Runs the tests that kill servers.
    fn kills(&self, program: &Path, kills: u32) -> Result<bool, String> {
        self.clear()?;
        let more = format!("gannet.format=yes gannet.path={} gannet.kills={kills}", program.display());
        let said = self.part("kills", &more, START + KILL * kills, None)?;
        let well = said.iter().any(|line| line == "guest: kills ended with 0");
        if !well {
            println!("{}", said.join("\n"));
        }
        Ok(well)
    }

    /// Tests a power cut: every item that was stored before the last checkpoints is available.
    fn power(&self, index: &str, items: u32) -> Result<bool, String> {
        self.clear()?;
        let more = format!("gannet.index={index} gannet.items={items}");
        let time = START + KILL * (items / 1000);
        let before = self.part("before", &format!("gannet.format=yes {more}"), time, Some("guest: stored"))?;
        let after = self.part("after", &more, time, None)?;
        let whole = |said: &[String], what: &str| said.contains(&format!("guest: {what} {items} 0"));
        let no_late_is_wrong = after.iter().any(|line| line.starts_with("guest: late ") && line.ends_with(" 0"));
        Ok(whole(&before, "stored") && whole(&after, "kept") && no_late_is_wrong)
    }
}
