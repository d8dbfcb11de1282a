//! Reads arbitrary bytes as messages between coordinator and agents, and asserts the invariants that hold for any
//! input. The tests and the fuzz target share this module.

use std::fmt::Debug;

use gannet_load::agents::wire::{Frames, GREETING_BYTES_MAX, ToAgent, ToCoordinator, WireError, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// The traits that a message must implement.
pub trait Message: Serialize + DeserializeOwned + Debug {}
impl<T: Serialize + DeserializeOwned + Debug> Message for T {}

/// Reads `bytes` in pieces of `step` bytes. Returns the messages, encoded again, and the fault that ended them. Encoded
/// messages are compared instead of decoded ones, because NaN is not equal to itself.
pub fn read<T: Message>(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<WireError>) {
    let (mut frames, mut messages) = (Frames::new(GREETING_BYTES_MAX), Vec::new());
    for piece in bytes.chunks(step) {
        frames.push(piece);
        loop {
            match frames.next_message::<T>() {
                Ok(Some(message)) => messages.push(frame(&message).expect("a message that was read can be encoded")),
                Ok(None) => break,
                Err(fault) => return (messages, Some(fault)),
            }
        }
    }
    (messages, None)
}

fn assert_as<T: Message>(bytes: &[u8]) -> usize {
    let (messages, fault) = read::<T>(bytes, bytes.len().max(1));
    for step in [1, 7, 64] {
        assert_eq!(read::<T>(bytes, step), (messages.clone(), fault.clone()), "in pieces of {step}");
    }
    if let Some(fault) = fault {
        assert!(fault.to_string().starts_with("the peer sends "), "{fault}");
    }
    for message in &messages {
        let mut frames = Frames::new(2 * message.len());
        frames.push(message);
        let again: T = frames.next_message().expect("an encoded message is valid").expect("and complete");
        assert_eq!(&frame(&again).expect("it can be sent again"), message);
    }
    messages.len()
}

/// Reads `bytes` as messages of either side, both as a stream of frames and as the body of one frame. Returns the
/// number of messages.
pub fn assert_both_sides(bytes: &[u8]) -> usize {
    let body = &bytes[..bytes.len().min(GREETING_BYTES_MAX)];
    let mut framed = (body.len() as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(body);
    [bytes, &framed].iter().map(|bytes| assert_as::<ToAgent>(bytes) + assert_as::<ToCoordinator>(bytes)).sum()
}
