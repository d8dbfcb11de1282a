//! The inputs and events by which a machine and its caller alternate.

/// The reason for which the caller resumes a machine.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Input {
    /// Run the script that [`crate::Machine::begin`] was given.
    Run,
    /// Only compile that script.
    Compile,
    /// Load that script, which is a library.
    Load,
    /// The reply to the called command is in place.
    Reply,
    /// Continue after [`MachineEvent::Tick`] or [`MachineEvent::ShortTick`].
    Continue,
    /// Continue after [`MachineEvent::ShortTick`], which came so soon that the next one may take more instructions.
    ContinueLonger,
    /// End the script with an error.
    Kill,
    /// End the script, and the machine.
    Stop,
}

/// The reason for which a machine suspends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MachineEvent {
    /// The machine is ready for a script.
    Idle,
    /// The script calls a command: execute [`crate::Machine::with_request`], then resume with [`Input::Reply`].
    Call,
    /// The script asks whether the client may execute the command in [`crate::Machine::with_request`]: the reply is 1
    /// or 0, or an error if there is no such command.
    Rights,
    /// The script has executed some thousand instructions.
    Tick,
    /// The script has executed fewer instructions, whose strings may be long.
    ShortTick,
    /// The script has ended; its result is in place.
    Done,
}
