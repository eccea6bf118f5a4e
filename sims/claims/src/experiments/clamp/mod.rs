//! `clamp`: the effect of clamping advantages at -0.1 on a group, a prompt and a direction.

mod shown;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, method, zoo_mdps};
use grpo_lambda::advantage::{Baseline, OutcomeAdvantage as Outcome, Scale, Std};
use grpo_lambda_mdp::expected::{Expected, ExpectedError, Situation, compare, cosine, implied};
use grpo_lambda_mdp::zoo::{Random, RandomRewards};
use grpo_lambda_mdp::{Oracle, RewardKind, Rules, Tabular, Tree};
use serde::{Serialize, Serializer};
use shown::{figures, findings, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "clamp",
    title: "What does clamping the advantage at -0.1 change?",
    claim: "\"Negative returns encourage π to move as far as possible from the corresponding trajectory, which can \
        act as a destructive force on model parameters. [...] To mitigate this issue, we adopt a similar approach, \
        i.e., we clamp negative advantages to a small value (-0.1 in our experiments).\"",
    source: "GRPO-λ, Section 4.2 \"Clamping the advantage function\"; Algorithms 1 and 2",
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
    for Mdp { name: mdp, tree, policy } in mdps()? {
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
fn mdps() -> anyhow::Result<Vec<Mdp>> {
    let mut mdps = zoo_mdps(600)?;
    let real = Random { seed: 1, symbols: 2, horizon: 2, rewards: RandomRewards::Real, ..Random::default() };
    mdps.push(Mdp { name: "random, real rewards".into(), ..Mdp::random(real)? });
    Ok(mdps.into_iter().map(|mdp| Mdp { tree: mdp.tree.with_gamma(1.0), ..mdp }).collect())
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

/// Without the clamp, and with the paper's.
pub(super) const CLAMPS: [Option<f64>; 2] = [None, Some(-0.1)];
pub(super) const GROUP: usize = 8;
/// A group large enough for the limit.
pub(super) const LARGE: usize = 128;
pub(super) const PROBABILITIES: [f64; 19] =
    [0.01, 0.02, 0.05, 0.1, 0.15, 0.2, 0.25, 0.3, 0.4, 0.5, 0.6, 0.7, 0.75, 0.8, 0.85, 0.9, 0.95, 0.98, 0.99];

/// One prompt, answered by one token that is right with probability `p`.
#[derive(Clone, Serialize)]
pub(super) struct PromptWeight {
    pub(super) p: f64,
    pub(super) group: usize,
    #[serde(serialize_with = "as_setting")]
    pub(super) clamp: Option<f64>,
    /// The multiple of `∇p` by the oracle.
    #[serde(rename = "weight_by_oracle")]
    pub(super) by_oracle: f64,
    /// The multiple by the binomial formula.
    #[serde(rename = "weight_by_formula")]
    pub(super) by_formula: f64,
    /// The limit of the formula for large groups.
    #[serde(rename = "large_group_limit")]
    pub(super) limit: f64,
    pub(super) signal_to_noise: f64,
    /// The cosine of the expected update with `∇p`.
    #[serde(skip)]
    pub(super) cosine: f64,
}

impl PromptWeight {
    pub(super) fn formula_error(&self) -> f64 {
        (self.by_oracle - self.by_formula).abs() / self.by_formula
    }

    pub(super) fn limit_error(&self) -> f64 {
        (self.by_oracle - self.limit).abs() / self.limit
    }
}

/// A clamp as a method's setting.
pub(super) fn setting(clamp: Option<f64>) -> String {
    clamp.map_or("none".to_owned(), |c| c.to_string())
}

fn as_setting<S: Serializer>(clamp: &Option<f64>, serializer: S) -> Result<S::Ok, S::Error> {
    serializer.serialize_str(&setting(*clamp))
}

fn prompt_weights() -> anyhow::Result<Vec<PromptWeight>> {
    let clamped = PROBABILITIES.into_iter().flat_map(|p| CLAMPS.map(|clamp| (p, clamp)));
    clamped.flat_map(|(p, clamp)| [GROUP, 32, LARGE].map(|group| weight(p, group, clamp))).collect()
}

fn weight(p: f64, group: usize, clamp: Option<f64>) -> anyhow::Result<PromptWeight> {
    let (tree, policy) = coin(p)?;
    let method = method("grpo", &format!("reduction=response_sum clamp={}", setting(clamp)))?;
    let expected = implied(method.as_ref(), &Situation::on_policy(&tree, &policy, group))?;
    let found = compare(&expected, &Oracle::new(&tree, &policy));
    Ok(PromptWeight {
        p,
        group,
        clamp,
        by_oracle: found.scale,
        by_formula: formula(p, group, clamp),
        limit: large_group(p, clamp),
        signal_to_noise: found.signal_to_noise,
        cosine: found.cosine,
    })
}

/// One token, right with probability `p`.
fn coin(p: f64) -> anyhow::Result<(Tree, Tabular)> {
    let tree = Rules::new(["right", "wrong", "EOS"], 1)
        .build(|_| vec![0, 1], |response, _| f64::from(response == [0]))?;
    let policy = Tabular::from_weights(&tree, |_, edge| if edge == 0 { p } else { 1.0 - p });
    Ok((tree, policy))
}

/// `w_G(p) = Σ_k Bin(k; G-1, p) [A(k+1 right, own right) - A(k right, own wrong)]`, with z-scores written out.
fn formula(p: f64, group: usize, clamp: Option<f64>) -> f64 {
    let n = group as f64;
    let advantage = |right: usize, own: f64| {
        if right == 0 || right == group {
            return 0.0;
        }
        let k = right as f64;
        let std = (k * (n - k) / (n * (n - 1.0))).sqrt() + 1e-4;
        ((own - k / n) / std).max(clamp.unwrap_or(f64::NEG_INFINITY))
    };
    // In logarithms: (1-p)^(G-1) alone underflows in large groups.
    let mut log_binomial = (n - 1.0) * (1.0 - p).ln();
    let mut sum = 0.0;
    for k in 0..group {
        sum += log_binomial.exp() * (advantage(k + 1, 1.0) - advantage(k, 0.0));
        log_binomial += ((n - 1.0 - k as f64) / (k as f64 + 1.0) * p / (1.0 - p)).ln();
    }
    sum
}

/// The limit of [`formula`] for large groups.
fn large_group(p: f64, clamp: Option<f64>) -> f64 {
    let wrong = (p / (1.0 - p)).sqrt();
    ((1.0 - p) / p).sqrt() + clamp.map_or(wrong, |c| wrong.min(-c))
}
