//! The list of labs, each with its name, its mechanism and the checks that detect the mechanism.

/// A mechanism that a lab demonstrates.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Lab {
    /// The CPU quota of a control group.
    Quota,
    /// Transparent huge pages.
    Thp,
    /// Read-ahead at faults in mapped files.
    Readahead,
    /// Soft interrupts of the network on a worker's CPU.
    Irq,
    /// Direct reclaim: memory that must be freed before a read can continue.
    Reclaim,
}

/// The description of a lab for users.
pub struct LabEntry {
    /// The lab.
    pub lab: Lab,
    /// The lab's name.
    pub name: &'static str,
    /// A one-line description.
    pub about: &'static str,
    /// The mechanism that the lab demonstrates.
    pub mechanism: &'static str,
    /// Default length of a phase in seconds, as text for the command line.
    pub seconds: &'static str,
    /// The ids of the checks that detect the mechanism.
    pub checks: &'static [&'static str],
}

/// All labs.
pub const LABS: [LabEntry; 5] = [
    LabEntry {
        lab: Lab::Quota,
        name: "quota",
        about: "A CPU quota of a control group stops a server whose mean CPU use is below the quota",
        mechanism: "A group that has used its quota of a period is stopped until the next period begins. Requests do \
                    not arrive evenly, so some periods have more work than the mean, and their last requests wait for \
                    the next period.",
        seconds: "2",
        checks: &["cg.cpu-quota"],
    },
    LabEntry {
        lab: Lab::Thp,
        name: "thp",
        about: "Huge pages: a slower first touch and more memory in use, but faster reads afterwards",
        mechanism: "At the first touch of a huge page the kernel allocates and clears 2 MiB during a request, even if \
                    the request needs a single byte. If memory is used densely and allocated in advance, huge pages \
                    save address translations on every read.",
        seconds: "2",
        checks: &["mem.thp", "mem.thp-defrag"],
    },
    LabEntry {
        lab: Lab::Readahead,
        name: "readahead",
        about: "Read-ahead: a page fault for one page reads many pages",
        mechanism: "A page fault in a mapped file also reads the pages around it, as many as the device's \
                    read_ahead_kb allows. If reads are random, these pages are not used: they keep the disk busy and \
                    evict used pages from the cache.",
        seconds: "2",
        checks: &["disk.readahead"],
    },
    LabEntry {
        lab: Lab::Irq,
        name: "irq",
        about: "Soft interrupts: packets that a worker's CPU receives take the worker's CPU time",
        mechanism: "Soft interrupts process received packets, and take precedence over all threads on their CPU. A \
                    thread that is pinned to this CPU waits, even if the packets are for another thread.",
        seconds: "2",
        checks: &["irq.softirq-time"],
    },
    LabEntry {
        lab: Lab::Reclaim,
        name: "reclaim",
        about: "Memory pressure: files that are created and deleted, compared with reused files and a graph store",
        mechanism: "A new file needs new pages. If no memory is free, the thread that needs a page must first free \
                    other pages, and often frees pages that are read next. Reused files, and memory that was allocated \
                    at the start, need no new pages.",
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
