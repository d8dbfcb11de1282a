//! Which of the devices is which, when a process begins.
//!
//! ```text
//!   the table's number ──on a device──> Known: what the table has of its regions is there
//!                      └──on none─────> Exchanged: they are forgotten, the device gets another number
//!   no table ─────────────────────────> New
//! ```
//!
//! Devices are known by their numbers, in whatever order they are named.

use std::io;

use base::prng::Prng;

use crate::device::Device;
use crate::front;
use crate::regions::Sizes;
use crate::table::{DEVICES_MAX, Table};

/// The state in which a device was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Begun {
    /// It is what the table is about.
    Known,
    /// It is another device than the table describes, or another process has used it.
    Exchanged,
    /// The table is about none.
    New,
    /// It cannot be read, so it is not known whether it is the device that the table describes.
    Unread(String),
    /// It has no number, and cannot be given one.
    Unwritten(String),
    /// It is looked at alone, and what is there is not what the table is about.
    Strange,
}

impl Begun {
    /// Returns whether the data that the table describes is no longer on the device.
    pub(crate) fn forgets(&self) -> bool {
        !matches!(self, Self::Known | Self::Unread(_))
    }

    /// Why it cannot be used.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Unread(error) => Some(format!("the first read failed: {error}")),
            Self::Unwritten(error) => Some(format!("the first write failed: {error}")),
            Self::Known | Self::Exchanged | Self::New | Self::Strange => None,
        }
    }
}

/// A device in its place.
#[derive(Debug)]
pub(crate) struct FoundDevice {
    pub(crate) device: Box<dyn Device>,
    pub(crate) number: u64,
    pub(crate) regions: u64,
    pub(crate) begun: Begun,
}

struct Candidate {
    device: Box<dyn Device>,
    regions: u64,
    number: io::Result<Option<u64>>,
}

/// The devices in the order in which the table has them; of a view none is written.
pub(crate) fn devices(
    devices: Vec<Box<dyn Device>>,
    sizes: Sizes,
    table: &Table,
    random: &mut Prng,
    is_view: bool,
) -> Vec<FoundDevice> {
    assert!(devices.len() <= DEVICES_MAX, "{} devices", devices.len());
    let before = if table.is_found() { table.devices() } else { Vec::new() };
    let look = |device: Box<dyn Device>| {
        let regions = front::regions_of(device.bytes(), sizes);
        Candidate { number: front::read(&*device, regions, sizes), regions, device }
    };
    let mut there: Vec<Candidate> = devices.into_iter().map(look).collect();
    for (place, (number, _)) in before.iter().enumerate().take(there.len()) {
        let is_it = |candidate: &Candidate| matches!(candidate.number, Ok(Some(found)) if found == *number);
        if let Some(at) = there.iter().position(is_it) {
            there.swap(place, at);
        }
    }
    // With another number of regions on one of them the regions of those behind it would have other numbers.
    let same_cut = before.iter().map(|(_, regions)| *regions).eq(there.iter().map(|candidate| candidate.regions));
    let placed = there.into_iter().enumerate().map(|(place, Candidate { device, regions, number })| {
        let was = before.get(place).map(|(number, _)| *number).filter(|_| same_cut);
        let (number, begun) = match (number, was) {
            (Ok(Some(number)), Some(was)) if number == was => (number, Begun::Known),
            (Err(error), was) => (was.unwrap_or(0), Begun::Unread(error.to_string())),
            (Ok(_), _) if is_view => (0, Begun::Strange),
            (Ok(_), _) => {
                let number = random.next_u64() | 1;
                match front::write(&*device, number, regions, sizes) {
                    Err(error) => (0, Begun::Unwritten(error.to_string())),
                    Ok(()) if before.is_empty() => (number, Begun::New),
                    Ok(()) => (number, Begun::Exchanged),
                }
            }
        };
        FoundDevice { device, number, regions, begun }
    });
    placed.collect()
}
