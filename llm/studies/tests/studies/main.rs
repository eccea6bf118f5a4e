//! Tests of studies of runs by what the crate shows.

mod reproduce;
mod reproduce_settings;
