//! The parts of a run, each against numbers by hand, another reading, or what it refuses. Whole runs are in llm/tests.
#![allow(clippy::unwrap_used)] // the lint spares test functions but not their helpers

mod bounded;
mod config;
mod eval {
    mod origin;
    mod power;
    mod score;
    mod vote;
}
mod input {
    mod data {
        mod conflicts;
        mod locate;
    }
    mod hub;
    mod prompt {
        mod named;
        mod target;
    }
    mod stops;
    mod task;
    mod tokens;
    mod vocabulary;
}
#[path = "../../../../../tests/documented/page.rs"]
mod page;
mod plan {
    mod cards;
    mod memory;
    mod roofline;
    mod shapes;
    mod synthetic;
}
mod problems;
mod reward;
mod run;
mod step;
mod train {
    mod divergence;
    mod metrics;
    mod session;
}
