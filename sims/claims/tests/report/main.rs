//! Files committed under `paper/` and `notebooks/`, and every page of the repository, against fresh numbers and the rules for pages.
//!
//! One binary: each of them links the whole library, and together they fill both cores.

mod baselines;
mod clamp_parts;
#[path = "../../../../tests/long/mod.rs"]
mod long;
mod markdown;
mod noise_rewards;
mod notebooks;
mod paper;
mod paper_audit;

/// The allocator of `sim`.
#[global_allocator]
static ALLOCATOR: mimalloc::MiMalloc = mimalloc::MiMalloc;
