//! `credit_profile`: the on-policy weight of each token under every variant of GRPO-lambda.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{evaluate, group, on_policy_weights};
use crate::experiments::common::{average, difference, norm};
use grpo_lambda::trace::Style;
use serde::Serialize;
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "credit_profile",
    title: "How much does each token weigh under every variant of GRPO-λ?",
    claim: "\"A less rigorous explanation of ϵ-weight variant is that the loss at each step (token) essentially gets \
        reweighted implicitly with ϵ-trace. ϵ-weight does this reweighting of the loss explicitly.\"",
    source: "GRPO-λ, Appendix A.3; Section 3.2, Section 4.2, Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// The paper's KL coefficient (Table 2).
const BETA: f64 = 0.04;
const LEN: usize = 256;
/// The log-probability of every token of a flat response.
const FLAT: f64 = -0.5;

struct Numbers {
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
}

/// The weights of a variant over the tokens of a response.
struct Profile {
    tokens: usize,
    name: &'static str,
    weights: Vec<f64>,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let logps = ragged_logps(LEN);
    let sizes = sizes()?;
    (context.progress)(0.8, "profiles");
    Ok(Numbers {
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
        let style = match style {
            Style::Recent => "recent",
            Style::Both => "both",
        };
        let settings = format!("lambda={lambda} style={style}");
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
        })
    }
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
