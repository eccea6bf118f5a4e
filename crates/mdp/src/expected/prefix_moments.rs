//! [`PrefixMoments`]: the exact variance of updates whose baselines are values of prefixes.

use crate::{Oracle, Target};

/// Moments of reward and score at every prefix, from which the variance of any baseline of prefixes follows, for independent responses.
///
/// With `w = |∇log π(a|s)|²` and `R` the reward, not discounted. Scores of different prefixes of a table are orthogonal, so that
/// `tr Var` is a sum over prefixes.
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixMoments {
    /// By node.
    nodes: Vec<Moments>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq)]
struct Moments {
    depth: usize,
    /// `d(s)`.
    visit: f64,
    /// `E[R|s]`, `E[R²|s]`.
    value: f64,
    square: f64,
    /// `E[w|s]`, `E[(R - V) w|s]`, `E[(R - V)² w|s]`.
    score: f64,
    first: f64,
    second: f64,
    /// `|E[R ∇log π|s]|²`.
    gradient: f64,
    /// `E[|(R - Q) ∇log π(a|s) + Σ_b π(b|s) (Q - V) ∇log π(b|s)|²|s]`.
    by_action: f64,
}

impl Moments {
    /// `E[(R - b)² w|s]` of a baseline with this mean and variance that is independent of the response.
    fn around(&self, mean: f64, variance: f64) -> f64 {
        let off = self.value - mean;
        self.second + 2.0 * off * self.first + (off * off + variance) * self.score
    }

    fn variance(&self) -> f64 {
        (self.square - self.value * self.value).max(0.0)
    }
}

/// A depth's part in the variance of an update.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct DepthVariance {
    /// The part of single responses.
    pub diagonal: f64,
    /// The part of pairs of responses, beyond the gradient's square.
    pub pairs: f64,
}

impl PrefixMoments {
    /// The moments of the oracle's policy.
    pub fn new(oracle: &Oracle) -> PrefixMoments {
        let tree = oracle.tree;
        let mut nodes = vec![Moments::default(); tree.node_count()];
        for node in tree.nodes().rev() {
            let after = |edge| match tree.target(edge) {
                Target::Leaf(leaf) => (tree.reward(leaf), tree.reward_squared(leaf)),
                Target::Node(child) => (nodes[child].value, nodes[child].square),
            };
            let edges: Vec<(f64, (f64, f64))> =
                tree.edges_of(node).map(|e| (oracle.probs[e], after(e))).collect();
            let mean = |f: &dyn Fn(f64, f64, f64) -> f64| -> f64 {
                edges.iter().map(|&(p, (q, square))| p * f(p, q, square)).sum()
            };
            let collision = mean(&|p, _, _| p);
            let weight = |p: f64| 1.0 - 2.0 * p + collision;
            let value = mean(&|_, q, _| q);
            let gradient = mean(&|p, q, _| p * (q - value).powi(2));
            nodes[node] = Moments {
                depth: tree.depth(node),
                visit: oracle.visit[node],
                value,
                square: mean(&|_, _, square| square),
                score: mean(&|p, _, _| weight(p)),
                first: mean(&|p, q, _| weight(p) * (q - value)),
                second: mean(&|p, q, square| weight(p) * (square - 2.0 * value * q + value * value)),
                gradient,
                by_action: gradient + mean(&|p, q, square| weight(p) * (square - q * q)),
            };
        }
        PrefixMoments { nodes }
    }

    /// `tr Var` of one response's update, given `E|X|²` at each prefix.
    fn single(&self, at: impl Fn(&Moments) -> f64) -> f64 {
        self.nodes.iter().map(|m| m.visit * at(m) - m.visit * m.visit * m.gradient).sum()
    }

    /// `tr Var` of one response's update with exact values of prefixes as the baseline.
    pub fn exact_values(&self) -> f64 {
        self.single(|m| m.second)
    }

    /// `tr Var` of one response's update with the best baseline of prefixes, `b*(s) = E[R w|s] / E[w|s]`.
    pub fn best_values(&self) -> f64 {
        // Where one token alone is legal the score is 0.
        self.single(|m| if m.score > 0.0 { m.second - m.first * m.first / m.score } else { m.second })
    }

    /// `tr Var` of one response's update with exact values of tokens as the baseline, handed back.
    pub fn exact_actions(&self) -> f64 {
        self.single(|m| m.by_action)
    }

    /// `tr Var` of the update of `g` independent responses, by depth, with values of prefixes from the other responses: `prefix_rloo
    /// control=state`, at an infinite `shrinkage` RLOO.
    ///
    /// Of `n` responses at a prefix, each has the baseline `α m_s + (1 - α) m_¬s`, from the means of the `n - 1` others there and of the
    /// `g - n` elsewhere; given `n` all are independent. A pair at the prefix contributes `(α/(n-1))² |E[R ∇log π|s]|²` beyond
    /// its mean: either's reward is in the other's baseline.
    ///
    /// # Panics
    /// If `g` is below 2.
    pub fn group_values(&self, g: usize, shrinkage: f64) -> Vec<DepthVariance> {
        assert!(g > 1, "a response has no others");
        let root = self.nodes[0];
        let deepest = self.nodes.iter().map(|m| m.depth).max().unwrap_or(0);
        let mut depths = vec![DepthVariance::default(); deepest + 1];
        let all = g as f64;
        for m in &self.nodes {
            let elsewhere = 1.0 - m.visit;
            let outside = |whole: f64, here: f64| (whole - m.visit * here) / elsewhere;
            // A prefix that every response passes leaves none elsewhere.
            let certain = elsewhere < 1e-12;
            let (mean, square) = match certain {
                true => (0.0, 0.0),
                false => (outside(root.value, m.value), outside(root.square, m.square)),
            };
            let other = Moments { value: mean, square, ..*m }.variance();
            let into = &mut depths[m.depth];
            for (n, probability) in
                binomial(g, if certain { 1.0 } else { m.visit }).into_iter().enumerate().skip(1)
            {
                let (count, here) = (n as f64, n as f64 - 1.0);
                let of_all = here / (all - 1.0);
                let alpha = match shrinkage {
                    f64::INFINITY => of_all,
                    _ if here + shrinkage > 0.0 => (here + shrinkage * of_all) / (here + shrinkage),
                    _ => 0.0,
                };
                let baseline = alpha * m.value + (1.0 - alpha) * mean;
                let spread_here = if n > 1 { alpha * alpha * m.variance() / here } else { 0.0 };
                let spread_other = if n < g { (1.0 - alpha).powi(2) * other / (all - count) } else { 0.0 };
                let share = if n > 1 { alpha / here } else { 0.0 };
                let per = probability * count / (all * all);
                into.diagonal +=
                    per * (m.around(baseline, spread_here + spread_other) - m.visit * m.gradient);
                into.pairs += per * here * share * share * m.gradient;
            }
        }
        depths
    }
}

/// `P(n)` of `n = 0..=g` successes in `g` trials.
fn binomial(g: usize, p: f64) -> Vec<f64> {
    let mut shares = vec![0.0; g + 1];
    shares[0] = 1.0;
    for trial in 0..g {
        for n in (0..=trial + 1).rev() {
            let before = if n > 0 { shares[n - 1] } else { 0.0 };
            shares[n] = (1.0 - p) * shares[n] + p * before;
        }
    }
    shares
}
