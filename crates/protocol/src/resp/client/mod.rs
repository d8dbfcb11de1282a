//! The client's side: encodes requests and decodes replies.
//!
//! [`Decoder`] decodes a reply in pieces, with a state of 13 bytes between them. [`Value`] presents a reply that is
//! completely in memory as a tree, without building one.

mod decode;
mod encode;
mod garbage;
mod head;
mod redirect;
mod value;

pub use decode::{Decoder, Event, Step, lone_bulk};
pub use encode::{CommandLine, command, get, set};
pub use garbage::Garbage;
#[cfg(test)]
pub(in crate::resp) use head::any as any_head;
pub use head::{Head, ParsedHead, VALUES_MAX, head};
pub use redirect::Redirect;
pub use value::{DEPTH_MAX, Items, ParsedValue, Value, value};
