//! The kinds of requests whose latencies are recorded, and the parts into which a latency is divided.

/// The kinds of requests in metrics. Their number is fixed, so that the number of metrics is bounded.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Command {
    /// `get` of one key.
    #[default]
    Get,
    /// `get` of several keys.
    MultiGet,
    /// `gets`, of any number of keys.
    Gets,
    /// `gat` and `gats`.
    Gat,
    /// `set`.
    Set,
    /// `add`.
    Add,
    /// `replace`.
    Replace,
    /// `append`.
    Append,
    /// `prepend`.
    Prepend,
    /// `cas`.
    Cas,
    /// `delete`.
    Delete,
    /// `incr`.
    Incr,
    /// `decr`.
    Decr,
    /// `touch`.
    Touch,
    /// `flush_all`.
    Flush,
    /// `mg`.
    MetaGet,
    /// `ms`.
    MetaSet,
    /// `md`.
    MetaDelete,
    /// `ma`.
    MetaArith,
    /// `stats`.
    Stats,
    /// Changes of graphs: `G.ADD` and its like.
    GraphChange,
    /// Reads of edges, degrees and objects of a graph.
    GraphEdge,
    /// Pages of neighbours, and set operations over them.
    GraphPage,
    /// Distances and paths in a graph.
    GraphDistance,
    /// Second degrees and suggestions.
    GraphSecond,
    /// Any other request.
    Other,
    /// A plain `GET` of a Redis client, which is executed in a run. In metrics, it is a `get`.
    PlainGet,
    /// A plain `SET` of a Redis client, which is executed in a run. In metrics, it is a `set`.
    PlainSet,
}

impl Command {
    /// The kinds that metrics show as another kind. Their numbers follow those of [`Command::ALL`].
    pub const PLAIN: [Self; 2] = [Self::PlainGet, Self::PlainSet];

    /// All kinds that metrics show, in the order of their numbers.
    pub const ALL: [Self; 26] = [
        Self::Get,
        Self::MultiGet,
        Self::Gets,
        Self::Gat,
        Self::Set,
        Self::Add,
        Self::Replace,
        Self::Append,
        Self::Prepend,
        Self::Cas,
        Self::Delete,
        Self::Incr,
        Self::Decr,
        Self::Touch,
        Self::Flush,
        Self::MetaGet,
        Self::MetaSet,
        Self::MetaDelete,
        Self::MetaArith,
        Self::Stats,
        Self::GraphChange,
        Self::GraphEdge,
        Self::GraphPage,
        Self::GraphDistance,
        Self::GraphSecond,
        Self::Other,
    ];

    /// Returns the kind under which metrics show this kind.
    pub const fn shown(self) -> Self {
        match self {
            Self::PlainGet => Self::Get,
            Self::PlainSet => Self::Set,
            other => other,
        }
    }

    /// Returns the name of the kind in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Get | Self::PlainGet => "get",
            Self::MultiGet => "multi_get",
            Self::Gets => "gets",
            Self::Gat => "gat",
            Self::Set | Self::PlainSet => "set",
            Self::Add => "add",
            Self::Replace => "replace",
            Self::Append => "append",
            Self::Prepend => "prepend",
            Self::Cas => "cas",
            Self::Delete => "delete",
            Self::Incr => "incr",
            Self::Decr => "decr",
            Self::Touch => "touch",
            Self::Flush => "flush_all",
            Self::MetaGet => "meta_get",
            Self::MetaSet => "meta_set",
            Self::MetaDelete => "meta_delete",
            Self::MetaArith => "meta_arith",
            Self::Stats => "stats",
            Self::GraphChange => "graph_change",
            Self::GraphEdge => "graph_edge",
            Self::GraphPage => "graph_page",
            Self::GraphDistance => "graph_distance",
            Self::GraphSecond => "graph_second",
            Self::Other => "other",
        }
    }
}

/// The parts of a request's time in the server.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[repr(u8)]
pub enum Part {
    /// The time from the instant at which the worker learned that the request had arrived, until the execution began.
    Wait,
    /// The time of the execution.
    Execute,
    /// The time from the end of the execution until the kernel had accepted the reply.
    Send,
}

impl Part {
    /// All parts, in the order of their numbers.
    pub const ALL: [Self; 3] = [Self::Wait, Self::Execute, Self::Send];

    /// Returns the name of the part in metrics.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Wait => "wait",
            Self::Execute => "execute",
            Self::Send => "send",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn command_number_is_its_index_and_command_names_are_unique() {
        let mut names = std::collections::HashSet::new();
        for (place, command) in Command::ALL.into_iter().enumerate() {
            assert_eq!(command as usize, place);
            assert!(names.insert(command.name()));
            assert_eq!(command.shown(), command);
        }
        for (place, command) in Command::PLAIN.into_iter().enumerate() {
            assert_eq!(command as usize, Command::ALL.len() + place);
            assert_eq!(command.shown().name(), command.name());
        }
        for (place, part) in Part::ALL.into_iter().enumerate() {
            assert_eq!(part as usize, place);
        }
    }
}
