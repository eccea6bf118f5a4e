//! Promises of small public functions, by hand values: each one catches a mistake that no other test would notice.

mod assignments;
mod defaults;
mod expected;
mod families;
mod laboratory;
mod metrics;
mod padded;
mod paper;
mod ratios;
mod sampling;
mod settings;
mod statistics;
mod surrogates;
mod variants;
mod words;
