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
use crate::objective::{Objective, Update};
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

/// An objective in parts, each with the name of what it defines.
///
/// In all of them `i` is a response of `T_i` tokens, `t` and `k` are tokens from 0, and `L` is minimised.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Equation {
    /// Name and definition, outermost first.
    pub parts: Vec<(&'static str, String)>,
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

impl Outcome {
    /// `A_i = ..`.
    pub fn equation(&self) -> String {
        let baseline = match self.baseline {
            Baseline::GroupMean => "the mean reward of its group",
            Baseline::LeaveOneOut => "the mean reward of the other responses of its group",
            Baseline::BatchMean => "the mean reward of the batch",
        };
        let (centred, scale) = match self.scale {
            Scale::None => ("r_i - b_i".to_owned(), String::new()),
            Scale::Group(std) | Scale::Batch(std) => {
                let whose = if matches!(self.scale, Scale::Group(_)) { "its group" } else { "the batch" };
                let over = if std.ddof == 0 { "n".to_owned() } else { format!("n - {}", std.ddof) };
                let centred = format!("(r_i - b_i) / (s_i + {})", number(std.epsilon));
                (centred, format!(", s_i the standard deviation of {whose} (over {over})"))
            }
        };
        let value = match self.clamp {
            Some(clamp) => format!("max({centred}, {})", number(clamp)),
            None => centred,
        };
        format!("A_i = {value}, b_i = {baseline}{scale}; 0 where all rewards agree")
    }
}

impl Delta {
    /// `delta_t = ..`.
    pub fn equation(self) -> &'static str {
        match self {
            Delta::Constant => "delta_t = A_i at every token",
            Delta::Terminal => "delta_t = A_i at the last token, 0 before it",
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
        let loss = self.surrogate.equation();
        let log_ratio = "x_t = log pi(a_t|s_t) - log pi_old(a_t|s_t)";
        let mut parts = vec![
            ("minimise", format!("L = sum_i w_i sum_t ( {policy}{kl} )")),
            ("weight", self.reduction.equation(size)),
        ];
        if self.mask_truncated {
            parts.push(("masked", "w_i = 0 for a response that was cut off".to_owned()));
        }
        match &self.update {
            Update::Trace(trace) => parts.extend([
                ("policy", format!("l_t = {loss}")),
                ("ratio", format!("rho_t = exp(z_t), z_t = sum_k E[t,k] x_k, {log_ratio}")),
                ("trace", trace.equation()),
            ]),
            Update::Weight(trace, clamp) => parts.extend([
                ("policy", format!("l_t = u_t * {loss}")),
                ("ratio", format!("rho_t = exp(x_t), {log_ratio}")),
                ("front", clamp.equation()),
                ("trace", trace.equation()),
            ]),
        }
        if self.unit_mean {
            let mean = "m_i = the mean weight of the response's tokens on-policy, so that they average 1";
            parts.push(("mean", mean.to_owned()));
        }
        parts.push(("credit", self.delta.equation().to_owned()));
        parts.push(("advantage", self.outcome.equation()));
        match self.kl {
            Some((kl, _)) => parts.push(("KL", kl.equation().to_owned())),
            None => parts.push(("KL", "none: beta = 0".to_owned())),
        }
        Equation { parts }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::{Configured, REGISTRY, parse};
    use crate::settings::{Kind, Param};

    const SIZE: BatchSize = BatchSize { groups: 16, group_size: 8, max_len: 64 };

    fn text(method: &str, settings: &str) -> String {
        let configured = parse(method, settings).unwrap_or_else(|e| panic!("{method} {settings}: {e}"));
        shown(&configured)
    }

    fn shown(configured: &Configured) -> String {
        let name = configured.spec.name;
        let equation = configured.method.equation(&SIZE);
        equation.unwrap_or_else(|| panic!("{name} does not describe itself")).to_string()
    }

    #[test]
    fn the_numbers_shown_are_the_settings() {
        for (method, settings, expected) in [
            (
                "grpo",
                "",
                &["1/(128 T_i); 1/8192 at T_i = 64", "(r_i - b_i) / (s_i + 0.0001)", "over n - 1"][..],
            ),
            ("grpo", "epsilon_low=0.3 epsilon_high=0.28", &["clip(rho_t, 0.7, 1.28)", "none: beta = 0"]),
            ("grpo", "beta=0.04 kl=k2", &["( l_t + 0.04 kl_t )", "d_t^2 / 2"]),
            (
                "dr_grpo",
                "max_length=100",
                &["1/(128 x 100) = 1/12800", "A_i = r_i - b_i, b_i = the mean reward of its"],
            ),
            ("rloo", "", &["1/(128 x 1) = 1/128", "of the other responses", "l_t = -rho_t delta_t"]),
            (
                "grpo_lambda",
                "lambda=0.9 gamma=0.5",
                &[
                    "E[t,k] = 0.45^(t-k) for k <= t",
                    "max((r_i - b_i) / (s_i + 0.0001), -0.1)",
                    "1/sum_j T_j; 1/8192",
                ],
            ),
            ("grpo_lambda", "style=both lambda=0.9", &["max(0.9^(t-k), 0.9^k)"]),
            (
                "grpo_lambda",
                "matrix=as_printed matrix_length=99 floor=0.01 lambda=0.9",
                &["max(0.01, 0.9^(n-k)) for k < t", "n = 98"],
            ),
            (
                "grpo_lambda",
                "clip=two_sided clip_max=3",
                &["min(min(rho_t, 3) delta_t, clip(rho_t, 0.8, 1.2)"],
            ),
            ("grpo_lambda", "clip=printed epsilon_high=0.5", &["-min(rho_t, 1.5) delta_t"]),
            ("grpo_lambda", "update=weight", &["u_t = sum_k E[t,k] v_k", "1 + sigma(log pi(a_t|s_t) - 1)"]),
            ("grpo_lambda", "normalise=mean", &["l_t / m_i"]),
            ("grpo_lambda", "normalise=rows", &["each row divided by its sum"]),
            ("grpo_lambda", "clamp=-0.25 std_preset=deepseekmath", &["(s_i + 0), -0.25)", "(over n)"]),
        ] {
            let text = text(method, settings);
            for part in expected {
                assert!(text.contains(part), "{method} {settings}: no {part:?} in\n{text}");
            }
        }
    }

    /// Values of a setting other than its default.
    fn others(p: &Param) -> Vec<String> {
        let inside = |min: f64, max: f64| match (min.is_finite(), max.is_finite()) {
            (true, true) => min + 0.618 * (max - min),
            (true, false) => min + 5.25,
            (false, true) => max - 0.618,
            (false, false) => 0.618,
        };
        match p.kind {
            Kind::Number { min, max } | Kind::OptionalNumber { min, max } => {
                vec![inside(min, max).to_string()]
            }
            Kind::Choice(words) => words.iter().map(|w| (*w).to_owned()).collect(),
            Kind::Flag => vec!["true".to_owned(), "false".to_owned()],
        }
        .into_iter()
        .filter(|v| *v != p.default)
        .collect()
    }

    /// Whatever is set and has an effect is seen: a method whose description leaves a setting out fails here.
    #[test]
    fn every_setting_with_an_effect_shows() {
        for spec in REGISTRY {
            let params = (spec.params)();
            for p in &params {
                let mut given = String::new();
                if let Some((key, idle)) = p.idle_under {
                    let other = params.iter().find(|o| o.key == key).expect("declared");
                    if idle.contains(&other.default.as_str()) {
                        let awake = others(other).into_iter().find(|v| !idle.contains(&v.as_str()));
                        given = format!("{key}={} ", awake.expect("a value under which it has an effect"));
                    }
                }
                let before = text(spec.name, &given);
                for value in others(p) {
                    // The presets' own ddof, spelt out.
                    if p.key == "std_ddof" && value == "1" {
                        continue;
                    }
                    let settings = format!("{given}{}={value}", p.key);
                    assert_ne!(text(spec.name, &settings), before, "{}: {settings} does not show", spec.name);
                }
            }
        }
    }

    #[test]
    fn a_trace_is_shown_as_its_weights_are() {
        let len = 7;
        let q: f64 = 0.5;
        for (settings, shown, entry) in [
            (
                "",
                "0.5^(t-k) for k <= t",
                Box::new(|t: usize, k: usize| q.powi((t - k) as i32)) as Box<dyn Fn(_, _) -> f64>,
            ),
            (
                "style=both",
                "max(0.5^(t-k), 0.5^k)",
                Box::new(|t, k| q.powi((t - k) as i32).max(q.powi(k as i32))),
            ),
            (
                "matrix=row_index floor=0.2",
                "max(0.2, 0.5^(t-k)) for k <= t",
                Box::new(|t, k| q.powi((t - k) as i32).max(0.2)),
            ),
        ] {
            assert!(text("grpo_lambda", &format!("lambda=0.5 {settings}")).contains(shown), "{shown}");
            // The loss off policy at advantage 1 without clipping: sum_t exp(z_t), so its slope in x_k at 0 is the column sum.
            let sums =
                parse("grpo_lambda", &format!("lambda=0.5 clamp=none clip=none scale=none {settings}"));
            let method = sums.expect("valid").method;
            let response = |reward| crate::group::Response::graded(vec![-1.0; len], reward);
            let group = crate::group::Group { responses: vec![response(1.0), response(0.0)] };
            let batch = crate::methods::evaluate(method.as_ref(), &[group], &vec![vec![-1.0; len]; 2]);
            for k in 0..len {
                let column: f64 = (k..len).map(|t| entry(t, k)).sum();
                let found = -batch.dlogps[0][k] * (2 * len) as f64 / 0.5;
                assert!((found - column).abs() < 1e-12, "{settings} {k}: {found} {column}");
            }
        }
    }
}
