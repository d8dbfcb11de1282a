//! Faults that a gRPC call asks for by its metadata, for tests of clients. Only with `--test-faults`.
//!
//! | metadata | meaning |
//! |---|---|
//! | `request-id` | the test; counts belong to it |
//! | `error-rpcs`, `return-error`, `error-count` | these methods fail with this status, up to this number of times |
//! | `delay-rpcs`, `delay-ms`, `delay-count` | these methods wait for this time, up to this number of times |
//! | `stream-error-rpcs`, `stream-error` | the streams of these methods end with this status |
//! | `stream-error-message-limit` | the number of messages of a stream before that end; 0 by default |
//!
//! Names of methods are separated by spaces or commas, as in `get sorted-set-put topic-subscribe`; without them, all
//! methods are meant. Without a count, there is no limit. The names are those of Momento's own test server, so that the
//! middleware of its clients works here.
//!
//! Bounds: the counts of [`TESTS_MAX`] tests are kept. If there are more, all are forgotten.

use protocol::grpc::Status;
use protocol::http2::FieldList;
use protocol::number::parse_u64;
use std::collections::HashMap;
use std::sync::{Mutex, PoisonError};

/// The maximum number of tests whose counts are kept, for each kind of fault.
const TESTS_MAX: usize = 4096;
/// The text of an error that a call asked for.
pub(crate) const FAULT_TEXT: &str = "a fault that the call asked for";

/// The longest delay, in ms.
const DELAY_MS_MAX: u64 = 600_000;

/// The number of bytes before a message: a flag, and the length.
const PREFIX_BYTES: usize = 5;

/// The kinds of faults that have a count.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum FaultKind {
    Error,
    Delay,
}

/// The number of faults of each kind and test.
type CountsByTest = HashMap<(FaultKind, Box<[u8]>), u64>;

/// The number of faults of each test.
#[derive(Debug, Default)]
pub struct FaultCounts(Mutex<CountsByTest>);

impl FaultCounts {
    /// Counts a fault of a test. Returns false if the test has had `max` of them already.
    fn count(&self, kind: FaultKind, test: &[u8], max: u64) -> bool {
        let mut counts = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.len() >= 2 * TESTS_MAX {
            counts.clear();
        }
        let count = counts.entry((kind, test.into())).or_default();
        *count += 1;
        *count <= max
    }
}

/// The faults of one call.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct CallFaults {
    /// The status with which the call fails instead of its execution.
    pub(crate) error: Option<Status>,
    /// The time for which the complete request waits, in ms; 0 for none.
    pub(crate) delay_ms: u64,
    /// The number of messages after which the reply ends, and its status.
    pub(crate) cut: Option<(u64, Status)>,
}

/// Returns the faults that a call of `method` asks for. Returns `None` if it asks for none.
pub(crate) fn of(fields: &FieldList, method: &str, counts: &FaultCounts) -> Option<CallFaults> {
    let value = |name: &str| fields.others().find(|(field, _)| *field == name.as_bytes()).map(|(_, value)| value);
    let names_method = |list: &str| {
        let mut all = fields.others().filter(|(field, _)| *field == list.as_bytes()).map(|(_, value)| value).peekable();
        all.peek().is_none() || all.any(|value| is_in(value, method))
    };
    let test = value("request-id").unwrap_or_default();
    let number = |name: &str| value(name).and_then(parse_u64);
    let is_left = |kind, name: &str| number(name).is_none_or(|max| counts.count(kind, test, max));
    let status = |name: &str| value(name).map(|name| status_named(name).unwrap_or(Status::Unknown));
    let mut faults = CallFaults::default();
    if let Some(status) = status("return-error")
        && names_method("error-rpcs")
        && is_left(FaultKind::Error, "error-count")
    {
        faults.error = Some(status);
    }
    if let Some(ms) = number("delay-ms").or_else(|| number("delay-millis"))
        && names_method("delay-rpcs")
        && is_left(FaultKind::Delay, "delay-count")
    {
        faults.delay_ms = ms.min(DELAY_MS_MAX);
    }
    if let Some(status) = status("stream-error")
        && names_method("stream-error-rpcs")
    {
        faults.cut = Some((number("stream-error-message-limit").unwrap_or(0), status));
    }
    (faults != CallFaults::default()).then_some(faults)
}

/// Shortens `messages`, each with its prefix, to the first `limit` of them. Returns false if there are no more.
pub(crate) fn cut(messages: &mut Vec<u8>, limit: u64) -> bool {
    let mut at = 0;
    for _ in 0..limit {
        let Some(prefix) = messages[at..].first_chunk::<PREFIX_BYTES>() else { return false };
        at += PREFIX_BYTES + u32::from_be_bytes([prefix[1], prefix[2], prefix[3], prefix[4]]) as usize;
    }
    let is_cut = at < messages.len();
    messages.truncate(at);
    is_cut
}

/// Returns the letters of a name in lower case, without what separates its words.
fn letters(name: &[u8]) -> impl Iterator<Item = u8> {
    name.iter().filter(|byte| byte.is_ascii_alphanumeric()).map(u8::to_ascii_lowercase)
}

/// Returns true if a list names a method: `SortedSetPut` is `sorted-set-put`, `Publish` is also `topic-publish`.
fn is_in(list: &[u8], method: &str) -> bool {
    list.split(|byte| matches!(byte, b' ' | b',')).any(|name| {
        let topic = name.strip_prefix(b"topic-").unwrap_or(name);
        letters(name).eq(letters(method.as_bytes())) || letters(topic).eq(letters(method.as_bytes()))
    })
}

/// Returns the status with a name, such as `unavailable` or `DEADLINE_EXCEEDED`.
fn status_named(name: &[u8]) -> Option<Status> {
    Status::ALL.into_iter().find(|status| letters(status.name().as_bytes()).eq(letters(name)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn methods_and_statuses_are_named_as_clients_write_them() {
        for (list, method) in [
            ("get", "Get"),
            ("set get", "Get"),
            ("set,sorted-set-put", "SortedSetPut"),
            ("topic-publish", "Publish"),
            ("publish", "Publish"),
            ("item_get_ttl", "ItemGetTtl"),
        ] {
            assert!(is_in(list.as_bytes(), method), "{list}");
        }
        for (list, method) in [("get-batch", "Get"), ("", "Get"), ("topic-get-batch", "Get")] {
            assert!(!is_in(list.as_bytes(), method), "{list}");
        }
        assert_eq!(status_named(b"deadline-exceeded"), Some(Status::DeadlineExceeded));
        assert_eq!(status_named(b"UNAVAILABLE"), Some(Status::Unavailable));
        assert_eq!(status_named(b"no such status"), None);
    }

    #[test]
    fn stream_is_cut_between_messages() {
        let whole = [&[0, 0, 0, 0, 2, 7, 7][..], &[0, 0, 0, 0, 0], &[0, 0, 0, 0, 1, 7]].concat();
        for (limit, left, is_cut) in [(0, 0, true), (1, 7, true), (2, 12, true), (3, 18, false), (4, 18, false)] {
            let mut messages = whole.clone();
            assert_eq!((cut(&mut messages, limit), messages.len()), (is_cut, left), "{limit}");
        }
    }

    #[test]
    fn fault_ends_after_its_count_for_each_test_and_kind() {
        let counts = FaultCounts::default();
        let faults = [b"a", b"a", b"a", b"b"].map(|test| counts.count(FaultKind::Error, test, 2));
        assert_eq!(faults, [true, true, false, true]);
        assert!(counts.count(FaultKind::Delay, b"a", 1));
    }

    #[test]
    fn counts_of_many_tests_do_not_grow_without_bound() {
        let counts = FaultCounts::default();
        for test in 0..3 * TESTS_MAX as u64 {
            counts.count(FaultKind::Error, &test.to_le_bytes(), 1);
        }
        assert!(counts.0.lock().expect("no thread has panicked").len() <= 2 * TESTS_MAX);
    }
}
