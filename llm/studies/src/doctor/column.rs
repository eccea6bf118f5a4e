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

impl Column {
    pub const ALL: [Column; 16] = [
        Column::Reward,
        Column::ZeroVariance,
        Column::Kl,
        Column::RatioMean,
        Column::RatioMax,
        Column::Drift,
        Column::Truncated,
        Column::ClipLow,
        Column::ClipHigh,
        Column::GradNorm,
        Column::Skipped,
        Column::Length,
        Column::Entropy,
        Column::Loss,
        Column::Accuracy,
        Column::HeldOutHigh,
    ];

    /// In words.
    pub fn name(self) -> &'static str {
        match self {
            Column::Reward => "reward",
            Column::ZeroVariance => "share of groups without variance",
            Column::Kl => "KL per token",
            Column::RatioMean => "mean ratio",
            Column::RatioMax => "largest ratio",
            Column::Drift => "drift",
            Column::Truncated => "share cut off",
            Column::ClipLow => "share clipped below",
            Column::ClipHigh => "share clipped above",
            Column::GradNorm => "gradient norm",
            Column::Skipped => "skipped updates",
            Column::Length => "length",
            Column::Entropy => "entropy",
            Column::Loss => "loss",
            Column::Accuracy => "accuracy in training",
            Column::HeldOutHigh => "upper end of the held-out accuracy",
        }
    }

    /// Its names in a framework, the preferred one first; the share without variance of llm-train is a quotient of two columns, and
    /// TRL logs the drift as a difference of log-probabilities.
    pub fn names(self, framework: Framework) -> &'static [&'static str] {
        let [ours, trl, verl]: [&[&str]; 3] = match self {
            Column::Reward => [&["reward"], &["reward"], &["critic/score/mean", "critic/rewards/mean"]],
            Column::ZeroVariance => [&["zero_variance_groups"], &["frac_reward_zero_std"], &[]],
            Column::Kl => [&["kl"], &["kl"], &["actor/kl_loss"]],
            Column::RatioMean => [&["ratio_mean"], &[], &[]],
            Column::RatioMax => [&["ratio_max"], &[], &[]],
            Column::Drift => [&["logp_error"], &["sampling/sampling_logp_difference/mean"], &[]],
            Column::Truncated => {
                [&["truncated"], &["completions/clipped_ratio"], &["response_length/clip_ratio"]]
            }
            Column::ClipLow => {
                [&["clip_fraction_low"], &["clip_ratio/low_mean"], &["actor/pg_clipfrac_lower"]]
            }
            Column::ClipHigh => [&["clip_fraction_high"], &["clip_ratio/high_mean"], &["actor/pg_clipfrac"]],
            Column::GradNorm => [&["grad_norm"], &["grad_norm"], &["actor/grad_norm"]],
            Column::Skipped => [&["skipped"], &[], &[]],
            Column::Length => {
                [&["length"], &["completions/mean_length", "completion_length"], &["response_length/mean"]]
            }
            Column::Entropy => [&["entropy"], &["entropy"], &["actor/entropy", "actor/entropy_loss"]],
            Column::Loss => [&["loss"], &["loss"], &["actor/pg_loss"]],
            Column::Accuracy => [&["accuracy"], &[], &[]],
            Column::HeldOutHigh => [&["eval_high"], &[], &[]],
        };
        match framework {
            Framework::Ours => ours,
            Framework::Trl => trl,
            Framework::Verl => verl,
        }
    }
}
