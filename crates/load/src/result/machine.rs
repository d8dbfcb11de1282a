//! Reads the description of the generator's machine from `/proc` and `/sys`.

use super::Machine;

impl Machine {
    /// Returns the description of this machine. A field that cannot be read is left empty.
    pub fn here() -> Self {
        let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
        let governor = read("/sys/devices/system/cpu/cpu0/cpufreq/scaling_governor");
        let release = format!("Linux {}", read("/proc/sys/kernel/osrelease").trim());
        let cpus = io::affinity::usable_cpus().map_or(0, |cpus| cpus.len() as u64);
        let governor = Some(governor.trim().to_owned()).filter(|governor| !governor.is_empty());
        Self { kernel: release, cpus, governor, ..Self::parse(&read("/proc/cpuinfo"), &read("/proc/meminfo")) }
    }

    /// Parses the contents of the two files.
    fn parse(cpuinfo: &str, meminfo: &str) -> Self {
        let field = |name: &str| {
            let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
            lines.find(|(known, _)| known.trim() == name).map(|(_, value)| value.trim().to_owned())
        };
        let memory = meminfo.lines().find_map(|line| line.strip_prefix("MemTotal:"));
        let kib = memory.and_then(|text| text.split_whitespace().next()?.parse::<u64>().ok());
        Self {
            cpu: field("model name").unwrap_or_default(),
            memory_bytes: kib.unwrap_or(0) << 10,
            virtual_machine: field("flags").is_some_and(|flags| flags.split(' ').any(|flag| flag == "hypervisor")),
            ..Self::default()
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn machine_info_is_parsed_and_missing_fields_are_empty() {
        let cpuinfo = "processor\t: 0\nmodel name\t: Some CPU @ 2 GHz\nflags\t\t: fpu hypervisor sse\n";
        let machine = Machine::parse(cpuinfo, "MemTotal:       1024 kB\nMemFree: 1 kB\n");
        assert_eq!((machine.cpu.as_str(), machine.memory_bytes), ("Some CPU @ 2 GHz", 1 << 20));
        assert!(machine.virtual_machine);
        assert_eq!(Machine::parse("", ""), Machine::default());
        assert!(Machine::here().cpus > 0);
    }
}
