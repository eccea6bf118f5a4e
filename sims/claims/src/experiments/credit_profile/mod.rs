//! `credit_profile`: the on-policy weight of each token under every variant of GRPO-lambda.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{evaluate, group, on_policy_weights};
use crate::experiments::common::{average, difference, gap, largest, mean, norm};
use grpo_lambda::trace::Style;
use serde::Serialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "credit_profile",
    title: "How much does each token weigh under every variant of GRPO-λ?",
    claim: "\"A less rigorous explanation of ϵ-weight variant is that the loss at each step (token) essentially gets \
        reweighted implicitly with ϵ-trace. ϵ-weight does this reweighting of the loss explicitly.\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Appendix A.3; Section 3.2, Section 4.2, Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// The paper's KL coefficient (Table 2).
const BETA: f64 = 0.04;
const LEN: usize = 256;
/// The log-probability of every token of a flat response.
const FLAT: f64 = -0.5;

struct Numbers {
    variants: Vec<Weighed>,
    sizes: Vec<GradientSize>,
    /// Weights at `T = LEN`, `λ = Q`.
    trace: Vec<f64>,
    both: Vec<f64>,
    terminal: Vec<f64>,
    /// The paper's `w_t` times the soft clamp, at one log-probability for all tokens, without gradient through the
    /// clamp.
    weight: Vec<f64>,
    /// The profiles that are drawn.
    by_length: Vec<Profile>,
}

/// The weights of one variant at `T = LEN`.
struct Weighed {
    variant: Variant,
    weights: Vec<f64>,
    /// The largest difference of the weights from the closed form, relative to the largest weight.
    error: f64,
}

/// The size of the policy gradient at one length, against GRPO's.
#[derive(Default, Serialize)]
struct GradientSize {
    tokens: usize,
    lambda: f64,
    style: &'static str,
    /// Mean over tokens of `|∂ loss / ∂ log π|` over GRPO's.
    #[serde(rename = "mean_weight")]
    factor: f64,
    /// [`BETA`] over the factor.
    effective_beta: f64,
    /// The norm of the KL gradient over GRPO's.
    #[serde(rename = "kl_gradient_over_grpo")]
    kl: f64,
    /// The largest difference of the weights from geometric sums, relative to the first weight.
    #[serde(skip)]
    error: f64,
}

/// The weights of a variant over the tokens of a response.
struct Profile {
    tokens: usize,
    name: &'static str,
    weights: Vec<f64>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let logps = ragged_logps(LEN);
    let every = Variant::every();
    let mut variants = Vec::new();
    for (i, variant) in every.iter().enumerate() {
        variants.push(Weighed::new(variant, &logps)?);
        if i % 32 == 0 {
            (context.progress)(0.6 * i as f64 / every.len() as f64, "variants");
        }
    }
    let sizes = sizes()?;
    (context.progress)(0.8, "profiles");
    Ok(Numbers {
        variants,
        sizes,
        trace: on_policy_weights(&format!("lambda={Q}"), &logps)?,
        both: on_policy_weights(&format!("lambda={Q} style=both"), &logps)?,
        terminal: on_policy_weights(&format!("lambda={Q} delta=terminal"), &logps)?,
        weight: on_policy_weights(&format!("lambda={Q} update=weight soft_gradient=false"), &[FLAT; LEN])?,
        by_length: by_length()?,
    })
}

/// Log-probabilities between about -0.02 and -2.3; neighbours differ.
fn ragged_logps(len: usize) -> Vec<f64> {
    (0..len).map(|t| -0.02 - 0.19 * ((5 * t) % 13) as f64).collect()
}

impl Weighed {
    fn new(variant: &Variant, logps: &[f64]) -> anyhow::Result<Weighed> {
        let weights = on_policy_weights(&variant.settings(), logps)?;
        let predicted = variant.closed_form(logps);
        let error = gap(&weights, &predicted) / largest(predicted.iter().map(|w| w.abs()));
        Ok(Weighed { variant: variant.clone(), weights, error })
    }
}

fn sizes() -> anyhow::Result<Vec<GradientSize>> {
    let mut sizes = Vec::new();
    for style in [Style::Recent, Style::Both] {
        for lambda in [0.98, 0.99] {
            for len in [16, 32, 64, 128, 256, 512, 768, 1024, 2048] {
                sizes.push(GradientSize::new(style, lambda, len)?);
            }
        }
    }
    Ok(sizes)
}

impl GradientSize {
    fn new(style: Style, lambda: f64, len: usize) -> anyhow::Result<GradientSize> {
        let formula = geometric_sums(style, lambda, len);
        let style = match style {
            Style::Recent => "recent",
            Style::Both => "both",
        };
        let settings = format!("lambda={lambda} style={style}");
        let weights = on_policy_weights(&settings, &ragged_logps(len))?;
        let [policy, kl] = gradient_norms("grpo_lambda", &format!("clamp=none {settings}"), len)?;
        let [of_grpo, kl_of_grpo] = gradient_norms("grpo", "reduction=token_mean", len)?;
        let factor = policy / of_grpo;
        Ok(GradientSize {
            tokens: len,
            lambda,
            style,
            factor,
            effective_beta: BETA / factor,
            kl: kl / kl_of_grpo,
            error: gap(&weights, &formula) / formula[0],
        })
    }
}

/// The column sums of a trace matrix in closed form.
fn geometric_sums(style: Style, lambda: f64, len: usize) -> Vec<f64> {
    let sum = |n: usize| (1.0 - lambda.powi(n as i32)) / (1.0 - lambda);
    let column = |k: usize| match style {
        Style::Recent => sum(len - k),
        Style::Both => {
            sum(k.min(len - 1 - k) + 1) + (len - 1).saturating_sub(2 * k) as f64 * lambda.powi(k as i32)
        }
    };
    (0..len).map(column).collect()
}

/// The mean absolute component of the policy gradient of one response, and the Euclidean norm of its KL gradient.
fn gradient_norms(name: &str, settings: &str, len: usize) -> anyhow::Result<[f64; 2]> {
    let logps = vec![ragged_logps(len); 2];
    let mut pair = group(&[1.0, 0.0], &logps);
    for response in &mut pair.responses {
        response.ref_logps = Some(response.old_logps.iter().map(|l| l - 0.3).collect());
    }
    let gradient = |settings: &str| -> anyhow::Result<Vec<f64>> {
        Ok(evaluate(name, settings, &pair, &logps)?.dlogps.swap_remove(0))
    };
    let policy = gradient(settings)?;
    let total = gradient(&format!("{settings} beta={BETA}"))?;
    Ok([average(policy.iter().map(|p| p.abs())), norm(&difference(&total, &policy))])
}

fn by_length() -> anyhow::Result<Vec<Profile>> {
    let mut profiles = Vec::new();
    for len in [256, 768] {
        for (name, settings) in [
            ("ϵ-trace, recent", ""),
            ("ϵ-trace, both", "style=both"),
            ("ϵ-weight, recent", "update=weight soft_gradient=false"),
            ("ϵ-weight, both", "update=weight soft_gradient=false style=both"),
            ("TD errors of a constant critic", "delta=terminal"),
        ] {
            let weights = on_policy_weights(&format!("lambda={Q} {settings}"), &vec![FLAT; len])?;
            profiles.push(Profile { tokens: len, name, weights });
        }
    }
    Ok(profiles)
}

/// `γλ` of every variant.
pub(super) const Q: f64 = 0.99;

#[derive(Clone)]
pub(super) struct Variant {
    both: bool,
    pub(super) matrix: &'static str,
    pub(super) normalise: &'static str,
    terminal: bool,
    /// `None` for the trace update; else the variant of the soft clamp, and true if the gradient flows through it.
    pub(super) weight: Option<(&'static str, bool)>,
}

impl Variant {
    pub(super) fn every() -> Vec<Variant> {
        let mut all = Vec::new();
        let soft =
            ["matrix", "elementwise", "inner"].into_iter().flat_map(|r| [Some((r, true)), Some((r, false))]);
        for weight in std::iter::once(None).chain(soft) {
            for both in [false, true] {
                for matrix in ["equation", "row_index", "as_printed"] {
                    for normalise in ["none", "rows", "mean"] {
                        for terminal in [false, true] {
                            all.push(Variant { both, matrix, normalise, terminal, weight });
                        }
                    }
                }
            }
        }
        all
    }

    pub(super) fn settings(&self) -> String {
        let update = match self.weight {
            None => "update=trace".to_owned(),
            Some((variant, gradient)) => {
                format!("update=weight soft_clamp={variant} soft_gradient={gradient}")
            }
        };
        format!(
            "lambda={Q} style={} matrix={} normalise={} delta={} {update}",
            if self.both { "both" } else { "recent" },
            self.matrix,
            self.normalise,
            if self.terminal { "terminal" } else { "constant" }
        )
    }

    /// The weights from formulas alone, with the matrix written out: nothing of the crate's traces is used.
    pub(super) fn closed_form(&self, logps: &[f64]) -> Vec<f64> {
        let len = logps.len();
        let m = self.trace_matrix(len);
        let delta: Vec<f64> = (0..len).map(|t| f64::from(!self.terminal || t + 1 == len)).collect();
        let column = |k: usize, y: &[f64]| (0..len).map(|t| m[t][k] * y[t]).sum::<f64>();
        let weight = |k: usize| match self.weight {
            None => column(k, &delta),
            Some((variant, gradient)) => {
                // v = 1 + σ(log π - 1) and v' = σ (1 - σ)
                let sigma = |t: usize| 1.0 / (1.0 + (1.0 - logps[t]).exp());
                let (v, slope) = (|t| 1.0 + sigma(t), |t| sigma(t) * (1.0 - sigma(t)));
                let row_sum = |t: usize| m[t].iter().sum::<f64>();
                let (front, through) = match variant {
                    "matrix" => ((0..len).map(|j| m[k][j] * v(j)).sum(), column(k, &delta)),
                    "elementwise" => (row_sum(k) * v(k), row_sum(k) * delta[k]),
                    // The inner product.
                    _ => ((0..len).map(|t| row_sum(t) * v(t)).sum(), row_sum(k) * delta.iter().sum::<f64>()),
                };
                delta[k] * front + f64::from(gradient) * slope(k) * through
            }
        };
        let weights: Vec<f64> = (0..len).map(weight).collect();
        let mass = if self.normalise == "mean" { mean(&weights) } else { 1.0 };
        weights.iter().map(|w| w / mass).collect()
    }

    /// The matrix of the trace, its rows normalised if the variant says so.
    fn trace_matrix(&self, len: usize) -> Vec<Vec<f64>> {
        let power = |n: usize| Q.powi(n as i32);
        let entry = |t: usize, k: usize| match (self.matrix, self.both) {
            _ if k > t => 0.0,
            _ if k == t => 1.0,
            ("as_printed", false) => power(len - 1 - k),
            ("as_printed", true) => power(len - 1 - k).max(power(k)),
            (_, false) => power(t - k),
            (_, true) => power(t - k).max(power(k)),
        };
        let mut m: Vec<Vec<f64>> = (0..len).map(|t| (0..len).map(|k| entry(t, k)).collect()).collect();
        if self.normalise == "rows" {
            for row in &mut m {
                let sum: f64 = row.iter().sum();
                row.iter_mut().for_each(|x| *x /= sum);
            }
        }
        m
    }
}
