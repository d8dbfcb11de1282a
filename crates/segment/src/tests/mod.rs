//! Tests that need the store from inside.

pub(crate) mod crashes;
mod damage;
mod parted;
mod together;
