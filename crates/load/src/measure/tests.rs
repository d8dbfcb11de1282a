//! Tests of the figures.
