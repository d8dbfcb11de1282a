//! The checks, one file per group.

pub(crate) mod cgroup;
pub(crate) mod clock;
mod cloud;
mod cpu;
pub(crate) mod irq;
mod limits;
mod measured;
pub(crate) mod memory;
mod net;
mod nic;
mod numa;
pub(crate) mod placed;
pub(crate) mod storage;

use crate::check::Check;

/// Returns all checks, group by group.
pub fn all() -> impl Iterator<Item = &'static Check> {
    [
        cpu::CHECKS,
        placed::CHECKS,
        irq::CHECKS,
        net::CHECKS,
        nic::CHECKS,
        memory::CHECKS,
        numa::CHECKS,
        storage::CHECKS,
        measured::CHECKS,
        clock::CHECKS,
        limits::CHECKS,
        cgroup::CHECKS,
        cloud::CHECKS,
    ]
    .into_iter()
    .flatten()
}
