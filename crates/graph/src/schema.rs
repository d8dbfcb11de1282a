//! Edge types: direction, order, cap and the names of attributes.

use std::sync::atomic::{AtomicU32, Ordering::Acquire};

use crate::error::GraphError;
use crate::limits::{NAME_BYTES_MAX, SCHEMA_NAMES_MAX};
use crate::record::{self, RecordKind, RecordRef};

/// The number of an edge type in its graph.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct TypeId(pub(crate) u8);

/// The direction of an edge type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Direction {
    /// An edge is in the list of its source only.
    #[default]
    Directed,
    /// An edge is in the lists of both its ends.
    Undirected,
    /// An edge a to b of this type is an edge b to a of the type with this name, and the reverse.
    InverseOf(String),
}

/// The order in which pages list edges.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ListOrder {
    /// By node number, which is the order of a node's first appearance in the graph.
    #[default]
    Id,
    /// Newest first.
    Time,
}

/// The declaration of an edge type.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct EdgeTypeConfig {
    /// The direction.
    pub direction: Direction,
    /// The order of pages.
    pub order: ListOrder,
    /// The maximum number of live edges in one list, or 0 for no cap.
    pub cap: u32,
    /// The names of attributes, in the order of their bytes. A type without names stores no attributes. A type that is
    /// the inverse of another one has the same schema, which its declaration may omit.
    pub schema: Vec<String>,
}

impl EdgeTypeConfig {
    /// Checks the parts of the declaration of a type `name` that do not depend on a graph.
    ///
    /// # Errors
    /// If a name or the schema is not valid.
    pub fn check(&self, name: &str) -> Result<(), GraphError> {
        check_name(name)?;
        EdgeType::check_schema(&self.schema)
    }
}

/// A declared edge type.
#[derive(Debug)]
pub(crate) struct EdgeType {
    pub(crate) name: String,
    pub(crate) order: ListOrder,
    pub(crate) cap: u32,
    pub(crate) schema: Vec<String>,
    /// True if the type was declared as the inverse of another one.
    pub(crate) is_inverse: bool,
    /// The number of the type whose lists hold the reverse edges, plus 1: itself if undirected, 0 if directed. A
    /// directed type gets a reverse when its inverse is declared.
    pub(crate) reverse_plus_one: AtomicU32,
}

/// Returns an error if a name of a graph or a type is not valid.
pub(crate) fn check_name(name: &str) -> Result<(), GraphError> {
    // Names are stored with zero bytes between them, and are printed.
    let is_valid = (1..=NAME_BYTES_MAX).contains(&name.len()) && !name.chars().any(char::is_control);
    if is_valid { Ok(()) } else { Err(GraphError::BadName) }
}

impl EdgeType {
    /// Returns a type in place of one whose record is lost.
    pub(crate) fn lost(number: u8) -> Self {
        let (order, schema, reverse_plus_one) = (ListOrder::Id, Vec::new(), AtomicU32::new(0));
        Self { name: format!("lost:{number}"), order, cap: 0, schema, is_inverse: false, reverse_plus_one }
    }

    pub(crate) fn check_schema(names: &[String]) -> Result<(), GraphError> {
        names.iter().try_for_each(|name| check_name(name))?;
        let is_twice = |(at, name): (usize, &String)| names[..at].contains(name);
        if names.len() > SCHEMA_NAMES_MAX || names.iter().enumerate().any(is_twice) {
            return Err(GraphError::BadSchema);
        }
        Ok(())
    }

    /// Returns the type whose lists hold the reverse edges.
    #[inline]
    pub(crate) fn reverse(&self) -> Option<u8> {
        self.reverse_plus_one.load(Acquire).checked_sub(1).map(|reverse| reverse as u8)
    }

    /// Returns the property in which a declaration of type `own` differs from this type, if any. `inverse` is the type
    /// that the declaration names.
    pub(crate) fn difference(&self, config: &EdgeTypeConfig, own: u8, inverse: Option<u8>) -> Option<&'static str> {
        let is_same_direction = match config.direction {
            Direction::Directed => !self.is_inverse && self.reverse() != Some(own),
            Direction::Undirected => self.reverse() == Some(own),
            Direction::InverseOf(_) => self.is_inverse && self.reverse() == inverse,
        };
        let properties = [
            (is_same_direction, "direction"),
            (self.order == config.order, "order"),
            (self.cap == config.cap, "cap"),
            (self.schema == config.schema, "schema"),
        ];
        properties.into_iter().find(|(is_same, _)| !is_same).map(|(_, what)| what)
    }

    /// Returns the declaration of this type, whose number is `own`. `reverse` is the name of its reverse.
    pub(crate) fn config(&self, own: u8, reverse: Option<String>) -> EdgeTypeConfig {
        let direction = match reverse {
            Some(name) if self.is_inverse => Direction::InverseOf(name),
            _ if self.reverse() == Some(own) => Direction::Undirected,
            _ => Direction::Directed,
        };
        EdgeTypeConfig { direction, order: self.order, cap: self.cap, schema: self.schema.clone() }
    }

    pub(crate) fn encode(&self, number: u8, out: &mut Vec<u32>) {
        record::begin(out, RecordKind::EdgeType, 0);
        let text = std::iter::once(&self.name).chain(&self.schema).cloned().collect::<Vec<_>>().join("\0");
        let order = u32::from(self.order == ListOrder::Time) | u32::from(self.is_inverse) << 1;
        let reverse = self.reverse_plus_one.load(Acquire);
        out.extend([u32::from(number), order, reverse, self.cap, text.len() as u32]);
        record::push_bytes(out, text.as_bytes());
        record::seal(out);
    }

    pub(crate) fn decode(record: RecordRef<'_>) -> Option<(u8, Self)> {
        let mut text = Vec::new();
        record.copy_bytes(7, record.word(6) as usize, &mut text);
        let text = String::from_utf8(text).ok()?;
        let mut names = text.split('\0').map(str::to_owned);
        let order = if record.word(3) & 1 == 0 { ListOrder::Id } else { ListOrder::Time };
        let (name, cap, is_inverse) = (names.next()?, record.word(5), record.word(3) & 2 != 0);
        let (schema, reverse_plus_one) = (names.collect(), AtomicU32::new(record.word(4)));
        Some((record.word(2) as u8, Self { name, order, cap, schema, is_inverse, reverse_plus_one }))
    }
}
