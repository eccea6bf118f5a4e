//! Tests of studies of runs by what the crate shows.

mod paper_figures;
mod reproduce;
mod reproduce_settings;
