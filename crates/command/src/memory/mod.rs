//! Memory that commands use: bytes that connections hold outside the store ([`budget`]), bytes of the store that
//! readers have pinned ([`pins`]), and a worker's buffer for new values ([`scratch`]).

pub mod budget;
pub mod pins;
pub(crate) mod scratch;
