//! [`LoraError`] and the names that it lists: apart from adapters, so that the errors of a model can hold it.

/// Settings that a model's matrices do not allow, or an adapter that damages them.
#[derive(Clone, Debug, PartialEq, thiserror::Error)]
#[non_exhaustive]
pub enum LoraError {
    /// A scale that is not a finite number.
    #[error("alpha={alpha} is not a finite number")]
    Alpha {
        /// The scale.
        alpha: f64,
    },
    /// A target that is no projection.
    #[error("targets: {name:?} is no projection{}; there are {}", did_you_mean(.name, TARGETS.into_iter().map(|t| t.0)), TARGETS.map(|t| t.0).join(", "))]
    Target {
        /// The name given.
        name: String,
    },
    /// No target.
    #[error("targets names no projection: nothing would be trained")]
    NoTarget,
    /// A rank of 0, or above the smaller side of a matrix.
    #[error("rank={rank} is not in 1..={}, what {module} of {} x {} allows", .size[0].min(.size[1]), .size[0], .size[1])]
    Rank {
        /// The rank.
        rank: usize,
        /// The matrix.
        module: String,
        /// Its `[out, in]`.
        size: [usize; 2],
    },
    /// A merged matrix with a number that is not finite.
    #[error(
        "the merged `{name}` holds {merged} at {place}, which is {base} in the base: the base, the adapter \
        or its alpha {alpha} is damaged"
    )]
    NotFinite {
        /// The parameter.
        name: String,
        /// The number's place in it.
        place: usize,
        /// The number.
        merged: f32,
        /// The number in the base.
        base: f32,
        /// The scale.
        alpha: f64,
    },
}

/// ` (did you mean `x`?)` for the closest known name, or nothing when none is close.
fn did_you_mean<'a>(word: &str, known: impl Iterator<Item = &'a str>) -> String {
    known
        .map(|name| (strsim::jaro_winkler(word, name), name))
        .filter(|(score, _)| *score > 0.75)
        .max_by(|a, b| a.0.total_cmp(&b.0))
        .map_or(String::new(), |(_, name)| format!(" (did you mean `{name}`?)"))
}

/// The projections that can be adapted, with their places in a layer.
pub const TARGETS: [(&str, &str); 7] = [
    ("q_proj", "self_attn.q_proj"),
    ("k_proj", "self_attn.k_proj"),
    ("v_proj", "self_attn.v_proj"),
    ("o_proj", "self_attn.o_proj"),
    ("gate_proj", "mlp.gate_proj"),
    ("up_proj", "mlp.up_proj"),
    ("down_proj", "mlp.down_proj"),
];
