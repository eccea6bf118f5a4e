//! Single formulas and their refusals, against numbers by hand.

mod check;
mod clamp_part;
mod correction;
mod extra_inputs;
mod learner;
mod outcome;
mod selection;
mod settings;
mod sinkhorn;
mod soft_clamp;
mod surrogate;
mod systematic;
mod tangent;
mod token_weights;
