//! Declarations: graphs and edge types.

use std::sync::atomic::AtomicU32 as ReverseNumber;
use std::sync::atomic::Ordering::{Relaxed, Release};

use crate::append::{Stream, Writer};
use crate::error::GraphError;
use crate::limits::{SEGMENTS_FOR_REMOVALS, TYPES_MAX};
use crate::record::{self, RecordKind};
use crate::schema::{Direction, EdgeType, EdgeTypeConfig, TypeId};
use crate::state::WriterState;

impl Writer<'_> {
    /// Declares an edge type, or does nothing if it is declared with the same properties.
    ///
    /// # Errors
    /// If a name or the schema is not valid, the type exists with other properties, the inverse type is unknown, has
    /// another schema, an inverse or edges already, the graph has its maximum of types or no segment is free.
    pub fn declare_type(&mut self, name: &str, config: &EdgeTypeConfig) -> Result<TypeId, GraphError> {
        config.check(name)?;
        let named = |name: &str| self.graph.types().find(|(_, found)| found.name == name).map(|(ty, _)| ty);
        let inverse = match &config.direction {
            Direction::InverseOf(other) => Some(named(other).ok_or(GraphError::UnknownType)?),
            _ => None,
        };
        let mut config = config.clone();
        if let Some(other) = inverse.and_then(|other| self.graph.edge_type(other)) {
            // Both lists of an edge hold its attributes.
            if config.schema.is_empty() {
                config.schema.clone_from(&other.schema);
            } else if config.schema != other.schema {
                return Err(GraphError::InverseSchema);
            }
        }
        if let Some(ty) = named(name) {
            let found = self.graph.edge_type(ty).expect("named");
            let difference = found.difference(&config, ty, inverse);
            return difference.map_or(Ok(TypeId(ty)), |what| Err(GraphError::TypeDiffers(what)));
        }
        let number = self.graph.types().count();
        if number >= TYPES_MAX {
            return Err(GraphError::TooManyTypes);
        }
        // A type adds nothing to the index. A new graph without a type would be left otherwise.
        self.check_room_beside(SEGMENTS_FOR_REMOVALS)?;
        let ty = number as u8;
        let reverse = match config.direction {
            Direction::Directed => None,
            Direction::Undirected => Some(ty),
            Direction::InverseOf(_) => inverse,
        };
        if let Some(other) = inverse.and_then(|other| self.graph.edge_type(other))
            && (other.reverse().is_some() || inverse.is_some_and(|other| self.graph.changes(other) > 0))
        {
            return Err(GraphError::NoInverse);
        }
        let edge_type = EdgeType {
            name: name.to_owned(),
            order: config.order,
            cap: config.cap,
            schema: config.schema,
            is_inverse: inverse.is_some(),
            reverse_plus_one: ReverseNumber::new(reverse.map_or(0, |reverse| u32::from(reverse) + 1)),
        };
        edge_type.encode(ty, &mut self.state.record);
        let position = self.append_buffer(Stream::Long)?;
        self.state.type_positions.push(position);
        self.graph.add_type(ty, edge_type);
        if let Some(other) = inverse {
            let found = self.graph.edge_type(other).expect("named");
            found.reverse_plus_one.store(u32::from(ty) + 1, Release);
            self.write_type(other)?;
        }
        Ok(TypeId(ty))
    }

    /// Appends a type's record in place of its last one.
    pub(crate) fn write_type(&mut self, ty: u8) -> Result<(), GraphError> {
        let found = self.graph.edge_type(ty).expect("declared");
        found.encode(ty, &mut self.state.record);
        let position = self.append_buffer(Stream::Long)?;
        let old = std::mem::replace(&mut self.state.type_positions[usize::from(ty)], position);
        self.release(old);
        Ok(())
    }

    /// Appends the graph's name in place of the last record of it.
    pub(crate) fn write_name(&mut self) -> Result<(), GraphError> {
        let words = &mut self.state.record;
        record::begin(words, RecordKind::Name, 0);
        words.extend([u32::from(self.graph.number), self.graph.name.len() as u32]);
        record::push_bytes(words, self.graph.name.as_bytes());
        words.push(self.graph.creation);
        record::seal(words);
        let position = self.append_buffer(Stream::Long)?;
        let old = std::mem::replace(&mut self.state.name_position, position);
        self.release(old);
        Ok(())
    }
}

/// Drops the graph of a writer. Until its record is complete, a restart finds the whole graph. From then on, none: the
/// segment with the record becomes free after all others.
pub(crate) fn drop_graph(writer: &mut Writer<'_>) -> Result<(), GraphError> {
    let words = &mut writer.state.record;
    record::begin(words, RecordKind::Drop, 0);
    words.push(u32::from(writer.graph.number));
    record::seal(words);
    let length = words.len();
    let has_room = |stream: &Stream| writer.words_left(*stream) >= length;
    let stream = [Stream::Long, Stream::Short].into_iter().find(has_room).unwrap_or(Stream::Long);
    // A full store could not be emptied without the reserve.
    writer.may_take_reserve = true;
    let position = writer.append_buffer(stream);
    writer.may_take_reserve = false;
    let position = position?;
    writer.graph.set_dropped();
    let pool = &writer.store.pool;
    if let Some(bulk) = writer.state.bulk.take() {
        pool.end_reservation(bulk.reserved);
    }
    *writer.state = WriterState::default();
    pool.retire_graph(writer.graph.number, pool.segment_of(position), &writer.store.epochs);
    writer.store.graphs_dropped.fetch_add(1, Relaxed);
    writer.graph = &writer.store.nothing;
    Ok(())
}
