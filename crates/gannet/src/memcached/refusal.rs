//! The refusal of a command line or of the host, with memcached's exit code.

/// The exit codes of memcached: 1, and those from sysexits.h.
pub mod code {
    /// The command line is invalid.
    pub const USAGE: u8 = 64;
    /// The user does not exist.
    pub const NO_USER: u8 = 67;
    /// The operating system refused an operation.
    pub const SYSTEM: u8 = 71;
    /// All other errors.
    pub const FAILED: u8 = 1;
}

/// An exit code with the message to print.
pub type Refusal = (u8, String);
