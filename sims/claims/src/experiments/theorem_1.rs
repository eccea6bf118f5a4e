//! `theorem_1`: the forward and the backward view of GAE are the same sum.

use crate::experiment::{Context, Experiment, Finding, Parts};
use crate::experiments::common::claim::{claim, quoted};
use crate::experiments::common::{EXACT, gap, largest, noise, norm, rounding_error, short, stream};
use crate::figure::{Axis, Figure, Panel};
use crate::sentences::SentenceId;
use grpo_lambda::advantage::{Delta, gae, td_errors};
use grpo_lambda::trace::{Recent, Trace};
use grpo_lambda_mdp::{EdgeId, Oracle, Tree, zoo};
use grpo_lambda_stats::table::Table;
use rand_chacha::ChaCha8Rng;
use serde::Serialize;

pub(super) static EXPERIMENT: Experiment = Experiment {
    id: "theorem_1",
    title: "Can GAE's policy gradient be written as TD errors times traces?",
    claim: "\"The policy gradient estimate ĝ using traces from generalized advantage estimation A_GAE can be \
        re-parameterized with a critic-free TD-error δ_t such that ĝ = Σ_{t=0..∞} A_GAE(s_t) ∇_θ log π_θ(a_t|s_t) = \
        Σ_{t=0..∞} δ_t Σ_{l=0..t} (γλ)^l ∇_θ log π_θ(a_{t-l}|s_{t-l}).\"",
    source: "GRPO-λ, Theorem 1; Appendix A.2, Eq. 6-16",
    run: |context| Parts { measure, findings, tables, figures }.report(context),
};

struct Numbers {
    /// MDPs with policy gradients.
    mdps: usize,
    on_mdps: Vec<OnMdp>,
    lengths: Vec<Length>,
}

/// Both sides for random numbers of one length.
#[derive(Default, Serialize)]
struct Length {
    q: f64,
    tokens: usize,
    /// The largest difference, relative to the sum of magnitudes.
    relative_difference: f64,
    /// `Σ δ_t / (r - V(s_0))`, with the TD errors of a random critic.
    return_counted_td: f64,
    /// `Σ δ_t / (r - V(s_0))`, with `δ_t = A_NAE`.
    return_counted_nae: f64,
}

fn measure(context: &Context) -> anyhow::Result<Numbers> {
    let on_zoo = on_zoo(context.seed);
    (context.progress)(0.5, "lengths");
    let lengths = [0.9, 0.99, 1.0].into_iter().flat_map(|q| (0..=13).map(move |power| (q, power)));
    let lengths = lengths.map(|(q, power)| at_length(q, 1 << power, &mut stream(context.seed, 200 + power)));
    Ok(Numbers {
        mdps: on_zoo.len(),
        on_mdps: on_zoo.into_iter().flatten().collect(),
        lengths: lengths.collect(),
    })
}

fn at_length(q: f64, tokens: usize, rng: &mut ChaCha8Rng) -> Length {
    let relative_difference = largest((0..8).map(|_| rounding(rng, q, tokens)));
    let critic = noise(rng, tokens);
    let rewards = Delta::Terminal.spread(1.0, tokens);
    let return_counted_td = td_errors(&rewards, &critic, 1.0).iter().sum::<f64>() / (1.0 - critic[0]);
    let return_counted_nae = Delta::Constant.spread(1.0, tokens).iter().sum();
    Length { q, tokens, relative_difference, return_counted_td, return_counted_nae }
}

/// The rounding difference of both sides for random numbers, relative to the sum of magnitudes.
fn rounding(rng: &mut ChaCha8Rng, q: f64, len: usize) -> f64 {
    let (delta, nabla) = (noise(rng, len), noise(rng, len));
    let advantages = Recent { q }.adjoint(&delta);
    let traces = Recent { q }.apply(&nabla);
    let products = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).collect::<Vec<_>>();
    let (left, right) = (products(&advantages, &nabla), products(&delta, &traces));
    let magnitude: f64 = left.iter().map(|x| x.abs()).sum();
    (left.iter().sum::<f64>() - right.iter().sum::<f64>()).abs() / magnitude
}

/// Responses taken from each MDP.
const RESPONSES: usize = 12;
/// The values of `γλ` examined.
const QS: [f64; 5] = [0.0, 0.5, 0.9, 0.99, 1.0];

/// The numbers in place of the TD errors.
#[derive(Clone, Copy, PartialEq, Serialize)]
enum Deltas {
    #[serde(rename = "exact critic")]
    ExactCritic,
    #[serde(rename = "random critic")]
    RandomCritic,
    /// `A_NAE` at every token.
    #[serde(rename = "A_NAE at every token")]
    Nae,
    /// Numbers that are the TD errors of nothing.
    #[serde(rename = "random numbers")]
    Random,
}

impl Deltas {
    const ALL: [Deltas; 4] = [Deltas::ExactCritic, Deltas::RandomCritic, Deltas::Nae, Deltas::Random];

    /// The rewards whose TD errors under `values` are the deltas.
    fn rewards(self, response: &Response, values: &[f64], rng: &mut ChaCha8Rng) -> Vec<f64> {
        let len = values.len();
        let wanted = match self {
            Deltas::ExactCritic | Deltas::RandomCritic => {
                return Delta::Terminal.spread(response.reward, len);
            }
            Deltas::Nae => Delta::Constant.spread(response.reward - response.j, len),
            Deltas::Random => noise(rng, len),
        };
        let without = td_errors(&vec![0.0; len], values, 1.0);
        wanted.iter().zip(&without).map(|(d, w)| d - w).collect()
    }
}

/// Differences on one MDP with one kind of deltas.
#[derive(Serialize)]
struct OnMdp {
    mdp: &'static str,
    #[serde(rename = "delta")]
    deltas: Deltas,
    identities: usize,
    /// Largest relative difference of both sides.
    #[serde(rename = "largest_relative_difference")]
    worst: f64,
    /// Largest relative difference if GAE is cut after two terms, as the text prints it.
    #[serde(skip)]
    truncated: f64,
    /// Largest `|Σ δ_t - (r - V(s_0))|` of the TD errors of a critic.
    #[serde(skip)]
    telescoped: f64,
    /// Largest `Σ δ_t / (T (r - V(s_0)))` of `δ_t = r - V(s_0)`.
    #[serde(skip)]
    counted: f64,
}

/// A response with its gradients `∇log π(a_t|s_t)`.
struct Response {
    nabla: Vec<Vec<f64>>,
    reward: f64,
    /// `J` of the policy.
    j: f64,
}

/// Every MDP of the zoo, with every kind of deltas.
fn on_zoo(seed: u64) -> Vec<[OnMdp; 4]> {
    let on_mdp = |(index, entry): (usize, zoo::Named)| {
        let tree = (entry.build)();
        let oracle = Oracle::new(&tree, &(entry.initial)(&tree));
        let mut rng = stream(seed, index as u64);
        Deltas::ALL.map(|deltas| on_mdp(entry.name, &oracle, deltas, &mut rng))
    };
    zoo::all().into_iter().enumerate().map(on_mdp).collect()
}

fn on_mdp(mdp: &'static str, oracle: &Oracle, deltas: Deltas, rng: &mut ChaCha8Rng) -> OnMdp {
    let tree = oracle.tree;
    let mut found =
        OnMdp { mdp, deltas, identities: 0, worst: 0.0, truncated: 0.0, telescoped: 0.0, counted: 0.0 };
    for leaf in tree.leaves().step_by(tree.leaf_count().div_ceil(RESPONSES)) {
        let path = tree.path(leaf);
        let nabla = gradients(tree, &oracle.probs, &path);
        let response = Response { nabla, reward: tree.reward(leaf), j: oracle.j };
        let values: Vec<f64> = match deltas {
            Deltas::ExactCritic => path.iter().map(|&e| oracle.v[tree.edge_node(e)]).collect(),
            _ => noise(rng, path.len()),
        };
        for q in QS {
            let rewards = deltas.rewards(&response, &values, rng);
            found.add(&response, &rewards, &values, q);
        }
    }
    found
}

impl OnMdp {
    fn add(&mut self, response: &Response, rewards: &[f64], values: &[f64], q: f64) {
        let (nabla, len) = (&response.nabla, values.len());
        let delta = td_errors(rewards, values, 1.0);
        let forward = combine(&gae(rewards, values, 1.0, q), nabla);
        let backward = combine(&delta, &eligibility(&Recent { q }, nabla));
        let scale = norm(&forward).max(1.0);
        self.worst = self.worst.max(gap(&forward, &backward) / scale);
        self.identities += 1;
        let next = |t: usize| delta.get(t + 1).copied().unwrap_or(0.0);
        let two_terms: Vec<f64> = (0..len).map(|t| delta[t] + q * next(t)).collect();
        self.truncated = self.truncated.max(gap(&combine(&two_terms, nabla), &backward) / scale);
        let sum: f64 = delta.iter().sum();
        match self.deltas {
            // Σ δ_t = r - V(s_0), whatever the critic says in between.
            Deltas::ExactCritic | Deltas::RandomCritic => {
                self.telescoped = self.telescoped.max((sum - (response.reward - values[0])).abs());
            }
            Deltas::Nae if response.reward != response.j => {
                let times = sum / (response.reward - response.j);
                self.counted = self.counted.max(times / len as f64);
            }
            _ => {}
        }
    }
}

/// `∇log π(a_t|s_t)` of a tabular softmax policy, one vector over all logits per token of a response.
fn gradients(tree: &Tree, probs: &[f64], path: &[EdgeId]) -> Vec<Vec<f64>> {
    let gradient = |&taken: &EdgeId| {
        let mut gradient = vec![0.0; tree.edge_count()];
        for edge in tree.edges_of(tree.edge_node(taken)) {
            gradient[edge] = f64::from(edge == taken) - probs[edge];
        }
        gradient
    };
    path.iter().map(gradient).collect()
}

/// `Σ_t x_t v_t`.
fn combine(x: &[f64], vectors: &[Vec<f64>]) -> Vec<f64> {
    let mut sum = vec![0.0; vectors[0].len()];
    for (x, v) in x.iter().zip(vectors) {
        sum.iter_mut().zip(v).for_each(|(s, v)| *s += x * v);
    }
    sum
}

/// The trace applied to every component of a sequence of gradients: `ε_t = Σ_k E[t,k] ∇_k`.
fn eligibility(trace: &dyn Trace, gradients: &[Vec<f64>]) -> Vec<Vec<f64>> {
    let mut traces = gradients.to_vec();
    for i in 0..gradients[0].len() {
        let component: Vec<f64> = gradients.iter().map(|g| g[i]).collect();
        for (t, z) in trace.apply(&component).into_iter().enumerate() {
            traces[t][i] = z;
        }
    }
    traces
}

fn findings(n: &Numbers) -> Vec<Finding> {
    let over_mdps = |of: fn(&OnMdp) -> f64| largest(n.on_mdps.iter().map(of));
    let worst = over_mdps(|m| m.worst);
    let random = largest(n.lengths.iter().map(|l| l.relative_difference));
    let truncated = over_mdps(|m| m.truncated);
    vec![
        quoted(SentenceId::PolicyGradientIdentity).all_within(EXACT, worst)
            .value("MDPs", n.mdps)
            .value("identities on their policy gradients", n.on_mdps.iter().map(|m| m.identities).sum::<usize>())
            .value("largest relative difference", rounding_error(worst))
            .value("with random numbers, T up to 8192", rounding_error(random)),
        claim(
        "critic_free",
        "The advantage A_NAE of a response in its group, which the paper uses as δ_t at every token, is a \
         \"critic-free TD-error\"",
    )
    .holds_or(
        (over_mdps(|m| m.counted) - 1.0).abs() > EXACT,
        "the TD errors of every critic sum to r - V(s₀), but δ_t = r - V(s₀) at every token sums to T times that",
    )
        .value("largest deviation of the sum of TD errors", rounding_error(over_mdps(|m| m.telescoped)))
        .value("Σ δ_t / (r - V(s₀)) of A_NAE at T = 8192", n.lengths.last().map(|l| l.return_counted_nae)),
        quoted(SentenceId::TwoTermsOfGae).holds_or(
                truncated < EXACT,
                format!(
                    "with only these two terms, the two sides of Theorem 1 differ by up to {} times the \
                     gradient's norm",
                    short(truncated)
                ),
            )
        .note("The recursion A_t = δ_t + γλ A_{t+1} is what makes the theorem true."),
    ]
}

fn tables(n: &Numbers) -> Vec<(String, Table)> {
    vec![(String::new(), Table::from_rows(&n.on_mdps)), ("lengths".into(), Table::from_rows(&n.lengths))]
}

fn figures(n: &Numbers) -> Vec<(String, Figure)> {
    let points = |part: fn(&Length) -> f64| {
        let undiscounted = n.lengths.iter().filter(|l| l.q == 1.0);
        undiscounted.map(move |l| (l.tokens as f64, part(l)))
    };
    let counted = Panel::new("How often the return r - V(s₀) enters Σ δ_t")
        .x(Axis::new("tokens T").log())
        .y(Axis::new("Σ δ_t / (r - V(s₀))").log())
        .line("TD errors of any critic", points(|l| l.return_counted_td))
        .line("A_NAE at every token", points(|l| l.return_counted_nae));
    let most = largest(n.lengths.iter().map(|l| l.relative_difference));
    let figure = Figure::new("Theorem 1 is exact for any numbers; it does not license δ_t = A_NAE, which counts the \
        return T times")
        .caption(format!(
            "γ = 1, TD errors of a random critic. The theorem itself has no picture: the largest difference of its two \
             sides is {} of Σ|terms| in f64 (random numbers, T up to {}, γλ = 0.9, 0.99 and \
             1), and 0 in exact rationals.",
            rounding_error(most),
            n.lengths.iter().map(|l| l.tokens).max().unwrap_or(0)
        ))
        .panel_size(700, 340)
        .panel(counted);
    vec![(String::new(), figure)]
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::experiments::common::words;

    fn numbers(worst: f64, truncated: f64, counted: f64) -> Numbers {
        let on_mdp = OnMdp {
            mdp: "chain",
            deltas: Deltas::Nae,
            identities: 5,
            worst,
            truncated,
            telescoped: 0.0,
            counted,
        };
        Numbers { mdps: 1, on_mdps: vec![on_mdp], lengths: vec![Length::default()] }
    }

    #[test]
    fn each_verdict_follows_its_own_numbers() {
        let verdicts = |n: Numbers| words(&findings(&n));
        assert_eq!(verdicts(numbers(0.0, 0.5, 1.0)), ["Holds", "Fails", "Fails"]);
        assert_eq!(verdicts(numbers(0.1, 0.0, 0.0)), ["Fails", "Holds", "Holds"]);
    }
}
