//! The words of a request after its name, parsed in their order.

use super::fault::GraphFault;
use crate::resp::catalog::lower;
use graph::{Graph, TypeId};
use protocol::number::parse_u64;

/// RequestWords that are parsed one after another. `W` iterates over the rest, and a copy of it looks ahead.
#[derive(Clone)]
pub(super) struct RequestWords<W>(pub(super) W);

impl<'a, W: Iterator<Item = &'a [u8]> + Clone> RequestWords<W> {
    /// Returns the next word.
    ///
    /// # Errors
    /// If there is none. `what` names what is expected.
    pub(super) fn next(&mut self, what: &'static str) -> Result<&'a [u8], GraphFault> {
        self.0.next().ok_or(GraphFault::Missing(what))
    }

    /// Returns the next word, which stays the next one.
    pub(super) fn peek(&self) -> Option<&'a [u8]> {
        self.0.clone().next()
    }

    /// Returns true if the next word is `name`, in upper or lower case, and skips it then. `name` is in lower case.
    pub(super) fn skip(&mut self, name: &[u8]) -> bool {
        let is_next = self.peek().is_some_and(|word| lower(word)[..] == *name);
        if is_next {
            let _ = self.0.next();
        }
        is_next
    }

    /// Returns the next word as the identifier of a node. The engine refuses the reserved ones.
    pub(super) fn node(&mut self) -> Result<u64, GraphFault> {
        let word = self.next("a node")?;
        parse_u64(word).ok_or_else(|| GraphFault::NotNode(word.to_vec()))
    }

    /// Returns true if the next word is a number.
    pub(super) fn is_number(&self) -> bool {
        self.peek().is_some_and(|word| parse_u64(word).is_some())
    }

    /// Returns the next word as a number from 1 to `most`, which is the value of `option`.
    pub(super) fn number(&mut self, option: &'static str, most: u64) -> Result<u64, GraphFault> {
        let word = self.next(option)?;
        let number = parse_u64(word).filter(|number| (1..=most).contains(number));
        number.ok_or_else(|| GraphFault::NotNumber(option, word.to_vec(), 1, most))
    }

    /// Returns the next word as a number, which is the value of `option` and may be 0.
    pub(super) fn count(&mut self, option: &'static str) -> Result<u64, GraphFault> {
        let word = self.next(option)?;
        parse_u64(word).ok_or_else(|| GraphFault::NotNumber(option, word.to_vec(), 0, u64::MAX))
    }

    /// Returns the next word as a time, in milliseconds since the epoch. The engine refuses times out of its range.
    pub(super) fn time_ms(&mut self) -> Result<u64, GraphFault> {
        let word = self.next("a time in ms")?;
        parse_u64(word).ok_or_else(|| GraphFault::NotTime(word.to_vec()))
    }

    /// Returns the next word as the name of an edge type.
    pub(super) fn edge_type(&mut self, graph: &Graph) -> Result<TypeId, GraphFault> {
        let name = self.next("an edge type")?;
        let name = std::str::from_utf8(name).map_err(|_| graph::GraphError::UnknownType)?;
        Ok(graph.edge_type(name)?)
    }

    /// # Errors
    /// If a word is left.
    pub(super) fn end(&mut self) -> Result<(), GraphFault> {
        self.0.next().map_or(Ok(()), |word| Err(GraphFault::Unexpected(word.to_vec())))
    }
}

/// The words that follow an attribute in a request. No attribute has one of these names.
const OPTIONS: [&[u8]; 8] = [b"ts", b"negative", b"attr", b"undirected", b"inverse", b"sort", b"cap", b"schema"];

/// Returns true if an attribute cannot have this name, because a request could mean an option or the next edge by it.
pub(crate) fn is_reserved_attribute(name: &[u8]) -> bool {
    parse_u64(name).is_some() || OPTIONS.contains(&&lower(name)[..])
}

/// Returns the stored attributes: the number of each name in the schema, and the value.
pub fn attributes_of(mut bytes: &[u8]) -> impl Iterator<Item = (usize, &[u8])> {
    std::iter::from_fn(move || {
        let [number, length, rest @ ..] = bytes else { return None };
        let (value, rest) = rest.split_at_checked(usize::from(*length))?;
        bytes = rest;
        Some((usize::from(*number), value))
    })
}
