//! Connections that no worker serves: on the way to a worker, or released by a worker for a handover.

use command::clients::endpoint::Endpoint;
use command::clients::source::SourceEntry;
use command::handover::HandoverConnection;
use command::push::outbox::Subscriber;
use std::sync::Arc;

/// A connection on its way to a worker.
#[derive(Debug)]
pub struct ReceivedConnection<S> {
    /// The connection's socket.
    pub stream: S,
    /// The protocol and namespace of the listener that accepted the connection.
    pub endpoint: Endpoint,
    /// The state of the connection, if another worker or process has released it.
    pub carried: Option<Arc<HandoverConnection>>,
    /// The connection as counted for its source.
    pub entry: Option<Box<SourceEntry>>,
}

impl<S> From<(S, Endpoint)> for ReceivedConnection<S> {
    fn from((stream, endpoint): (S, Endpoint)) -> Self {
        Self { stream, endpoint, carried: None, entry: None }
    }
}

/// A connection that has left its worker.
#[derive(Debug)]
pub struct ReleasedConnection<S> {
    /// The socket, which is open and not in a reactor.
    pub stream: S,
    /// The state that the worker released with the connection.
    pub carried: Arc<HandoverConnection>,
    /// The subscriptions of the connection. They collect published messages until the last worker has ended.
    pub(crate) subscriber: Option<Subscriber>,
}

impl<S> ReleasedConnection<S> {
    /// Converts the stream.
    pub(crate) fn map<T>(self, convert: impl FnOnce(S) -> T) -> ReleasedConnection<T> {
        let Self { stream, carried, subscriber } = self;
        ReleasedConnection { stream: convert(stream), carried, subscriber }
    }

    /// Creates a connection that was received from another process.
    pub(super) fn received(stream: S, carried: HandoverConnection) -> Self {
        Self { stream, carried: Arc::new(carried), subscriber: None }
    }
}

/// Bytes that were received before a connection moved. They precede the bytes that are read from its socket.
#[derive(Debug)]
pub(crate) struct EarlyInput {
    carried: Arc<HandoverConnection>,
    taken: usize,
}

impl EarlyInput {
    /// Returns the received but unexecuted bytes in the state of a moved connection, if there are any.
    pub(crate) fn of(carried: &Arc<HandoverConnection>) -> Option<Box<Self>> {
        (!carried.input.is_empty()).then(|| Box::new(Self { carried: Arc::clone(carried), taken: 0 }))
    }

    /// Returns the bytes that have not been consumed yet.
    pub(crate) fn rest(&self) -> &[u8] {
        &self.carried.input[self.taken..]
    }

    /// Moves as many bytes into `into` as fit. Returns the number of moved bytes.
    pub(crate) fn take(&mut self, into: &mut [u8]) -> usize {
        let count = self.rest().len().min(into.len());
        into[..count].copy_from_slice(&self.rest()[..count]);
        self.taken += count;
        count
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use command::clients::endpoint::Protocol;

    #[test]
    fn early_input_is_read_once_and_in_order() {
        let carried = HandoverConnection { input: b"abcde".to_vec(), ..HandoverConnection::new(Protocol::Resp.into()) };
        let mut early = EarlyInput::of(&Arc::new(carried)).expect("there are some");
        let mut room = [0; 3];
        assert_eq!((early.take(&mut room), room), (3, *b"abc"));
        assert_eq!((early.take(&mut room), &room[..2], early.rest().len()), (2, &b"de"[..], 0));
    }
}
