//! Tests that need the store from inside.

pub(crate) mod crashes;
mod parted;
mod together;
