//! The parameters of `lab reclaim`.

use super::engine::Engine;

/// The parameters of a run.
#[derive(Clone, Debug)]
pub struct ReclaimOptions {
    /// Memory of the group in bytes; `None` means the default.
    pub memory_bytes: Option<u64>,
    /// True to use all memory of the host without a control group, on a guest that is used for nothing else.
    pub is_whole_host: bool,
    /// Size of the unused files that fill the page cache (garbage), as a ratio of the memory.
    pub garbage: f64,
    /// Size of the segments in use, as a ratio of the memory.
    pub active: f64,
    /// Size of a segment in bytes.
    pub segment_bytes: u64,
    /// Number of threads that read.
    pub readers: u32,
    /// Reads per second of each reader.
    pub reads_per_s: u32,
    /// Number of threads that replace segments.
    pub writers: u32,
    /// Bytes per second that all writers together write.
    pub write_bytes_per_s: u64,
    /// Bytes of garbage that are read per second during a phase; 0 for none.
    pub scan_bytes_per_s: u64,
    /// True to report each slow read, as the article's simulator did.
    pub notes_slow: bool,
    /// The only engine to run; `None` means all engines.
    pub engine: Option<Engine>,
    /// A setting `vm.NAME` to compare, and its values.
    pub values: Option<(String, Vec<String>)>,
}

impl Default for ReclaimOptions {
    fn default() -> Self {
        Self {
            memory_bytes: None,
            is_whole_host: false,
            garbage: 0.52,
            active: 0.8,
            segment_bytes: 4 << 20,
            readers: 2,
            reads_per_s: 1000,
            writers: 1,
            write_bytes_per_s: 32 << 20,
            scan_bytes_per_s: 64 << 20,
            notes_slow: false,
            engine: None,
            values: None,
        }
    }
}
