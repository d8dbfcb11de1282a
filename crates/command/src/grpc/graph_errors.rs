//! The status of a call whose command on a graph was refused.
//!
//! The commands reply with the texts of [`graph::GraphError`] and of their own parser, which begin with what could not
//! be done.

use protocol::grpc::Status;
use std::borrow::Cow;

/// The starts of the texts, with the status of each. The first match counts.
const STARTS: [(&str, Status); 23] = [
    ("cannot find the graph", Status::NotFound),
    ("cannot find the edge type", Status::NotFound),
    ("cannot declare the inverse with", Status::InvalidArgument),
    ("cannot declare the inverse", Status::FailedPrecondition),
    ("cannot connect", Status::InvalidArgument),
    ("cannot set", Status::InvalidArgument),
    ("cannot declare the edge type: it exists", Status::FailedPrecondition),
    ("cannot declare the edge type", Status::ResourceExhausted),
    ("cannot create the graph", Status::ResourceExhausted),
    ("cannot add the node", Status::ResourceExhausted),
    ("cannot add the edge", Status::FailedPrecondition),
    ("cannot add an edge", Status::InvalidArgument),
    ("cannot store attributes", Status::FailedPrecondition),
    ("cannot store:", Status::ResourceExhausted),
    ("cannot store", Status::InvalidArgument),
    ("cannot page", Status::FailedPrecondition),
    ("cannot use", Status::InvalidArgument),
    ("cannot combine", Status::InvalidArgument),
    ("cannot search", Status::InvalidArgument),
    ("cannot name", Status::InvalidArgument),
    ("the name '", Status::InvalidArgument),
    ("the request ends before", Status::InvalidArgument),
    ("this server has no graph store", Status::FailedPrecondition),
];

/// A part of all texts about a word that is not what its place needs.
const OTHER_WORD: &str = "' is no";

/// Returns the status and the text for the error reply of a command on graphs. Returns `None` if the reply is another
/// error.
pub(super) fn graph_error(reply: &[u8]) -> Option<(Status, Cow<'_, str>)> {
    let text = String::from_utf8_lossy(reply.strip_prefix(b"ERR ")?);
    let start = STARTS.iter().find(|(start, _)| text.starts_with(start));
    let status = match start {
        Some((_, status)) => *status,
        None if text.contains(OTHER_WORD) => Status::InvalidArgument,
        None => return None,
    };
    Some((status, text))
}

#[cfg(test)]
mod tests {
    use super::*;
    use graph::GraphError;

    #[test]
    fn each_refusal_of_the_engine_has_a_status_that_names_its_cause() {
        let refusals = [
            (GraphError::UnknownGraph, Status::NotFound),
            (GraphError::UnknownType, Status::NotFound),
            (GraphError::TypeDiffers("direction"), Status::FailedPrecondition),
            (GraphError::NoInverse, Status::FailedPrecondition),
            (GraphError::InverseSchema, Status::InvalidArgument),
            (GraphError::BadName, Status::InvalidArgument),
            (GraphError::BadSchema, Status::InvalidArgument),
            (GraphError::TooManyGraphs, Status::ResourceExhausted),
            (GraphError::NoRoomForGraph, Status::ResourceExhausted),
            (GraphError::TooManyTypes, Status::ResourceExhausted),
            (GraphError::TooManyNodes, Status::ResourceExhausted),
            (GraphError::ReservedNode(0), Status::InvalidArgument),
            (GraphError::SelfEdge(1), Status::InvalidArgument),
            (GraphError::AttributesTooLong(300), Status::InvalidArgument),
            (GraphError::NoSchema, Status::FailedPrecondition),
            (GraphError::ObjectTooLong(17_000), Status::InvalidArgument),
            (GraphError::TimeOutOfRange(1 << 60), Status::InvalidArgument),
            (GraphError::CapReached { node: 1, cap: 1 }, Status::FailedPrecondition),
            (GraphError::ListFull(1), Status::FailedPrecondition),
            (GraphError::BadCursor, Status::InvalidArgument),
            (GraphError::BadSetCount(17), Status::InvalidArgument),
            (GraphError::BadDistance(4), Status::InvalidArgument),
            (GraphError::NotSortedByTime, Status::FailedPrecondition),
            (GraphError::NoSpace, Status::ResourceExhausted),
            (GraphError::IndexFull(1), Status::ResourceExhausted),
        ];
        for (refusal, status) in refusals {
            let reply = format!("ERR {refusal}");
            assert_eq!(graph_error(reply.as_bytes()), Some((status, refusal.to_string().into())));
        }
        let not_text = graph_error(b"ERR the name '\xff' is not UTF-8: use a text");
        assert!(not_text.is_some_and(|(status, text)| status == Status::InvalidArgument && text.ends_with("a text")));
        assert!(graph_error(b"ERR increment or decrement would overflow").is_none());
        assert!(graph_error(b"WRONGTYPE of '1' is no matter").is_none());
    }
}
