//! The token-MDP against numbers by hand, brute force and random trees.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod build;
mod draw;
mod evidence {
    mod features;
}
mod expected {
    mod compare;
    mod sampled;
}
mod maskable;
mod optimal;
mod oracle;
mod policy;
mod process;
mod prompts;
mod sample;
mod table_mdp;
mod testing;
mod tilt;
mod train;
mod tree;
mod zoo;
