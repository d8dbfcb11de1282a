//! Describes and runs one kind of guest: its QEMU command line, the lab that runs in it, and the lab's outcome.

use std::fs;
use std::path::Path;
use std::time::Duration;

use serde_json::Value;

use super::NumaOptions;
use crate::guests::image::Kernel;
use crate::guests::{Cpus, GuestMachine, Heard, disk_of, empty};

/// Size of the disk for the lab's files, in bytes.
const DISK_BYTES: u64 = 2 << 30;
/// Size of the disk for the lab's outcome, in bytes.
const OUTCOME_BYTES: u64 = 32 << 20;
/// Flags of the lab. Stale and active data together exceed the memory of both nodes, and the active data alone exceed
/// the memory of one node. The rates of reads and writes are low enough for an emulated machine.
const SHAPE: &str = "--segment+2MiB+--garbage+0.45+--active+0.55+--reads+50+--writes+8MiB+--scan+8MiB";
/// Seconds by which a phase may exceed its length. The emulated machine has only a part of a CPU, so it is slow to read
/// stale files and to create segments.
const PHASE_EXTRA_S: u64 = 120;
/// Time limit for the guest's start, in seconds.
const START_S: u64 = 300;

/// The lists by which the kernel selects pages for reclaim.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lru {
    /// Active and inactive lists.
    Classic,
    /// Generations (MGLRU).
    Generations,
}

/// A kind of guest.
pub struct Guest {
    /// Name of the guest in tables.
    pub name: String,
    lru: Lru,
    is_interleaved: bool,
    /// The command of a lab that runs in a control group of version 2. If `None`, the guest runs the reclaim lab over
    /// its whole memory.
    in_group: Option<&'static str>,
}

/// Labs that need a control group, with their arguments for a small machine.
pub const IN_GROUPS: [(&str, &str); 2] = [
    ("quota", "lab+quota"),
    ("reclaim", "lab+reclaim+--memory+96MiB+--segment+1MiB+--reads+50+--writes+4MiB+--scan+4MiB"),
];

impl Guest {
    /// Creates a guest with this kernel.
    pub fn new(version: &str, lru: Lru, is_interleaved: bool) -> Self {
        let lists = if lru == Lru::Classic { "classic" } else { "mglru" };
        let policy = if is_interleaved { "interleave" } else { "local" };
        Self { name: format!("{version}-{lists}-{policy}"), lru, is_interleaved, in_group: None }
    }

    /// Creates a guest that runs a lab of [`IN_GROUPS`] in a control group of version 2.
    pub fn in_group(version: &str, (name, lab): (&str, &'static str)) -> Self {
        Self { name: format!("{version}-group-{name}"), lru: Lru::Classic, is_interleaved: false, in_group: Some(lab) }
    }

    /// Returns the kernel's command line; the guest reads `+` as a space.
    fn line(&self, options: &NumaOptions) -> String {
        let modes: Vec<String> = options.modes.iter().map(u32::to_string).collect();
        let what = match self.in_group {
            Some(lab) => lab.to_owned(),
            None => format!("lab+reclaim+--whole-host+{SHAPE}+--compare+vm.zone_reclaim_mode={}", modes.join(",")),
        };
        let run = format!("{what}+--rounds+{}+--seconds+{}", options.rounds, options.seconds);
        let lru = if self.lru == Lru::Classic { "n" } else { "y" };
        let policy = if self.is_interleaved { "interleave" } else { "local" };
        format!("console=ttyS0 quiet panic=-1 mitigations=off gannet.lru={lru} gannet.policy={policy} gannet.run={run}")
    }

    fn start(
        &self,
        folder: &Path,
        kernel: &Kernel,
        initramfs: &Path,
        options: &NumaOptions,
    ) -> Result<GuestMachine, String> {
        let node = |id: u8| {
            let backing = format!("memory-backend-ram,id=m{id},size={}M", options.node_mib);
            ["-object".to_owned(), backing, "-numa".to_owned(), format!("node,nodeid={id},cpus={id},memdev=m{id}")]
        };
        let all = format!("{}M", 2 * options.node_mib);
        let shape = ["-smp", "2", "-m", &all, "-numa", "dist,src=0,dst=1,val=31"].map(str::to_owned);
        let more = [&shape[..4], &node(0), &node(1), &shape[4..]].concat();
        let disks = [folder.join("disk"), folder.join("outcome")];
        let disks = disks.each_ref().map(|disk| disk.as_path());
        GuestMachine::start(kernel, initramfs, &self.line(options), &disks, Cpus::InTurn, &more)
    }

    /// Returns the outcome that an earlier call stored, if it exists.
    pub fn known(&self, folder: &Path) -> Option<Value> {
        serde_json::from_slice(&fs::read(folder.join(format!("{}.json", self.name))).ok()?).ok()
    }

    /// Runs the guest to its end. Returns the lab's outcome.
    ///
    /// # Errors
    /// A sentence with the failure and the guest's last output.
    pub fn run(
        &self,
        folder: &Path,
        kernel: &Kernel,
        initramfs: &Path,
        options: &NumaOptions,
    ) -> Result<Value, String> {
        let failed = |error: std::io::Error| format!("{}: {error}", folder.display());
        empty(&folder.join("outcome"), OUTCOME_BYTES)?;
        // The program is on the disk. In the initramfs it would take memory of the guest, all of which the lab counts.
        disk_of(folder, "disk", DISK_BYTES, &folder.join("files"))?;
        let machine = self.start(folder, kernel, initramfs, options)?;
        let phases = u64::from(options.rounds) * options.modes.len() as u64;
        let time = Duration::from_secs(START_S + phases * (options.seconds + PHASE_EXTRA_S));
        let last = machine.listen(time, |_| Heard::GoOn)?;
        let bytes = fs::read(folder.join("outcome")).map_err(failed)?;
        let text = bytes.split(|byte| *byte == 0).next().unwrap_or_default();
        let _ = fs::remove_file(folder.join("disk"));
        fs::write(folder.join(format!("{}.json", self.name)), text).map_err(failed)?;
        serde_json::from_slice(text)
            .map_err(|error| format!("{}: no outcome ({error}); last output: {last}", self.name))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn guest_name_and_kernel_line_reflect_its_options() {
        let options = NumaOptions {
            rounds: 5,
            seconds: 20,
            node_mib: 512,
            modes: vec![0, 1],
            only: String::new(),
            resume: false,
            groups: false,
            program: None,
        };
        let guest = Guest::new("6.12", Lru::Generations, true);
        let line = guest.line(&options);
        assert_eq!(guest.name, "6.12-mglru-interleave");
        assert!(line.contains("gannet.lru=y gannet.policy=interleave gannet.run=lab+reclaim+--whole-host+"), "{line}");
        assert!(line.ends_with("--compare+vm.zone_reclaim_mode=0,1+--rounds+5+--seconds+20"), "{line}");
        let quota = Guest::in_group("6.1", IN_GROUPS[0]);
        assert_eq!(quota.name, "6.1-group-quota");
        assert!(quota.line(&options).ends_with("gannet.run=lab+quota+--rounds+5+--seconds+20"));
    }
}
