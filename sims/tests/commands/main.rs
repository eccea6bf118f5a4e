//! The program `sim` from outside: its commands on good and on bad input, and a run of experiments with its files.

mod against;
mod bad_input;
mod documented;
#[path = "../../../tests/documented/mod.rs"]
mod documents;
mod estimate;
mod fuzz;
#[path = "../../../tests/fuzzer/mod.rs"]
mod fuzzer;
#[path = "../../../tests/long/mod.rs"]
mod long;
mod mdp;
mod museum;
mod museum_cases;
mod new_method;
mod run;
