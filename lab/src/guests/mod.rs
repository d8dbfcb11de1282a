//! Runs guests with Debian's kernels under QEMU, in software emulation, to test on kernels and kinds of memory that
//! this machine does not have.
//!
//! ```text
//!   Debian's kernel package ──unpacked──┐
//!   busybox, libraries ──> initramfs ───> QEMU ──its console──> the rig, until the guest ends or its power is cut
//!   programs ──> a disk ────────────────┘
//! ```
//!
//! Counts are valid in a guest, but times are not, because the machine is emulated.

pub mod image;
mod machine;

use std::path::Path;
use std::process::Command;

pub use machine::{Cpus, GuestMachine, Heard, disk_of, empty};
use testbed::needs::Need;

/// Other projects' programs that guests need.
pub const NEEDS: [Need; 6] = [
    Need { program: "qemu-system-x86_64", arguments: &["--version"], packages: &["qemu-system-x86", "seabios"] },
    Need { program: "busybox", arguments: &["true"], packages: &["busybox-static"] },
    Need { program: "cpio", arguments: &["--version"], packages: &["cpio"] },
    Need { program: "mkfs.ext4", arguments: &["-V"], packages: &["e2fsprogs"] },
    Need { program: "numactl", arguments: &["--show"], packages: &["numactl"] },
    Need { program: "strip", arguments: &["--version"], packages: &["binutils"] },
];

/// Runs a system program in `folder`.
///
/// # Errors
/// The program's error output.
pub fn command(folder: &Path, program: &str, arguments: &[&str]) -> Result<String, String> {
    let output = Command::new(program).args(arguments).current_dir(folder).output();
    let output = output.map_err(|error| format!("{program}: {error}"))?;
    if output.status.success() {
        return Ok(String::from_utf8_lossy(&output.stdout).into_owned());
    }
    Err(format!("{program} {}: {}", arguments.join(" "), String::from_utf8_lossy(&output.stderr).trim()))
}

/// Converts a path to an argument.
pub fn path_text(path: &Path) -> String {
    path.to_string_lossy().into_owned()
}
