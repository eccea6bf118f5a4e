//! The client against recorded answers of a real vLLM, and against what a server could get wrong.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod client;
mod fuzz;
#[path = "../../../../../tests/fuzzer/mod.rs"]
mod fuzzer;
#[path = "../../../../tests/llm/common/http.rs"]
mod http_server;
mod weights;
