//! Tests that need the store from inside.

pub(crate) mod crashes;
