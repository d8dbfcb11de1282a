//! Drawing from distributions: each sampler is exact, deterministic in its generator, and allocates nothing.

pub mod alias;
pub mod lengths;
pub mod order;
pub mod zipf;

#[cfg(test)]
pub mod chi_square;
