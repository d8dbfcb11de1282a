//! Memory that clients hold: bytes of connections outside the store ([`budget`]), and bytes of the store that a reader
//! keeps in place ([`pins`]).

pub mod budget;
pub mod pins;
