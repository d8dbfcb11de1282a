//! A subscription to a topic, which continues on a new stream after its own has broken.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use protocol::grpc::Status;
use protocol::grpc::protobuf::{DecodeError, Encoder, Message};

use super::client::CallClient;
use super::connection::{StreamEnd, StreamRequest};

/// The delays between two attempts to open a stream, those of the presets in `clients/presets.toml`.
const DELAY_MIN: Duration = Duration::from_millis(50);
const DELAY_MAX: Duration = Duration::from_secs(1);

/// Time limit for one attempt to connect.
const CONNECT_WAIT_MAX: Duration = Duration::from_secs(5);

/// An event of a subscription.
#[derive(Debug)]
pub(super) enum TopicEvent {
    Heartbeat,
    Item {
        value: String,
        sequence: u64,
    },
    Discontinuity {
        last_sequence: u64,
        new_sequence: u64,
    },
    /// The subscription has ended.
    End(StreamEnd),
}

/// The metadata of later requests, which a step of the scenario changes.
pub(super) type Metadata = Arc<Mutex<Vec<(String, String)>>>;

/// The topic of a subscription, and the metadata of its streams.
#[derive(Debug)]
pub(super) struct TopicRequest {
    pub(super) cache: String,
    pub(super) topic: String,
    pub(super) metadata: Metadata,
}

/// A subscription. Its thread ends when it is dropped.
pub(super) struct Subscription {
    events: Receiver<TopicEvent>,
    end: Option<StreamEnd>,
    cancelled: Arc<AtomicBool>,
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.cancelled.store(true, Ordering::Relaxed);
    }
}

impl Subscription {
    /// Begins a subscription, which has a connection of its own client.
    pub(super) fn begin(client: Arc<CallClient>, request: TopicRequest) -> Self {
        let (sender, events) = channel();
        let cancelled = Arc::new(AtomicBool::new(false));
        let mut reader = Reader { request, sequence: 0, page: 0, sender, cancelled: Arc::clone(&cancelled) };
        std::thread::spawn(move || reader.run(&client));
        Self { events, end: None, cancelled }
    }

    /// Waits for the next event, for at most `wait`. The end of a subscription is returned as often as it is asked for.
    ///
    /// # Errors
    /// If there is none by then.
    pub(super) fn next(&mut self, wait: Duration) -> Result<TopicEvent, RecvTimeoutError> {
        if let Some(end) = &self.end {
            return Ok(TopicEvent::End(end.clone()));
        }
        let event = self.events.recv_timeout(wait)?;
        if let TopicEvent::End(end) = &event {
            self.end = Some(end.clone());
        }
        Ok(event)
    }
}

/// The place in the topic at which the next stream continues.
struct Reader {
    request: TopicRequest,
    sequence: u64,
    page: u64,
    sender: Sender<TopicEvent>,
    cancelled: Arc<AtomicBool>,
}

impl Reader {
    fn run(&mut self, client: &CallClient) {
        let (mut delay, mut was_open) = (DELAY_MIN, false);
        while !self.cancelled.load(Ordering::Relaxed) {
            let mut is_first = true;
            let (status, text) = self.read(client, |reader| {
                if std::mem::take(&mut is_first) && was_open {
                    client.count_resume();
                    if reader.sequence == 0 {
                        reader.send(TopicEvent::Discontinuity { last_sequence: 0, new_sequence: 0 });
                    }
                }
            });
            if !is_first {
                (delay, was_open) = (DELAY_MIN, true);
            }
            if is_lasting(status) {
                self.send(TopicEvent::End((status, text)));
                return;
            }
            std::thread::sleep(delay);
            delay = (delay * 2).min(DELAY_MAX);
        }
    }

    /// Reads one stream until it ends. Calls `opened` before each event.
    fn read(&mut self, client: &CallClient, mut opened: impl FnMut(&Self)) -> StreamEnd {
        let connection = match client.connection(Instant::now() + CONNECT_WAIT_MAX) {
            Ok(connection) => connection,
            Err(cause) => return (Status::Unavailable, cause),
        };
        let mut out = Encoder::new();
        out.bytes(2, self.request.topic.as_bytes()).uint(3, self.sequence).uint(4, self.page);
        let metadata = self.request.metadata.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let request = StreamRequest {
            path: "/gannet.v1.Topics/Subscribe",
            cache: &self.request.cache,
            metadata: &metadata,
            message: out.as_slice(),
        };
        let stream = match connection.send(&request, None) {
            Ok(stream) => stream,
            Err(end) => return end,
        };
        let cancelled = Arc::clone(&self.cancelled);
        loop {
            match connection.next_messages(stream, || cancelled.load(Ordering::Relaxed)) {
                Ok(messages) => {
                    for message in messages {
                        opened(self);
                        if self.handle(&message).is_err() {
                            return (Status::Internal, "an event does not follow the schema".to_owned());
                        }
                    }
                }
                Err(end) => return end,
            }
        }
    }

    /// Sends the event of a message, and moves behind it.
    fn handle(&mut self, message: &[u8]) -> Result<(), DecodeError> {
        let message = Message::parse(message)?;
        if let Some(item) = message.message(1)? {
            let value = item.message(2)?;
            let value = value.map_or(&b""[..], |value| value.try_bytes(1).unwrap_or_else(|| value.bytes(2)));
            (self.sequence, self.page) = (item.uint(1) + 1, item.uint(4));
            let value = String::from_utf8_lossy(value).into_owned();
            self.send(TopicEvent::Item { value, sequence: item.uint(1) });
        } else if let Some(gap) = message.message(2)? {
            (self.sequence, self.page) = (gap.uint(2), gap.uint(3));
            self.send(TopicEvent::Discontinuity { last_sequence: gap.uint(1), new_sequence: gap.uint(2) });
        } else if let Some(heartbeat) = message.message(3)? {
            if heartbeat.uint(1) != 0 {
                (self.sequence, self.page) = (heartbeat.uint(1), heartbeat.uint(2));
            }
            self.send(TopicEvent::Heartbeat);
        }
        Ok(())
    }

    fn send(&self, event: TopicEvent) {
        // Fails only after the subscription was dropped, when the stream is about to end.
        drop(self.sender.send(event));
    }
}

/// Returns true if the same stream would end in the same way: the statuses `lasting` in `clients/streams.toml`.
fn is_lasting(status: Status) -> bool {
    use Status::{AlreadyExists, FailedPrecondition, InvalidArgument, NotFound, OutOfRange, PermissionDenied};
    use Status::{ResourceExhausted, Unauthenticated, Unimplemented};
    let of_request = matches!(status, AlreadyExists | FailedPrecondition | InvalidArgument | NotFound | OutOfRange);
    of_request || matches!(status, PermissionDenied | ResourceExhausted | Unauthenticated | Unimplemented)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn statuses_that_end_a_subscription_are_those_of_the_table_of_streams() {
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../clients/streams.toml");
        let text = std::fs::read_to_string(path).expect("the table of streams");
        let table: toml::Table = toml::from_str(&text).expect("a table");
        let named = |key: &str| -> Vec<String> {
            let all = table[key].as_array().expect("a list").iter();
            all.map(|name| name.as_str().expect("a name").to_owned()).collect()
        };
        let (lasting, passing) = (named("lasting"), named("passing"));
        let all = (0..=16).map(|code| Status::parse(code.to_string().as_bytes()).expect("a status"));
        let mut found = 0;
        for status in all {
            let name = status.name().to_owned();
            assert!(lasting.contains(&name) != passing.contains(&name), "{name}");
            assert_eq!(is_lasting(status), lasting.contains(&name), "{name}");
            found += 1;
        }
        assert_eq!(found, lasting.len() + passing.len());
    }
}
