//! Samplers of distributions. Each is exact, determined by its random generator, and free of allocations.

pub mod alias;
pub mod lengths;
pub mod order;
pub mod zipf;

#[cfg(test)]
pub mod chi_square;
