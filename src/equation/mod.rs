//! The objective a method optimises, as an equation with its numbers: read off the parts it computes with.
//!
//! ```
//! use grpo_lambda::{equation::BatchSize, methods};
//! let method = methods::parse("grpo_lambda", "lambda=0.9 clamp=none beta=0.04").unwrap().method;
//! let size = BatchSize { groups: 16, group_size: 8, max_len: 64 };
//! let text = method.equation(&size).unwrap().to_string();
//! assert!(text.contains("E[t,k] = 0.9^(t-k) for k <= t"));
//! assert!(text.contains("l_t + 0.04 kl_t"));
//! ```

use std::fmt;

use crate::advantage::{Baseline, Delta, Outcome, Scale};
use crate::kl::Kl;
use crate::objective::Objective;
use crate::reduction::Reduction;
use crate::soft_clamp::{Reading, SoftClamp, Squash};
use crate::surrogate::Surrogate;
use crate::table::significant;

/// The size of a training batch, on which normalisers depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BatchSize {
    /// Prompts.
    pub groups: usize,
    /// Responses per prompt.
    pub group_size: usize,
    /// Length limit of a response, in tokens.
    pub max_len: usize,
}

impl BatchSize {
    fn responses(self) -> usize {
        self.groups * self.group_size
    }
}

/// A part of an equation: the name of what it defines, and its definition.
pub type Part = (&'static str, String);

/// An objective in parts.
///
/// In all of them `i` is a response of `T_i` tokens, `t` and `k` are tokens from 0, and `L` is minimised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Equation {
    /// Name and definition, outermost first.
    pub parts: Vec<Part>,
}

impl fmt::Display for Equation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let width = self.parts.iter().map(|(name, _)| name.len()).max().unwrap_or(0);
        for (name, text) in &self.parts {
            writeln!(f, "{name:width$}  {text}")?;
        }
        Ok(())
    }
}

/// A number without the noise of its last digits: `1 - 0.9` is 0.1.
pub(crate) fn number(x: f64) -> String {
    significant(x, 12)
}

/// The definition of `x_t`, which every update reads.
pub(crate) const LOG_RATIO: &str = "x_t = log pi(a_t|s_t) - log pi_old(a_t|s_t)";

/// The name of a token's advantage before another assignment changes it: one prime more.
///
/// ```
/// assert_eq!(grpo_lambda::equation::inner("delta_t"), "delta'_t");
/// ```
pub fn inner(token: &str) -> String {
    token.replacen('_', "'_", 1)
}

impl Outcome {
    /// `A_i = ..`, of rewards `r_i`.
    pub fn equation(&self) -> String {
        let baseline = match self.baseline {
            Baseline::GroupMean => "the mean reward of its group",
            Baseline::LeaveOneOut => "the mean reward of the other responses of its group",
            Baseline::BatchMean => "the mean reward of the batch",
        };
        let (centred, deviation) = match self.divisor_equation() {
            None => ("r_i - b_i".to_owned(), String::new()),
            Some((divisor, deviation)) => (format!("(r_i - b_i) / {divisor}"), format!(", {deviation}")),
        };
        let value = match self.clamp {
            Some(clamp) => format!("max({centred}, {})", number(clamp)),
            None => centred,
        };
        format!("A_i = {value}, b_i = {baseline}{deviation}; 0 where all rewards agree")
    }

    /// What centred rewards are divided by, and what stands in it; none where that is 1.
    pub(crate) fn divisor_equation(&self) -> Option<(String, String)> {
        let (std, whose) = match self.scale {
            Scale::None => return None,
            Scale::Group(std) => (std, "its group"),
            Scale::Batch(std) => (std, "the batch"),
        };
        let over = if std.ddof == 0 { "n".to_owned() } else { format!("n - {}", std.ddof) };
        let deviation = format!("s_i the standard deviation of the rewards of {whose} (over {over})");
        Some((format!("(s_i + {})", number(std.epsilon)), deviation))
    }
}

impl Delta {
    /// The advantage of a token, called `token`, from that of its response.
    pub fn equation(self, token: &str) -> String {
        match self {
            Delta::Constant => format!("{token} = A_i at every token"),
            Delta::Terminal => format!("{token} = A_i at the last token, 0 before it"),
        }
    }
}

impl Surrogate {
    /// The loss of a token with ratio `rho_t`, without `l_t =`.
    pub fn equation(&self) -> String {
        let clip =
            |low: f64, high: f64| format!("clip(rho_t, {}, {})", number(1.0 - low), number(1.0 + high));
        match *self {
            Surrogate::Clip { low, high } => format!("-min(rho_t delta_t, {} delta_t)", clip(low, high)),
            Surrogate::Printed { high } => format!("-min(rho_t, {}) delta_t", number(1.0 + high)),
            Surrogate::TwoSided { low, high, delta } => {
                format!("-min(min(rho_t, {}) delta_t, {} delta_t)", number(delta), clip(low, high))
            }
            Surrogate::Unclipped => "-rho_t delta_t".to_owned(),
            Surrogate::Detached { low, high } => {
                let weight = format!("sg(clip(rho_t, {}, {}))", number(low), number(high));
                format!("-{weight} delta_t log pi(a_t|s_t), the gradient taking sg(..) as constant")
            }
        }
    }
}

impl SoftClamp {
    /// `u_t = ..`, what the loss of a token is multiplied by.
    pub fn equation(self) -> String {
        let weight = match self.reading {
            Reading::Matrix => "sum_k E[t,k] v_k",
            Reading::Elementwise => "v_t sum_k E[t,k]",
            Reading::Inner => "sum_j v_j sum_k E[j,k]",
        };
        let squash = match self.squash {
            Squash::Sigmoid => "sigma",
            Squash::Tanh => "tanh",
        };
        let gradient = if self.gradient { "flows through v" } else { "takes v as constant" };
        format!("u_t = {weight}, v_t = 1 + {squash}(log pi(a_t|s_t) - 1); the gradient {gradient}")
    }
}

impl Kl {
    /// `kl_t = ..`.
    pub fn equation(self) -> &'static str {
        match self {
            Kl::K1 => "kl_t = d_t (k1), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K2 => "kl_t = d_t^2 / 2 (k2), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::K3 => "kl_t = exp(-d_t) - 1 + d_t (k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)",
            Kl::RatioK3 => {
                "kl_t = exp(x_t) (exp(-d_t) - 1 + d_t) (ratio times k3), d_t = log pi(a_t|s_t) - log pi_ref(a_t|s_t)"
            }
        }
    }
}

impl Reduction {
    /// `w_i = ..`, with the counts of a batch of this size.
    pub fn equation(self, size: &BatchSize) -> String {
        let (responses, longest) = (size.responses(), size.max_len);
        let all = responses * longest;
        match self {
            Reduction::PerResponse => {
                format!("w_i = 1/(B T_i) = 1/({responses} T_i); 1/{all} at T_i = {longest}")
            }
            Reduction::TokenMean => {
                format!("w_i = 1/sum_j T_j; 1/{all} when all {responses} responses have {longest} tokens")
            }
            Reduction::GroupTokenMean => format!(
                "w_i = 1/(N sum_j T_j) = 1/({} sum_j T_j), j in the group of i; 1/{all} when its {} responses have {longest} tokens",
                size.groups, size.group_size
            ),
            Reduction::Constant(l) => {
                let product = number(responses as f64 * l);
                format!("w_i = 1/(B L) = 1/({responses} x {}) = 1/{product}", number(l))
            }
        }
    }
}

impl Objective {
    /// The parts of the objective, for a batch of this size.
    pub fn parts(&self, size: &BatchSize) -> Equation {
        let policy = if self.unit_mean { "l_t / m_i" } else { "l_t" };
        let kl = self.kl.map_or(String::new(), |(_, beta)| format!(" + {} kl_t", number(beta)));
        let mut parts = vec![
            ("minimise", format!("L = sum_i w_i sum_t ( {policy}{kl} )")),
            ("weight", self.reduction.equation(size)),
        ];
        if self.mask_truncated {
            parts.push(("masked", "w_i = 0 for a response that was cut off".to_owned()));
        }
        parts.extend(self.update.equation(&self.surrogate.equation()));
        if self.unit_mean {
            let mean = "m_i = the mean weight of the response's tokens on-policy, so that they average 1";
            parts.push(("mean", mean.to_owned()));
        }
        parts.extend(self.assignment.equation("delta_t"));
        match self.kl {
            Some((kl, _)) => parts.push(("KL", kl.equation().to_owned())),
            None => parts.push(("KL", "none: beta = 0".to_owned())),
        }
        Equation { parts }
    }
}

#[cfg(test)]
mod tests;
