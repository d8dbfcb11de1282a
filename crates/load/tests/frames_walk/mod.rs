//! Any bytes read as what coordinator and agents say to one another, and what must hold whatever they are. Shared by
//! the tests and the fuzz target.

use std::fmt::Debug;

use gannet_load::agents::wire::{Frames, GREETING_BYTES_MAX, ToAgent, ToCoordinator, WireError, frame};
use serde::Serialize;
use serde::de::DeserializeOwned;

/// What a message must be able to do.
pub trait Message: Serialize + DeserializeOwned + Debug {}
impl<T: Serialize + DeserializeOwned + Debug> Message for T {}

/// The messages in `bytes`, which come `step` at a time, and the fault that ends them. Messages are told by their
/// bytes when they are sent again: a number that is none is not equal to itself.
pub fn read<T: Message>(bytes: &[u8], step: usize) -> (Vec<Vec<u8>>, Option<WireError>) {
    let (mut frames, mut messages) = (Frames::new(GREETING_BYTES_MAX), Vec::new());
    for piece in bytes.chunks(step) {
        frames.push(piece);
        loop {
            match frames.next_message::<T>() {
                Ok(Some(message)) => messages.push(frame(&message).expect("what was read can be sent")),
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
        let again: T = frames.next_message().expect("what was sent is a message").expect("and whole");
        assert_eq!(&frame(&again).expect("it can be sent again"), message);
    }
    messages.len()
}

/// Reads `bytes` as what either side says, as a stream of frames and as the body of one; the messages that they hold.
pub fn assert_both_sides(bytes: &[u8]) -> usize {
    let body = &bytes[..bytes.len().min(GREETING_BYTES_MAX)];
    let mut framed = (body.len() as u32).to_be_bytes().to_vec();
    framed.extend_from_slice(body);
    [bytes, &framed].iter().map(|bytes| assert_as::<ToAgent>(bytes) + assert_as::<ToCoordinator>(bytes)).sum()
}
