//! Memory that clients hold: bytes of connections outside the store ([`budget`]), and bytes of the store that readers
//! have pinned ([`pins`]).

pub mod budget;
pub mod pins;
