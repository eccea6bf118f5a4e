//! Code shared by several experiments.

pub(crate) mod findings;
pub(crate) mod mdp;
pub(crate) mod methods;
pub(crate) mod random;
pub(crate) mod record;
pub(crate) mod recorded;
pub(crate) mod text;
pub(crate) mod vectors;
