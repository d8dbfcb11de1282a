//! Binding of threads to CPUs, their scheduling priority, and the text form of CPU lists.

use std::fmt;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Upper bound of CPU numbers: every CPU number is lower.
pub const CPU_NUMBER_END: usize = 1024;

/// The reason why CPUs cannot be used.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CpusRefused {
    /// The cause, as part of a sentence.
    pub what: String,
    /// The remedy.
    pub remedy: String,
}

impl fmt::Display for CpusRefused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}; {}", self.what, self.remedy)
    }
}

impl std::error::Error for CpusRefused {}

/// Returns the CPUs that this thread may run on, in ascending order.
///
/// # Errors
/// If the system does not report them.
pub fn usable_cpus() -> std::io::Result<Vec<usize>> {
    let set = sched_getaffinity(None)?;
    Ok((0..CpuSet::MAX_CPU).filter(|cpu| set.is_set(*cpu)).collect())
}

/// Pins the calling thread to `cpu`.
///
/// # Errors
/// If that CPU does not exist, or the process may not use it.
pub fn pin_this_thread(cpu: usize) -> std::io::Result<()> {
    if cpu >= CpuSet::MAX_CPU {
        return Err(std::io::ErrorKind::InvalidInput.into());
    }
    let mut set = CpuSet::new();
    set.set(cpu);
    Ok(sched_setaffinity(None, &set)?)
}

/// Added niceness of a thread that gives way to the workers. The scheduler then runs a worker as soon as the worker
/// wakes up. If both compete for a CPU all the time, the thread gets a tenth of the CPU's time.
const NICENESS: i32 = 10;

/// Lets the workers run before the calling thread if they share a CPU. On Linux, niceness applies to one thread.
pub fn give_way() {
    // The call fails only if a system-call filter refuses it. The thread then keeps the workers' priority.
    let _ = rustix::process::nice(NICENESS);
}

/// Parses a list such as `0-3,8`. The result is not empty and lists each CPU once, in the given order.
///
/// # Errors
/// If the text is not a valid list.
pub fn read_cpus(text: &str) -> Result<Vec<usize>, CpusRefused> {
    let wrong = |what: String| CpusRefused { what, remedy: "write CPU numbers and ranges, as in \"0-3,8\"".to_owned() };
    let number = |part: &str| match part.trim().parse::<usize>() {
        Ok(cpu) if cpu < CPU_NUMBER_END => Ok(cpu),
        Ok(cpu) => Err(wrong(format!("CPU {cpu} exceeds the maximum of {}", CPU_NUMBER_END - 1))),
        Err(_) => Err(wrong(format!("{part:?} is not a CPU number"))),
    };
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let (first, last) = (number(first)?, number(last)?);
        if first > last {
            return Err(wrong(format!("the range {part} ends below its start")));
        }
        for cpu in first..=last {
            if cpus.contains(&cpu) {
                return Err(wrong(format!("CPU {cpu} is listed twice")));
            }
            cpus.push(cpu);
        }
    }
    Ok(cpus)
}

/// Formats a list for [`read_cpus`]. Runs of three or more CPUs become ranges.
pub fn show_cpus(cpus: &[usize]) -> String {
    let mut parts = Vec::new();
    let mut at = 0;
    while at < cpus.len() {
        let run = cpus[at..].iter().enumerate().take_while(|(offset, cpu)| **cpu == cpus[at] + offset).count();
        if run >= 3 {
            parts.push(format!("{}-{}", cpus[at], cpus[at + run - 1]));
            at += run;
        } else {
            parts.push(cpus[at].to_string());
            at += 1;
        }
    }
    parts.join(",")
}

/// Checks that all of `cpus` are among `usable`.
///
/// # Errors
/// If a CPU is not usable. The error names the first such CPU and the usable CPUs.
pub fn check_usable(cpus: &[usize], usable: &[usize]) -> Result<(), CpusRefused> {
    match cpus.iter().find(|cpu| !usable.contains(cpu)) {
        None => Ok(()),
        Some(cpu) => Err(CpusRefused {
            what: format!("this process may not run on CPU {cpu}"),
            remedy: format!("choose from {}", show_cpus(usable)),
        }),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pinned_thread_may_use_its_cpu_alone() {
        let last = *usable_cpus().unwrap().last().unwrap();
        std::thread::spawn(move || {
            pin_this_thread(last).unwrap();
            assert_eq!(usable_cpus().unwrap(), [last]);
        })
        .join()
        .unwrap();
        assert!(pin_this_thread(usize::MAX).is_err());
    }

    #[test]
    fn cpu_list_preserves_its_order_and_rejects_invalid_cpus() {
        assert_eq!(read_cpus("8,0-3").unwrap(), [8, 0, 1, 2, 3]);
        assert_eq!(show_cpus(&[8, 0, 1, 2, 3, 5, 6]), "8,0-3,5,6");
        for bad in ["", "3-1", "1,1", "0-", "x", "1024", "-1", "0-3,2"] {
            assert!(read_cpus(bad).unwrap_err().remedy.contains("0-3,8"), "{bad}");
        }
    }

    #[test]
    fn a_cpu_that_may_not_be_used_is_named_with_those_that_may() {
        assert_eq!(check_usable(&[0, 2], &[0, 1, 2]), Ok(()));
        let refused = check_usable(&[0, 7, 9], &[0, 1, 2]).unwrap_err().to_string();
        assert_eq!(refused, "this process may not run on CPU 7; choose from 0-2");
    }
}
