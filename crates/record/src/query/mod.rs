//! Queries of records: filters, and indexes of bins.

pub(crate) mod filter;
pub(crate) mod index;
