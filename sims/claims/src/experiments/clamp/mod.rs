//! `clamp`: the effect of clamping advantages at -0.1 on a group, a prompt and a direction.

mod findings;
mod prompt;
mod shown;

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage as Outcome, Scale, Std};
use grpo_lambda_mdp::expected::{Expected, ExpectedError, Situation, compare, cosine, implied};
use grpo_lambda_mdp::zoo::{self, Family, Random, RandomRewards};
use grpo_lambda_mdp::{Oracle, RewardKind, Tabular, Tree};
use serde::Serialize;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::methods::method;
use findings::findings;
use prompt::{CLAMPS, GROUP, PromptWeight, as_setting, prompt_weights, setting};
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp",
    title: "What does clamping the advantage at -0.1 change?",
    claim: "\"Negative returns encourage π to move as far as possible from the corresponding trajectory, which can act as a destructive force on model parameters. [...] To mitigate this issue, we adopt a similar approach, i.e., we clamp negative advantages to a small value (-0.1 in our experiments).\"",
    source: "GRPO-lambda (arXiv 2510.00194v1), Section 4.2 \"Clamping the advantage function\"; Algorithms 1 and 2",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    sums: Vec<Sum>,
    prompts: Vec<PromptWeight>,
    effects: Vec<ClampEffect>,
}

/// The sum of the advantages of a group of eight.
#[derive(Serialize)]
struct Sum {
    #[serde(rename = "right_of_8")]
    right: usize,
    #[serde(serialize_with = "as_setting")]
    clamp: Option<f64>,
    #[serde(rename = "sum_of_advantages")]
    sum: f64,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let sums = (0..=GROUP).flat_map(|right| CLAMPS.map(|clamp| sum_of_advantages(right, clamp))).collect();
    (context.progress)(0.1, "prompt weights");
    let prompts = prompt_weights()?;
    (context.progress)(0.4, "directions");
    Ok(Numbers { sums, prompts, effects: directions()? })
}

fn sum_of_advantages(right: usize, clamp: Option<f64>) -> Sum {
    let z_scores = Outcome { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards: Vec<Option<f64>> = (0..GROUP).map(|i| Some(f64::from(i < right))).collect();
    Sum { right, clamp, sum: z_scores.of_batch(&[rewards])[0].iter().sum() }
}

/// Token weights: name, method, settings.
const TOKEN_WEIGHTS: [(&str, &str, &str); 4] = [
    ("uniform", "grpo", ""),
    ("recent", "grpo_lambda", "lambda=0.99"),
    ("both", "grpo_lambda", "lambda=0.99 style=both"),
    ("ϵ-weight", "grpo_lambda", "lambda=0.99 update=weight"),
];

/// The effect of the clamp on the expected update of one MDP under some token weights.
#[derive(Serialize)]
struct ClampEffect {
    mdp: String,
    /// `binary` (0 or 1) or `real`.
    rewards: &'static str,
    #[serde(rename = "token_weights")]
    weights: &'static str,
    /// The cosine of the clamped and the unclamped expected update.
    #[serde(rename = "cosine_clamped_unclamped")]
    cosine: f64,
    /// The cosine of either with `∇J`.
    #[serde(rename = "cosine_grad_j_unclamped")]
    unclamped_with_gradient: f64,
    #[serde(rename = "cosine_grad_j_clamped")]
    clamped_with_gradient: f64,
}

impl ClampEffect {
    fn binary(&self) -> bool {
        self.rewards == "binary"
    }

    fn uniform(&self) -> bool {
        self.weights == TOKEN_WEIGHTS[0].0
    }
}

fn directions() -> anyhow::Result<Vec<ClampEffect>> {
    let mut all = Vec::new();
    for (mdp, tree, policy) in mdps()? {
        let oracle = Oracle::new(&tree, &policy);
        for (weights, name, settings) in TOKEN_WEIGHTS {
            let [free, clamped] = CLAMPS.map(|clamp| expected(name, settings, clamp, &tree, &policy));
            let (Some(free), Some(clamped)) = (free?, clamped?) else { continue };
            all.push(ClampEffect {
                mdp: mdp.clone(),
                rewards: if tree.reward_kind() == RewardKind::Binary { "binary" } else { "real" },
                weights,
                cosine: cosine(&free.update, &clamped.update),
                unclamped_with_gradient: compare(&free, &oracle).cosine,
                clamped_with_gradient: compare(&clamped, &oracle).cosine,
            });
        }
    }
    Ok(all)
}

/// The MDPs of the zoo that are small enough, and one with real rewards, undiscounted.
fn mdps() -> anyhow::Result<Vec<(String, Tree, Tabular)>> {
    let mut mdps = Vec::new();
    for entry in zoo::all() {
        let tree = (entry.build)();
        if tree.leaf_count() <= 600 {
            let policy = (entry.initial)(&tree);
            mdps.push((entry.name.to_owned(), tree.with_gamma(1.0), policy));
        }
    }
    let real = Random { seed: 1, symbols: 2, horizon: 2, rewards: RandomRewards::Real, ..Random::default() };
    let tree = real.tree()?;
    let policy = real.initial(&tree);
    mdps.push(("random, real rewards".to_owned(), tree.with_gamma(1.0), policy));
    Ok(mdps)
}

/// The expected update; `None` if the exact sum would take too long.
fn expected(
    name: &str,
    settings: &str,
    clamp: Option<f64>,
    tree: &Tree,
    policy: &Tabular,
) -> anyhow::Result<Option<Expected>> {
    let settings = format!("reduction=constant max_length=1 clamp={} {settings}", setting(clamp));
    let method = method(name, &settings)?;
    match implied(method.as_ref(), &Situation::on_policy(tree, policy, GROUP)) {
        Ok(expected) => Ok(Some(expected)),
        Err(ExpectedError::TooMany { .. }) => Ok(None),
        Err(error) => Err(error.into()),
    }
}
