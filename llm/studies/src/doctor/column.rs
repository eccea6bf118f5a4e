//! The quantities that are looked at, and what each framework calls them.

/// The writer of a log.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Framework {
    Ours,
    /// `GRPOTrainer`, by the names of its releases since 0.19.
    Trl,
    /// `RayPPOTrainer`, by the names of its releases since 0.3.
    Verl,
}

impl Framework {
    pub fn name(self) -> &'static str {
        match self {
            Framework::Ours => "llm-train",
            Framework::Trl => "TRL",
            Framework::Verl => "verl",
        }
    }
}

/// A quantity of a step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Column {
    /// Mean reward of the responses.
    Reward,
    /// Share of groups whose rewards are all equal.
    ZeroVariance,
    /// Mean KL estimate against the reference, in nats per token.
    Kl,
    /// Mean probability ratio to the sampling policy.
    RatioMean,
    /// exp of the largest absolute log-ratio.
    RatioMax,
    /// Mean of exp of the absolute difference between the log-probabilities of sampler and trainer.
    Drift,
    /// Share of responses that were cut off.
    Truncated,
    /// Share of tokens on the lower clip bound.
    ClipLow,
    /// Share of tokens on the upper clip bound.
    ClipHigh,
    /// Share of tokens on either clip bound; in verl also those on its dual clip, a cap on large ratios where the
    /// advantage is negative.
    Clipped,
    /// Norm of the gradient before clipping.
    GradNorm,
    /// 1 where the update was left out.
    Skipped,
    /// Mean length of a response in tokens.
    Length,
    /// Mean entropy in nats per token.
    Entropy,
    Loss,
    /// Share of right responses among those that could be graded.
    Accuracy,
    /// Upper end of the 95 % interval of the held-out accuracy.
    HeldOutHigh,
}

/// Every quantity in the order of [`Column`]: in words, and its names in llm-train, TRL and verl, the preferred one
/// first; the share without variance of llm-train is a quotient of two columns, and TRL logs the drift as a difference
/// of log-probabilities. `a + b` is a sum.
static TABLE: [(Column, &str, [&[&str]; 3]); 17] = [
    (Column::Reward, "reward", [&["reward"], &["reward"], &["critic/score/mean", "critic/rewards/mean"]]),
    (
        Column::ZeroVariance,
        "share of groups without variance",
        [&["zero_variance_groups"], &["frac_reward_zero_std"], &[]],
    ),
    (Column::Kl, "KL per token", [&["kl"], &["kl"], &["actor/kl_loss"]]),
    (Column::RatioMean, "mean ratio", [&["ratio_mean"], &[], &[]]),
    (Column::RatioMax, "largest ratio", [&["ratio_max"], &[], &[]]),
    (Column::Drift, "drift", [&["logp_error"], &["sampling/sampling_logp_difference/mean"], &[]]),
    (
        Column::Truncated,
        "share cut off",
        [&["truncated"], &["completions/clipped_ratio"], &["response_length/clip_ratio"]],
    ),
    (Column::ClipLow, "share clipped below", [&["clip_fraction_low"], &["clip_ratio/low_mean"], &[]]),
    (Column::ClipHigh, "share clipped above", [&["clip_fraction_high"], &["clip_ratio/high_mean"], &[]]),
    (
        Column::Clipped,
        "share clipped, either bound",
        [
            &["clip_fraction_low + clip_fraction_high"],
            &["clip_ratio/low_mean + clip_ratio/high_mean"],
            &["actor/pg_clipfrac + actor/pg_clipfrac_lower", "actor/pg_clipfrac"],
        ],
    ),
    (Column::GradNorm, "gradient norm", [&["grad_norm"], &["grad_norm"], &["actor/grad_norm"]]),
    (Column::Skipped, "skipped updates", [&["skipped"], &[], &[]]),
    (
        Column::Length,
        "length",
        [&["length"], &["completions/mean_length", "completion_length"], &["response_length/mean"]],
    ),
    (Column::Entropy, "entropy", [&["entropy"], &["entropy"], &["actor/entropy", "actor/entropy_loss"]]),
    (Column::Loss, "loss", [&["loss"], &["loss"], &["actor/pg_loss"]]),
    (Column::Accuracy, "accuracy in training", [&["accuracy"], &[], &[]]),
    (Column::HeldOutHigh, "upper end of the held-out accuracy", [&["eval_high"], &[], &[]]),
];

impl Column {
    /// All of them.
    pub fn all() -> impl Iterator<Item = Column> {
        TABLE.iter().map(|row| row.0)
    }

    /// In words.
    pub fn name(self) -> &'static str {
        TABLE[self as usize].1
    }

    /// Its names in a framework, the preferred one first.
    pub fn names(self, framework: Framework) -> &'static [&'static str] {
        TABLE[self as usize].2[framework as usize]
    }
}
