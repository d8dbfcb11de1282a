//! The checks, a file for each group.

mod cgroup;
mod clock;
mod cloud;
mod cpu;
mod irq;
mod limits;
mod memory;
mod net;
mod numa;
mod storage;

use crate::check::Check;

/// All checks, group by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        cpu::CHECKS,
        irq::CHECKS,
        net::CHECKS,
        memory::CHECKS,
        numa::CHECKS,
        storage::CHECKS,
        clock::CHECKS,
        limits::CHECKS,
        cgroup::CHECKS,
        cloud::CHECKS,
    ]
    .into_iter()
    .flatten()
}
