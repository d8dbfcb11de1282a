//! The reasons for which a command on graphs is refused.

use crate::resp::call::{Call, Interrupt, Run};
use crate::resp::error::{ErrorReply, Line, shown};
use graph::GraphError;
use protocol::resp::reply;
use protocol::sink::Sink;

/// The maximum number of queries in one request.
pub(crate) const PARTS_MAX: usize = 64;
/// The maximum number of bytes of a word that an error reply quotes.
const SHOWN_MAX: usize = 96;

/// The reason for which a command is refused. The connection stays open.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum GraphFault {
    /// The engine refuses the request.
    Engine(GraphError),
    /// The server has no graph store.
    NoStore,
    /// The disk of the graph store refused a commit.
    Disk,
    /// The graph store is not committed to a disk.
    NoDisk,
    /// The word is no identifier of a node.
    NotNode(Vec<u8>),
    /// The option, the word that is no number in its range, the smallest number and the largest.
    NotNumber(&'static str, Vec<u8>, u64, u64),
    /// The word is no time.
    NotTime(Vec<u8>),
    /// A name that is not UTF-8.
    NotText(Vec<u8>),
    /// A word that the command does not have at this place.
    Unexpected(Vec<u8>),
    /// The request ends where this is expected.
    Missing(&'static str),
    /// The word is not in the schema of the edge type.
    NotInSchema(Vec<u8>),
    /// The name of an attribute is a number or an option.
    ReservedAttribute(Vec<u8>),
    /// A bin has the name of the option for the time.
    BinNamedTs,
    /// A part of a compound query has a quote without its end, or text directly after a closing quote.
    UnbalancedQuotes(Vec<u8>),
    /// The request gives an attribute or a bin twice.
    Twice(Vec<u8>),
    /// A compound query has no or too many parts.
    PartCount(usize),
    /// The word is not the name of a query.
    NotQuery(Vec<u8>),
    /// The word is not the name of a form of text.
    NotFormat(Vec<u8>),
    /// The length of a text that is longer than an item may be, and the maximum.
    TextTooLong(usize, usize),
    /// An error of a common kind.
    Common(ErrorReply),
}

impl From<GraphError> for GraphFault {
    fn from(error: GraphError) -> Self {
        Self::Engine(error)
    }
}

impl From<ErrorReply> for GraphFault {
    fn from(error: ErrorReply) -> Self {
        Self::Common(error)
    }
}

impl GraphFault {
    /// Returns true if graph memory or the index is full.
    pub(super) fn is_full(&self) -> bool {
        matches!(self, Self::Engine(GraphError::NoSpace | GraphError::IndexFull(_)))
    }

    /// Returns the error line of a command with this syntax, without the protocol's framing.
    fn line(&self, syntax: &str) -> Line {
        let mut line = Line::new();
        let about = |line: &mut Line, before: &str, word: &[u8], after: &str| {
            line.put(before.as_bytes());
            shown(line, word, SHOWN_MAX);
            line.put(after.as_bytes());
        };
        match self {
            Self::Engine(GraphError::NoSpace) => {
                line.put(b"OOM graph memory is full: remove edges, or start the server with a larger --graph-memory")
            }
            Self::Engine(GraphError::IndexFull(_)) => line.put(
                b"OOM the index of graphs is full: drop a graph, or start the server with a larger --graph-memory",
            ),
            Self::Engine(GraphError::NoRoomForGraph) => line.put(
                b"ERR cannot create the graph: less than a quarter of the segments is free; add its edges to another \
                  graph as types of their own, or start the server with a larger --graph-memory",
            ),
            Self::Engine(GraphError::AttributesTooLong(bytes)) => {
                let most = graph::limits::ATTRIBUTE_BYTES_MAX;
                let text = format!(
                    "ERR cannot store {bytes} bytes of attributes: at most {most} fit, with 2 for each attribute \
                     besides its value; shorten the values"
                );
                line.put(text.as_bytes());
            }
            Self::Engine(error) => line.put(format!("ERR {error}").as_bytes()),
            Self::NoStore => {
                line.put(b"ERR this server has no graph store: start it with --graph-memory, as in 256MiB");
            }
            Self::Disk => line
                .put(b"ERR the disk refused a commit of the graphs, so changes are refused: see the log, then restart"),
            Self::NoDisk => {
                line.put(b"ERR the graphs are not on a disk: start the server with --graph-file and --graph-sync");
            }
            Self::NotNode(word) => about(&mut line, "ERR '", word, "' is no node: use a number from 1 to 2^64 - 2"),
            Self::NotNumber(option, word, least, most) => {
                about(&mut line, &format!("ERR {option} '"), word, &format!("' is no number from {least} to {most}"));
            }
            Self::NotTime(word) => {
                about(&mut line, "ERR '", word, "' is no time: use milliseconds since 1970, from 0 to 281474976710655");
            }
            Self::NotText(word) => about(&mut line, "ERR the name '", word, "' is not UTF-8: use a text in UTF-8"),
            Self::Unexpected(word) => {
                about(&mut line, "ERR syntax error at '", word, "'; ");
                put_usage(&mut line, syntax);
            }
            Self::Missing(what) => {
                line.put(format!("ERR the request ends before {what}; ").as_bytes());
                put_usage(&mut line, syntax);
            }
            Self::BinNamedTs => line.put(
                b"ERR cannot name a bin 'TS': it is the option of the time, whose pair is the last; use another name",
            ),
            Self::UnbalancedQuotes(query) => {
                let remedy = "': its quotes are unbalanced; close each, and put a space behind it";
                about(&mut line, "ERR cannot read the query '", query, remedy);
            }
            Self::NotInSchema(word) => {
                about(&mut line, "ERR '", word, "' is not in the schema of the edge type: declare a type with SCHEMA");
            }
            Self::ReservedAttribute(word) => {
                let why = "': it is a number or an option of a command; use another name";
                about(&mut line, "ERR cannot name an attribute '", word, why);
            }
            Self::Twice(word) => {
                about(&mut line, "ERR cannot set '", word, "' twice in one change: give each name once");
            }
            Self::PartCount(parts) => {
                let most = PARTS_MAX;
                line.put(format!("ERR {parts} queries in one request: 1 to {most} are allowed").as_bytes());
            }
            Self::NotQuery(word) => {
                let known = "' is no query: use GET, COUNT, RANGE, MUTUAL, INTER, UNION, DIFF, DIST, PATH, DEG2 or \
                             SUGGEST";
                about(&mut line, "ERR '", word, known);
            }
            Self::NotFormat(word) => about(&mut line, "ERR '", word, "' is no form of text: use CSV or EDGES"),
            Self::TextTooLong(bytes, most) => {
                let remedy = "send smaller parts, or raise `store.item_max`";
                line.put(
                    format!("ERR cannot load {bytes} bytes at once: at most {most} are allowed; {remedy}").as_bytes(),
                );
            }
            Self::Common(_) => line.put(b"ERR"),
        }
        line
    }

    /// Replies with the error of a command with this syntax, as [`super::syntax`] has it. `changed` is the number of
    /// edges that the request has changed before, which the text states if it is not 0.
    #[cold]
    pub(super) fn reply(self, call: &mut Call<'_, '_>, changed: i64, syntax: &str) -> Run {
        if let Self::Common(error) = self {
            return Err(Interrupt::Fault(error));
        }
        let mut line = self.line(syntax);
        if changed > 0 {
            line.put(format!(" ({changed} edges were changed before)").as_bytes());
        }
        call.session.end_request();
        reply::error(call.out, line.as_slice());
        Ok(())
    }

    /// Returns the text of the error reply without its code. `syntax` is that of the words.
    pub(super) fn text(&self, syntax: &str) -> String {
        let mut out = Vec::new();
        self.put(&mut out, syntax);
        let line = String::from_utf8_lossy(&out).trim_end().to_owned();
        line.strip_prefix("-ERR ").map(str::to_owned).unwrap_or(line)
    }

    /// Writes the error as a part of the reply to a compound query. `syntax` is that of the part.
    pub(super) fn put(&self, out: &mut Vec<u8>, syntax: &str) {
        match self {
            Self::Common(ErrorReply::ClientMemory) => reply::error(out, b"OOM client memory is used up"),
            Self::Common(error) => reply::error(out, error.line().as_slice()),
            _ => reply::error(out, self.line(syntax).as_slice()),
        }
    }
}

/// Writes the remedy for an error of syntax.
fn put_usage(line: &mut Line, syntax: &str) {
    line.put(b"use ");
    line.put(syntax.as_bytes());
}
