//! Checks that use a CPU or a disk to measure it. They slow down other programs, so they run only on request.
//!
//! In a tree the file `DIR/measured/ID` has the results of the measurement: a name and a number per line.

use std::fs::{File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use io::away::Away;

use crate::check::{Check, Needs, ProbeResult, Probed};
use crate::host::{Host, Unread};

pub(super) const CHECKS: &[Check] = &[
    Check {
        id: "cpu.noise",
        reads: "a loop that reads the clock, on each CPU in turn (--measure)",
        mechanism: "Other threads, interrupts, the firmware or the hypervisor may take a CPU from a thread, which a \
                    thread that only reads the clock sees as a gap between two readings. The share of requests that \
                    meet a gap is the share of time that gaps take.",
        remedy: "put hot threads on quiet CPUs; see cpu.isolated, irq.affinity and cloud.steal for the causes of gaps",
        expect: "fewer gaps for threads on quiet CPUs",
        needs: Needs::Nothing,
        undo: "nothing to undo on this host",
        source: "kernel: trace/osnoise-tracer",
        probe: noise,
    },
    Check {
        id: "disk.fsync-probe",
        reads: "writes of 4 KB with fdatasync in the folder of --data (--measure)",
        mechanism: "A log record is durable when fdatasync returns, so each write of the log waits for it. The p99 \
                    of fdatasync is the p99 of a client's write.",
        remedy: "use a separate disk for the log, or fewer and larger commits; see disk.scheduler and \
                 disk.write-throttle",
        expect: "commits wait less",
        needs: Needs::Nothing,
        undo: "the probe's file is removed",
        source: "man 2 fdatasync",
        probe: fsync,
    },
];

/// The share of the time that the reported gaps take together. A gap is a time for which a busy thread was kept off its
/// CPU. The reported length is that of the shortest of these gaps, so one request in a thousand meets a gap of at least
/// this length.
const SHARE: f64 = 0.001;
/// Maximum reported gap length on a CPU that does not count as noisy, in microseconds.
const GAP_US_MAX: f64 = 50.0;
/// Measuring time for all CPUs together. Each CPU gets an equal part, within the limits of the next two constants.
const ALL_CPUS: Duration = Duration::from_secs(2);
const ONE_CPU_MAX: Duration = Duration::from_millis(100);
const ONE_CPU_MIN: Duration = Duration::from_millis(10);

const NOT_ASKED: Unread =
    Unread::Beside("not measured: the measurement slows other programs down; pass --measure to run it");

fn measured_cpus(host: &Host) -> Result<Vec<(String, f64)>, Unread> {
    if !host.is_live() {
        return host.measured("cpu.noise");
    }
    if !host.asked().measure {
        return Err(NOT_ASKED);
    }
    let refused = |error: std::io::Error| Unread::Refused("a CPU".to_owned(), error.to_string());
    let cpus = io::affinity::usable_cpus().map_err(refused)?;
    let time = (ALL_CPUS / cpus.len().max(1) as u32).clamp(ONE_CPU_MIN, ONE_CPU_MAX);
    let away_us = |cpu| Ok(Away::watch(cpu, time).map_err(refused)?.gap_ns_of(SHARE) as f64 / 1e3);
    cpus.into_iter().map(|cpu| Ok((format!("cpu{cpu}"), away_us(cpu)?))).collect()
}

fn noise(host: &Host) -> Probed {
    let cpus = measured_cpus(host)?;
    let (name, worst) = cpus.iter().max_by(|a, b| a.1.total_cmp(&b.1)).ok_or(Unread::Beside("no CPU was measured"))?;
    let noisy = cpus.iter().filter(|(_, us)| *us > GAP_US_MAX).count();
    let value = format!(
        "{noisy} of {} CPUs are noisy; on {name}, gaps of {worst:.0} us or longer take 0.1 % of the time",
        cpus.len()
    );
    Ok(ProbeResult::warn_if(noisy > 0, value).weighing((worst / 1e6).min(1.0)))
}

/// Longest p99 of fdatasync without a finding, in microseconds.
const SYNC_P99_US_MAX: f64 = 5_000.0;
const WRITES: usize = 1000;
const WRITE_BYTES: usize = 4096;
const WRITES_TIME_MAX: Duration = Duration::from_secs(3);

/// The file that the probe writes; dropping it removes the file.
struct Probe {
    path: PathBuf,
    file: File,
}

impl Probe {
    fn new(folder: &Path) -> std::io::Result<Self> {
        let path = folder.join(format!(".gannet-doctor-{}", std::process::id()));
        let file = OpenOptions::new().write(true).create_new(true).open(&path)?;
        Ok(Self { path, file })
    }
}

impl Drop for Probe {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.path);
    }
}

/// Returns the median and the 99th percentile of the duration of fdatasync, in microseconds.
fn sync_times_us(folder: &Path) -> std::io::Result<[f64; 2]> {
    let mut probe = Probe::new(folder)?;
    let (begun, block) = (Instant::now(), [0x67_u8; WRITE_BYTES]);
    let mut times = Vec::with_capacity(WRITES);
    while times.len() < WRITES && begun.elapsed() < WRITES_TIME_MAX {
        let start = Instant::now();
        probe.file.write_all(&block)?;
        probe.file.sync_data()?;
        times.push(start.elapsed().as_secs_f64() * 1e6);
    }
    times.sort_unstable_by(f64::total_cmp);
    Ok([times[times.len() / 2], times[times.len() * 99 / 100]])
}

fn fsync(host: &Host) -> Probed {
    let [middle, slow] = if host.is_live() {
        if !host.asked().measure {
            return Err(NOT_ASKED);
        }
        let folder = host.asked().data.as_ref().ok_or(Unread::Beside("pass the log's folder with --data"))?;
        let refused = |error: std::io::Error| Unread::Refused(folder.display().to_string(), error.to_string());
        sync_times_us(folder).map_err(refused)?
    } else {
        let figures = host.measured("disk.fsync-probe")?;
        let one = |name: &'static str| {
            let found = figures.iter().find(|(known, _)| known == name).map(|(_, number)| *number);
            found.ok_or_else(|| Unread::Garbage("/measured/disk.fsync-probe".to_owned(), name))
        };
        [one("p50_us")?, one("p99_us")?]
    };
    let value = format!("fdatasync after 4 KB: p50 {middle:.0} us, p99 {slow:.0} us");
    Ok(ProbeResult::bad_if(slow > SYNC_P99_US_MAX, value).weighing((slow / 1e6).min(1.0)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn syncs_are_timed_here_and_leave_nothing() {
        let folder = std::env::temp_dir().join(format!("gannet-doctor-fsync-{}", std::process::id()));
        std::fs::create_dir_all(&folder).unwrap();
        let [middle, slow] = sync_times_us(&folder).unwrap();
        assert!(middle > 0.0 && slow >= middle, "{middle} {slow}");
        assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0);
        std::fs::remove_dir_all(&folder).unwrap();
        assert!(sync_times_us(&folder).is_err());
    }
}
