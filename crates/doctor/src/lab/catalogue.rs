//! The list of labs: the mechanism of each, its name and the checks that detect it.

/// A mechanism that a lab demonstrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    /// The CPU quota of a control group.
    Quota,
    /// Transparent huge pages.
    Thp,
    /// Read-ahead at faults in mapped files.
    Readahead,
    /// The network's soft interrupts on a worker's CPU.
    Irq,
    /// Memory that has to be freed before a read goes on.
    Reclaim,
}

/// A lab, as its users know it.
pub struct LabEntry {
    /// The lab.
    pub lab: Lab,
    /// Its name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The mechanism behind it.
    pub mechanism: &'static str,
    /// Default seconds of a phase: text, for the command line.
    pub seconds: &'static str,
    /// The checks that detect it.
    pub checks: &'static [&'static str],
}

/// All labs.
pub const LABS: [LabEntry; 5] = [
    LabEntry {
        lab: Lab::Quota,
        name: "quota",
        about: "A control group's CPU quota stops a server that uses less than its share",
        mechanism: "A group that has used its share of a period is stopped until the next one begins. Requests do not \
                    come evenly, so a period now and then holds more work than the mean, and its last requests wait \
                    for the next.",
        seconds: "2",
        checks: &["cg.cpu-quota"],
    },
    LabEntry {
        lab: Lab::Thp,
        name: "thp",
        about: "Huge pages: the first touch is dear, the memory more than was touched, every later read cheaper",
        mechanism: "The first touch of a huge page finds and clears 2 MiB at once, in the middle of a request, and \
                    keeps them although a byte was wanted. Where memory is used densely and got in advance, the same \
                    pages save translations on every read.",
        seconds: "2",
        checks: &["mem.thp", "mem.thp-defrag"],
    },
    LabEntry {
        lab: Lab::Readahead,
        name: "readahead",
        about: "Read-ahead makes a fault for one page read many",
        mechanism: "A fault in a mapped file reads what is around the page too, as much as the device's read_ahead_kb \
                    says. Where reads are random that is wasted: the disk is busy with unused pages, and it \
                    pushes out of the cache what was in use.",
        seconds: "2",
        checks: &["disk.readahead"],
    },
    LabEntry {
        lab: Lab::Irq,
        name: "irq",
        about: "Packets that are received on a worker's CPU take its time",
        mechanism: "What the network receives is worked on in soft interrupts, before any thread of the CPU that they \
                    run on. A thread that is pinned there waits, even if the packets are for another one.",
        seconds: "2",
        checks: &["irq.softirq-time"],
    },
    LabEntry {
        lab: Lab::Reclaim,
        name: "reclaim",
        about: "Files that come and go under memory pressure, beside a pool of files and an arena",
        mechanism: "A new file's pages have to be found: where no memory is free, the thread that needs one frees \
                    others first, and what goes is often what is read next. Files that are used again, or memory \
                    that was got at the start, ask for nothing.",
        seconds: "6",
        checks: &["mem.reclaim", "mem.page-cache-garbage", "numa.zone-reclaim", "mem.mglru"],
    },
];

impl Lab {
    /// Returns the lab's entry in the list.
    pub fn entry(self) -> &'static LabEntry {
        LABS.iter().find(|entry| entry.lab == self).expect("every lab is in the list")
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::checks::select;

    #[test]
    fn every_lab_refers_to_existing_checks() {
        for entry in &LABS {
            let only: Vec<String> = entry.checks.iter().map(|id| (*id).to_owned()).collect();
            assert_eq!(select(&only).map(|checks| checks.len()), Ok(entry.checks.len()), "{}", entry.name);
            assert_eq!(entry.lab.entry().name, entry.name);
        }
    }
}
