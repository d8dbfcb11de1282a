//! The errors of commands on streams, with Redis's texts.

/// The reasons for an error reply to a command on streams.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum StreamError {
    /// A word that is not an identifier.
    Id,
    /// An excluded start behind which there is no identifier.
    Start,
    /// An excluded end before which there is no identifier.
    End,
    /// `MAXLEN` below 0.
    LenBelowZero,
    /// `LIMIT` below 0.
    LimitBelowZero,
    /// `MAXLEN` and `MINID` together, or one of them twice.
    TwoTrims,
    /// `LIMIT` without `MAXLEN` and `MINID`.
    LimitWithoutTrim,
    /// `LIMIT` of an exact trim.
    LimitOfExactTrim,
    /// `XTRIM` without `MAXLEN` and `MINID`.
    NoTrim,
    /// `XADD` with the identifier 0-0.
    IdZero,
    /// `XADD` with an identifier that is not above the last one.
    IdTooLow,
    /// `XADD` to a stream whose last identifier is the highest possible one.
    Exhausted,
    /// `ENTRIESADDED` below 0.
    AddedBelowZero,
    /// `XSETID` with an identifier below `MAXDELETEDID`.
    BelowGivenDeleted,
    /// `XSETID` with an identifier below that of the last entry.
    BelowLast,
    /// `XSETID` with fewer entries than the stream has.
    AddedBelowLen,
    /// An odd number of words after `STREAMS` of `XREAD`.
    Unbalanced,
    /// `GROUP` of `XREAD`.
    GroupOfRead,
    /// `NOACK` of `XREAD`.
    NoAckOfRead,
    /// The identifier `>` of `XREAD`.
    NewOfRead,
    /// `XREADGROUP` without `GROUP`.
    NoGroupGiven,
    /// The identifier `$` of `XREADGROUP`.
    LastOfGroup,
    /// `ENTRIESREAD` below -1.
    ReadBelowZero,
    /// `XGROUP` of a key that does not exist.
    NoStream,
    /// `XGROUP CREATE` of a group that exists.
    GroupExists,
    /// The idle time of `XCLAIM` is not a number.
    ClaimIdle,
    /// Options of `XCLAIM` that are not numbers.
    ClaimIdleOption,
    ClaimTime,
    ClaimRetryCount,
    /// The idle time of `XAUTOCLAIM` is not a number.
    AutoClaimIdle,
    /// `COUNT` of `XAUTOCLAIM` is not a number above 0.
    ClaimCount,
    /// `BLOCK` of `XREAD` or `XREADGROUP` in a script. The error line has the command's name as the script wrote it.
    WaitsInScript,
    /// The group for which the client waits was removed.
    GroupEnded,
    /// The stream for whose group the client waits was removed.
    StreamEnded,
}

impl StreamError {
    /// Returns the error line.
    pub(super) fn text(self) -> &'static str {
        match self {
            Self::Id => "ERR Invalid stream ID specified as stream command argument",
            Self::Start => "ERR invalid start ID for the interval",
            Self::End => "ERR invalid end ID for the interval",
            Self::LenBelowZero => "ERR The MAXLEN argument must be >= 0.",
            Self::LimitBelowZero => "ERR The LIMIT argument must be >= 0.",
            Self::TwoTrims => "ERR syntax error, MAXLEN and MINID options at the same time are not compatible",
            Self::LimitWithoutTrim => "ERR syntax error, LIMIT cannot be used without specifying a trimming strategy",
            Self::LimitOfExactTrim => "ERR syntax error, LIMIT cannot be used without the special ~ option",
            Self::NoTrim => "ERR syntax error, XTRIM must be called with a trimming strategy",
            Self::IdZero => "ERR The ID specified in XADD must be greater than 0-0",
            Self::IdTooLow => "ERR The ID specified in XADD is equal or smaller than the target stream top item",
            Self::Exhausted => "ERR The stream has exhausted the last possible ID, unable to add more items",
            Self::AddedBelowZero => "ERR entries_added must be positive",
            Self::BelowGivenDeleted => {
                "ERR The ID specified in XSETID is smaller than the provided max_deleted_entry_id"
            }
            Self::BelowLast => "ERR The ID specified in XSETID is smaller than the target stream top item",
            Self::AddedBelowLen => "ERR The entries_added specified in XSETID is smaller than the target stream length",
            Self::Unbalanced => {
                "ERR Unbalanced XREAD list of streams: for each stream key an ID or '$' must be specified."
            }
            Self::NoGroupGiven => "ERR Missing GROUP option for XREADGROUP",
            Self::LastOfGroup => {
                "ERR The $ ID is meaningless in the context of XREADGROUP: you want to read the history of this \
                 consumer by specifying a proper ID, or use the > ID to get new messages. The $ ID would just return \
                 an empty result set."
            }
            Self::ReadBelowZero => "ERR value for ENTRIESREAD must be positive or -1",
            Self::NoStream => {
                "ERR The XGROUP subcommand requires the key to exist. Note that for CREATE you may want to use the \
                 MKSTREAM option to create an empty stream automatically."
            }
            Self::GroupExists => "BUSYGROUP Consumer Group name already exists",
            Self::ClaimIdle => "ERR Invalid min-idle-time argument for XCLAIM",
            Self::ClaimIdleOption => "ERR Invalid IDLE option argument for XCLAIM",
            Self::ClaimTime => "ERR Invalid TIME option argument for XCLAIM",
            Self::ClaimRetryCount => "ERR Invalid RETRYCOUNT option argument for XCLAIM",
            Self::AutoClaimIdle => "ERR Invalid min-idle-time argument for XAUTOCLAIM",
            Self::ClaimCount => "ERR COUNT must be > 0",
            Self::WaitsInScript => "ERR xread command is not allowed with BLOCK option from scripts",
            Self::GroupEnded => "NOGROUP the consumer group this client was blocked on no longer exists",
            Self::StreamEnded => "UNBLOCKED the stream key no longer exists",
            Self::GroupOfRead => "ERR The GROUP option is only supported by XREADGROUP. You called XREAD instead.",
            Self::NoAckOfRead => "ERR The NOACK option is only supported by XREADGROUP. You called XREAD instead.",
            Self::NewOfRead => {
                "ERR The > ID can be specified only when calling XREADGROUP using the GROUP <group> <consumer> option."
            }
        }
    }
}
