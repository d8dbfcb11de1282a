//! Long streams, which are built in several requests.
//!
//! ```text
//!   RESTORE tmp   the groups and consumers, without entries    XADD tmp id ...    for each entry
//!   XCLAIM tmp group consumer ... FORCE                        if many entries are pending
//!   XSETID tmp last
//! ```
//! `XCLAIM` claims no deleted entries, so that pending entries that were deleted are always restored with the groups.
//! It also counts as a request of the consumer, so that its last request is the time of the copy.

use std::collections::HashMap;

use protocol::resp::client::CommandLine;
use rdb::{Element, Encoder, FieldTimes, Misplaced, StreamId, StreamTotals, ValueType};

/// Highest number of pending entries that are restored with the groups.
const RESTORED_PENDING_MAX: usize = 1_000;
/// Highest number of pending entries in one `XCLAIM`.
const CLAIMED_AT_ONCE_MAX: usize = 1_000;

/// A delivery: its time in milliseconds since 1970, and the number of deliveries.
type Delivery = (u64, u64);

/// A consumer of a group.
struct ConsumerRead {
    name: Vec<u8>,
    seen_at_ms: u64,
    owned: Vec<StreamId>,
}

/// A group with its pending entries.
struct GroupRead {
    name: Vec<u8>,
    last_id: StreamId,
    entries_read: Option<u64>,
    pending: Vec<(StreamId, Delivery)>,
    consumers: Vec<ConsumerRead>,
}

/// A function that sends a request, which has a name and is written by the given function.
type SendRequest<'s> = &'s mut dyn FnMut(&'static str, &dyn Fn(&mut Vec<u8>));

/// The elements of a long stream.
#[derive(Default)]
pub(crate) struct LongStream {
    /// The entries, each as its identifier and its fields and values.
    entries: Vec<(StreamId, Vec<Vec<u8>>)>,
    totals: Option<StreamTotals>,
    groups: Vec<GroupRead>,
}

impl LongStream {
    /// Adds the next element of a payload. Returns `None` if it has no place in a stream.
    pub(crate) fn add(&mut self, element: &Element<'_>) -> Option<()> {
        match *element {
            Element::Entry(id) => self.entries.push((id, Vec::new())),
            Element::Field { name, value, .. } => {
                self.entries.last_mut()?.1.extend([name.to_vec(), value.to_vec()]);
            }
            Element::Totals(totals) => self.totals = Some(totals),
            Element::Group { name, last_id, entries_read } => {
                let (pending, consumers) = (Vec::new(), Vec::new());
                self.groups.push(GroupRead { name: name.to_vec(), last_id, entries_read, pending, consumers });
            }
            Element::Pending { id, delivered_at_ms, deliveries } => {
                self.groups.last_mut()?.pending.push((id, (delivered_at_ms, deliveries)));
            }
            Element::Consumer { name, seen_at_ms, .. } => {
                let consumer = ConsumerRead { name: name.to_vec(), seen_at_ms, owned: Vec::new() };
                self.groups.last_mut()?.consumers.push(consumer);
            }
            Element::Owned(id) => self.groups.last_mut()?.consumers.last_mut()?.owned.push(id),
            // Entries that a consumer has rejected count as acknowledged, and producers are not copied.
            Element::Unowned(_) | Element::Producer(_) | Element::Produced { .. } => {}
            _ => return None,
        }
        Some(())
    }

    /// Returns true if a pending entry is restored with the groups.
    fn is_restored(&self, id: StreamId) -> bool {
        let pending: usize = self.groups.iter().map(|group| group.pending.len()).sum();
        pending <= RESTORED_PENDING_MAX || self.entries.binary_search_by_key(&id, |(id, _)| *id).is_err()
    }

    /// Returns the payload of the stream without its entries, and without the pending entries that are claimed.
    fn frame(&self, totals: StreamTotals) -> Result<Vec<u8>, Misplaced> {
        let mut frame = Encoder::new(ValueType::Stream, FieldTimes::default());
        // The entries will be counted when they are added, and must be above the last identifier.
        let entries_added = totals.entries_added.saturating_sub(totals.length);
        let (length, first_id, last_id) = (0, None, StreamId::default());
        frame.add(&Element::Totals(StreamTotals { length, first_id, last_id, entries_added, ..totals }))?;
        for group in &self.groups {
            let GroupRead { name, last_id, entries_read, .. } = group;
            frame.add(&Element::Group { name, last_id: *last_id, entries_read: *entries_read })?;
            let owned: Vec<Vec<StreamId>> = group
                .consumers
                .iter()
                .map(|consumer| consumer.owned.iter().copied().filter(|id| self.is_restored(*id)).collect())
                .collect();
            let mut restored: Vec<StreamId> = owned.concat();
            restored.sort_unstable();
            for (id, (delivered_at_ms, deliveries)) in &group.pending {
                if restored.binary_search(id).is_ok() {
                    let (delivered_at_ms, deliveries) = (*delivered_at_ms, *deliveries);
                    frame.add(&Element::Pending { id: *id, delivered_at_ms, deliveries })?;
                }
            }
            for (ConsumerRead { name, seen_at_ms, .. }, owned) in group.consumers.iter().zip(owned) {
                frame.add(&Element::Consumer { name, seen_at_ms: *seen_at_ms, active_at_ms: None })?;
                owned.iter().try_for_each(|id| frame.add(&Element::Owned(*id)))?;
            }
        }
        frame.finish()
    }

    /// Sends the requests that claim pending entries.
    fn send_claims(&self, key: &[u8], send: SendRequest<'_>) {
        for group in &self.groups {
            let deliveries: HashMap<StreamId, Delivery> = group.pending.iter().copied().collect();
            for consumer in &group.consumers {
                let claimed = consumer.owned.iter().filter(|id| !self.is_restored(**id));
                let claimed: Vec<(StreamId, Delivery)> =
                    claimed.filter_map(|id| Some((*id, *deliveries.get(id)?))).collect();
                for same in claimed.chunk_by(|one, next| one.1 == next.1) {
                    for some in same.chunks(CLAIMED_AT_ONCE_MAX) {
                        send("XCLAIM", &|out| put_claim(out, [key, &group.name, &consumer.name], some));
                    }
                }
            }
        }
    }

    /// Sends the requests that build the stream under a key that does not exist: calls `send` with the name of each,
    /// and a function that writes it. Returns `None` if the payload was incomplete.
    pub(crate) fn send(&self, key: &[u8], send: SendRequest<'_>) -> Option<()> {
        let totals = self.totals?;
        let frame = self.frame(totals).ok()?;
        send("RESTORE", &|out| {
            CommandLine::new(out, 4).arg(b"RESTORE").arg(key).number(0).arg(&frame);
        });
        for (id, words) in &self.entries {
            send("XADD", &|out| {
                let line = CommandLine::new(out, 3 + words.len() as u32).arg(b"XADD").arg(key);
                words.iter().fold(line.arg(id.to_string().as_bytes()), |line, word| line.arg(word));
            });
        }
        self.send_claims(key, send);
        send("XSETID", &|out| {
            CommandLine::new(out, 3).arg(b"XSETID").arg(key).arg(totals.last_id.to_string().as_bytes());
        });
        Some(())
    }

    /// Writes the requests that build the stream. Returns their number; `None` if the payload was incomplete.
    pub(super) fn put(&self, out: &mut Vec<u8>, key: &[u8]) -> Option<usize> {
        let mut commands = 0;
        self.send(key, &mut |_, write| {
            write(out);
            commands += 1;
        })?;
        Some(commands)
    }
}

/// Writes a request that claims entries with equal deliveries for a consumer.
fn put_claim(out: &mut Vec<u8>, [key, group, consumer]: [&[u8]; 3], some: &[(StreamId, Delivery)]) {
    let (delivered_at_ms, deliveries) = some[0].1;
    let line = CommandLine::new(out, 11 + some.len() as u32).arg(b"XCLAIM").arg(key).arg(group).arg(consumer).number(0);
    let line = some.iter().fold(line, |line, (id, _)| line.arg(id.to_string().as_bytes()));
    let line = line.arg(b"TIME").arg(delivered_at_ms.to_string().as_bytes());
    line.arg(b"RETRYCOUNT").arg(deliveries.to_string().as_bytes()).arg(b"FORCE").arg(b"JUSTID");
}
