//! `lambda_direction`: the direction in which λ trades bias for variance.
//!
//! The policy-gradient estimator of one response with generalised advantages,
//!
//! ```text
//! g(λ) = Σ_t A_t ∇log π(a_t|s_t),      A_t = Σ_l λ^l δ_{t+l},      δ_t = r_t + V̂(s_{t+1}) - V̂(s_t),   γ = 1
//! ```
//! has its mean and covariance computed by enumerating every response, for critics V̂ from exact to useless.

mod findings;
mod moments;
mod shown;

use grpo_lambda::advantage::gae;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::zoo::Random;

use crate::experiment::{Context, Experiment, Parts};
use crate::experiments::common::mdp::{Mdp, random_mdps};
use crate::experiments::common::methods::method;
use crate::experiments::common::vectors::{EXACT, difference, gap, largest, norm};
use crate::sentences::SentenceId;
use findings::findings;
use moments::{CRITICS, critic, moments, spread_formula};
use shown::{figures, tables};

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "lambda_direction",
    title: "In which direction does λ trade bias for variance?",
    claim: SentenceId::BiasAndVariance.sentence().statement,
    source: "GRPO-lambda, appendix A.2, after Eq. 16",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

/// λ on a grid of twentieths; every fifth of them is reported.
const STEPS: usize = 20;
const REPORTED: [usize; 5] = [0, 5, 10, 15, 20];
/// The least change of a curve that counts as a rise or a fall.
const VISIBLE: f64 = 1e-9;

struct Numbers {
    /// Random MDPs.
    random: usize,
    /// MDPs of the zoo, which come after the random ones.
    named: Vec<String>,
    /// `[critic][mdp]`.
    curves: Vec<Vec<Curve>>,
    exact: ExactCritic,
    constant: ConstantCritic,
}

impl Numbers {
    fn mdps(&self) -> usize {
        self.random + self.named.len()
    }
}

/// The point `i` of the grid.
fn lambda(i: usize) -> f64 {
    i as f64 / STEPS as f64
}

/// Bias and variance against λ of one critic on one MDP.
#[derive(Clone)]
struct Curve {
    /// `|E[g] - ∇J|`.
    bias: Vec<f64>,
    variance: Vec<f64>,
    /// `|∇J|`.
    gradient: f64,
}

impl Curve {
    fn new(oracle: &Oracle, critic: &[f64]) -> Curve {
        let gradient = oracle.grad_j();
        let at = |i: usize| {
            let m = moments(oracle, critic, lambda(i));
            (norm(&difference(&m.mean, &gradient)), m.variance)
        };
        let (bias, variance) = (0..=STEPS).map(at).unzip();
        Curve { bias, variance, gradient: norm(&gradient) }
    }

    /// The bias for tables and figures: rounding errors are 0, so that the committed numbers do not depend on the machine.
    fn visible_bias(&self, i: usize) -> f64 {
        without_rounding(self.bias[i])
    }

    /// The bias relative to the gradient, for tables.
    fn relative_bias(&self, i: usize) -> f64 {
        without_rounding(self.bias[i] / self.gradient)
    }
}

fn without_rounding(x: f64) -> f64 {
    if x.abs() < EXACT { 0.0 } else { x }
}

/// The exact critic: largest bias, largest gap to the variance formula, largest fall of a `Var(A_t|s,a)` with λ.
#[derive(Default)]
struct ExactCritic {
    bias: f64,
    formula: f64,
    fall: f64,
}

/// The constant critic.
struct ConstantCritic {
    /// The largest gap between `A_t` at λ = 1 and `r - V0`.
    advantage: f64,
    /// The largest gap between the expected updates of GRPO-lambda with the TD errors of a constant critic at λ = 1 and of centred GRPO.
    update: f64,
    /// The least share of tokens before the last that λ = 0 gives no credit.
    silent: f64,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let random = if context.full { 1000 } else { 200 };
    let mut mdps = random_mdps(random, context.seed, Random { horizon: 4, ..Random::default() })?;
    let constant = ConstantCritic::new(&mdps)?;
    for name in ["lucky_guess", "pivot", "noisy", "chain", "eos_hazard_dependent"] {
        mdps.push(Mdp::named(name)?);
    }
    let mut curves = Vec::new();
    for (i, name) in CRITICS.into_iter().enumerate() {
        (context.progress)(i as f64 / CRITICS.len() as f64, name);
        let curve = |(j, mdp): (usize, &Mdp)| {
            let oracle = mdp.oracle();
            Curve::new(&oracle, &critic(name, &oracle, context.seed + j as u64))
        };
        curves.push(mdps.iter().enumerate().map(curve).collect());
    }
    let mut exact = ExactCritic::default();
    mdps.iter().for_each(|mdp| exact.add(&mdp.oracle()));
    let named = mdps[random..].iter().map(|mdp| mdp.name.clone()).collect();
    Ok(Numbers { random, named, curves, exact, constant })
}

impl ExactCritic {
    fn add(&mut self, oracle: &Oracle) {
        let gradient = oracle.grad_j();
        let mut before: Option<Vec<f64>> = None;
        for i in REPORTED {
            let m = moments(oracle, &oracle.v, lambda(i));
            let bias = gap(&m.mean, &gradient).max(gap(&m.credit, &oracle.advantages()));
            self.bias = self.bias.max(bias);
            self.formula = self.formula.max(gap(&m.spread, &spread_formula(oracle, lambda(i))));
            if let Some(before) = &before {
                self.fall = self.fall.max(largest(before.iter().zip(&m.spread).map(|(b, s)| b - s)));
            }
            before = Some(m.spread);
        }
    }
}

impl ConstantCritic {
    fn new(mdps: &[Mdp]) -> anyhow::Result<ConstantCritic> {
        let settings = "delta=terminal lambda=1 scale=none clamp=none reduction=response_sum";
        let terminal = method("grpo_lambda", settings)?;
        let centred = method("grpo", "scale=none reduction=response_sum")?;
        let mut found = ConstantCritic { advantage: 0.0, update: 0.0, silent: 1.0 };
        for mdp in mdps {
            found.add_advantages(&mdp.oracle());
            let situation = Situation::on_policy(&mdp.tree, &mdp.policy, 4);
            let a = implied(terminal.as_ref(), &situation)?.update;
            found.update = found.update.max(gap(&a, &implied(centred.as_ref(), &situation)?.update));
        }
        Ok(found)
    }

    fn add_advantages(&mut self, oracle: &Oracle) {
        let tree = oracle.tree;
        for leaf in tree.leaves() {
            let len = tree.leaf_len(leaf);
            let mut rewards = vec![0.0; len];
            rewards[len - 1] = tree.reward(leaf);
            let values = vec![oracle.j; len];
            let one = gae(&rewards, &values, 1.0, 1.0);
            self.advantage = self.advantage.max(gap(&one, &vec![tree.reward(leaf) - oracle.j; len]));
            let zero = gae(&rewards, &values, 1.0, 0.0);
            let idle = zero[..len - 1].iter().filter(|a| **a == 0.0).count();
            self.silent = self.silent.min(if len > 1 { idle as f64 / (len - 1) as f64 } else { 1.0 });
        }
    }
}
