//! Matches the devices with the table when a process starts.
//!
//! ```text
//!   the table's number ──on a device──> Known: the regions that the table describes are on the device
//!                      └──on none─────> Exchanged: the regions are forgotten, the device gets a new number
//!   no table ─────────────────────────> New: the device gets a number
//! ```
//!
//! Devices are recognised by their numbers, so the order in which the operator lists them does not matter.

use std::io;

use base::prng::Prng;

use crate::device::Device;
use crate::front;
use crate::regions::Sizes;
use crate::table::{DEVICES_MAX, Table};

/// The state in which a device was found.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StartedFlash {
    /// The device that the table describes.
    Known,
    /// The device is not the one that the table describes, or another process has used the device since.
    Exchanged,
    /// The table describes no device.
    New,
    /// The device cannot be read, so it is unknown whether it is the one that the table describes.
    Unread(String),
    /// Writing a new number to the device failed.
    Unwritten(String),
    /// The device is opened read-only (as a view), and its contents are not those that the table describes.
    Strange,
}

impl StartedFlash {
    /// Returns true if the data that the table describes is not on the device.
    pub(crate) fn forgets(&self) -> bool {
        !matches!(self, Self::Known | Self::Unread(_))
    }

    /// Returns the reason why the device cannot be used, or `None` if it can be used.
    pub(crate) fn failure(&self) -> Option<String> {
        match self {
            Self::Unread(error) => Some(format!("the first read failed: {error}")),
            Self::Unwritten(error) => Some(format!("the first write failed: {error}")),
            Self::Known | Self::Exchanged | Self::New | Self::Strange => None,
        }
    }
}

/// A device at its final position in the list of devices.
#[derive(Debug)]
pub(crate) struct FoundDevice {
    pub(crate) device: Box<dyn Device>,
    pub(crate) number: u64,
    pub(crate) regions: u64,
    pub(crate) begun: StartedFlash,
}

struct Candidate {
    device: Box<dyn Device>,
    regions: u64,
    number: io::Result<Option<u64>>,
}

/// Puts the devices into the order of the table, and gives new numbers to devices that are new or replace another.
/// For a view, writes to no device.
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
    // If the number of regions of one device has changed, the regions of all later devices would get other numbers.
    let same_cut = before.iter().map(|(_, regions)| *regions).eq(there.iter().map(|candidate| candidate.regions));
    let placed = there.into_iter().enumerate().map(|(place, Candidate { device, regions, number })| {
        let was = before.get(place).map(|(number, _)| *number).filter(|_| same_cut);
        let (number, begun) = match (number, was) {
            (Ok(Some(number)), Some(was)) if number == was => (number, StartedFlash::Known),
            (Err(error), was) => (was.unwrap_or(0), StartedFlash::Unread(error.to_string())),
            (Ok(_), _) if is_view => (0, StartedFlash::Strange),
            (Ok(_), _) => {
                let number = random.next_u64() | 1;
                match front::write(&*device, number, regions, sizes) {
                    Err(error) => (0, StartedFlash::Unwritten(error.to_string())),
                    Ok(()) if before.is_empty() => (number, StartedFlash::New),
                    Ok(()) => (number, StartedFlash::Exchanged),
                }
            }
        };
        FoundDevice { device, number, regions, begun }
    });
    placed.collect()
}
