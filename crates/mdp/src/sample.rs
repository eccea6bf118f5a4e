//! [`Sampler`]: responses drawn from a policy, and their rewards.

use rand::Rng;

use super::draw::unit;
use super::policy::Tabular;
use super::tree::{EdgeId, LeafId, NodeId, RewardKind, Target, Tree};
use grpo_lambda::systematic::{Code, Sets};

/// Draws responses from a policy frozen at the time of [`Sampler::new`].
///
/// The stream is stable: one 64-bit number per prefix with two or more legal tokens, none where there is no
/// choice.
///
/// ```
/// use grpo_lambda_mdp::{Sampler, Tabular, sample_reward, zoo, zoo::Family};
/// use rand::SeedableRng;
/// let tree = zoo::Pivot::default().tree()?;
/// let sampler = Sampler::new(&tree, &Tabular::uniform(&tree));
/// let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(0);
/// let leaf = sampler.sample(&mut rng);
/// let reward = sample_reward(&tree, leaf, &mut rng);
/// assert!(reward == 0.0 || reward == 1.0);
/// # Ok::<(), grpo_lambda_mdp::TreeError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Sampler<'t> {
    tree: &'t Tree,
    /// Running sums of the probabilities within each prefix.
    cumulative: Vec<f64>,
}

impl<'t> Sampler<'t> {
    /// Prepares running sums in O(edges).
    ///
    /// # Panics
    /// If the policy belongs to a tree of another size.
    pub fn new(tree: &'t Tree, policy: &Tabular) -> Sampler<'t> {
        Sampler::from_probs(tree, policy.probs(tree))
    }

    /// [`Sampler::new`] for `π(a|s)` per edge that is known already.
    ///
    /// # Panics
    /// If there is not one probability per edge.
    pub fn from_probs(tree: &'t Tree, probs: Vec<f64>) -> Sampler<'t> {
        assert_eq!(probs.len(), tree.edge_count(), "one probability per edge");
        let mut cumulative = probs;
        for node in tree.nodes() {
            let mut sum = 0.0;
            for p in &mut cumulative[tree.edges_of(node)] {
                sum += *p;
                *p = sum;
            }
        }
        Sampler { tree, cumulative }
    }

    /// One response.
    pub fn sample(&self, rng: &mut impl Rng) -> LeafId {
        self.complete(0, rng)
    }

    /// One completion of a prefix.
    pub fn complete(&self, node: NodeId, rng: &mut impl Rng) -> LeafId {
        self.walk(node, |sums| choice(sums, unit(rng)), |_| ())
    }

    /// One completion of a prefix, its edges appended to `path`.
    pub fn complete_into(&self, node: NodeId, rng: &mut impl Rng, path: &mut Vec<EdgeId>) -> LeafId {
        self.walk(node, |sums| choice(sums, unit(rng)), |edge| path.push(edge))
    }

    /// One token after a prefix.
    pub fn step(&self, node: NodeId, rng: &mut impl Rng) -> EdgeId {
        let edges = self.tree.edges_of(node);
        let first = edges.start;
        if edges.len() == 1 { first } else { first + choice(&self.cumulative[edges], unit(rng)) }
    }

    /// The tree the responses are of.
    pub fn tree(&self) -> &'t Tree {
        self.tree
    }

    /// One response, its edges written into `path`, which is cleared first.
    pub fn sample_into(&self, rng: &mut impl Rng, path: &mut Vec<EdgeId>) -> LeafId {
        path.clear();
        self.complete_into(0, rng, path)
    }

    /// The response at a code, its edges written into `path`, which is cleared first. Once the code is used up every choice takes a
    /// fresh number.
    pub fn decode_into(&self, mut code: Code, rng: &mut impl Rng, path: &mut Vec<EdgeId>) -> LeafId {
        path.clear();
        let choose = |sums: &[f64]| {
            let chosen = choice(sums, code.number(|| unit(rng)));
            let (total, below) =
                (sums[sums.len() - 1], chosen.checked_sub(1).map_or(0.0, |before| sums[before]));
            code.take(below / total, (sums[chosen] - below) / total);
            chosen
        };
        self.walk(0, choose, |edge| path.push(edge))
    }

    /// A group of `size` responses in systematic sets, each with its edges and its reward.
    ///
    /// A set of one response is sampled as [`Sampler::sample_into`] does; of a larger one the shift is drawn before its first response.
    pub fn graded_group(
        &self,
        sets: Sets,
        size: usize,
        rng: &mut impl Rng,
    ) -> Vec<(LeafId, Vec<EdgeId>, f64)> {
        let mut shift = 0.0;
        let mut response = |place: usize| {
            let (members, mut path) = (sets.members(sets.set_of(place, size), size), Vec::new());
            if members.start == place && members.len() > 1 {
                shift = unit(rng);
            }
            let leaf = match members.len() {
                1 => self.sample_into(rng, &mut path),
                _ => self.decode_into(sets.code(place, size, shift), rng, &mut path),
            };
            (leaf, path, sample_reward(self.tree, leaf, rng))
        };
        (0..size).map(&mut response).collect()
    }

    /// Follows `choose`, from running sums to a place among them, where there is a choice.
    fn walk(
        &self,
        mut node: NodeId,
        mut choose: impl FnMut(&[f64]) -> usize,
        mut visit: impl FnMut(EdgeId),
    ) -> LeafId {
        loop {
            let edges = self.tree.edges_of(node);
            let mut edge = edges.start;
            if edges.len() > 1 {
                edge += choose(&self.cumulative[edges]);
            }
            visit(edge);
            match self.tree.target(edge) {
                Target::Node(next) => node = next,
                Target::Leaf(leaf) => return leaf,
            }
        }
    }
}

/// The place at `number` in `[0,1)` of a distribution given by its running sums.
fn choice(sums: &[f64], number: f64) -> usize {
    // An edge of probability 0 has its predecessor's sum and is never chosen. The largest uniform number is 1 - 2^-53, at least half a unit of the
    // last digit of the total away from it, so that the product stays below the total.
    let point = number * sums[sums.len() - 1];
    sums.partition_point(|&sum| sum <= point)
}

/// The reward of a response: a draw with the leaf's probability for binary rewards (one 64-bit number unless
/// the probability is 0 or 1), the leaf's number for real ones.
pub fn sample_reward(tree: &Tree, leaf: LeafId, rng: &mut impl Rng) -> f64 {
    let number = tree.reward(leaf);
    match tree.reward_kind() {
        RewardKind::Real => number,
        RewardKind::Binary if number == 0.0 || number == 1.0 => number,
        RewardKind::Binary => f64::from(unit(rng) < number),
    }
}

#[cfg(test)]
mod tests {
    use super::super::{Oracle, zoo, zoo::Family};
    use super::*;
    use rand::SeedableRng;
    use rand_chacha::ChaCha8Rng;

    #[test]
    fn frequencies_match_the_exact_probabilities_by_a_chi_square_test() {
        let tree = zoo::Random { seed: 5, horizon: 4, ..Default::default() }.tree().unwrap();
        let policy = Tabular::random(&tree, 8, 0.5);
        let oracle = Oracle::new(&tree, &policy);
        let sampler = Sampler::new(&tree, &policy);
        let mut rng = ChaCha8Rng::seed_from_u64(9);
        let n = 200_000;
        let (mut counts, mut reward) = (vec![0.0; tree.leaf_count()], 0.0);
        let (mut path, mut expected_path) = (Vec::new(), Vec::new());
        for _ in 0..n {
            let leaf = sampler.sample_into(&mut rng, &mut path);
            tree.path_into(leaf, &mut expected_path);
            assert_eq!(path, expected_path);
            counts[leaf] += 1.0;
            reward += sample_reward(&tree, leaf, &mut rng);
        }
        // Cells with fewer than 10 expected draws are pooled.
        let (mut chi, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
        for leaf in tree.leaves() {
            let expected = oracle.leaf_prob(leaf) * f64::from(n);
            if expected < 10.0 {
                rest = (rest.0 + expected, rest.1 + counts[leaf]);
            } else {
                chi += (counts[leaf] - expected).powi(2) / expected;
                cells += 1;
            }
        }
        if rest.0 > 0.0 {
            chi += (rest.1 - rest.0).powi(2) / rest.0;
        }
        // A chi-square variable has mean k and variance 2k: four standard deviations above the mean.
        let k = f64::from(cells);
        assert!(cells > 20 && chi < k + 4.0 * (2.0 * k).sqrt(), "chi2 = {chi} with {cells} cells");
        let error = (oracle.j * (1.0 - oracle.j) / f64::from(n)).sqrt();
        assert!((reward / f64::from(n) - oracle.j).abs() < 4.0 * error);
    }

    #[test]
    fn the_same_seed_gives_the_same_responses() {
        let tree = zoo::full_tree(4, 4).unwrap();
        let sampler = Sampler::new(&tree, &Tabular::uniform(&tree));
        let draw = |seed| {
            let mut rng = ChaCha8Rng::seed_from_u64(seed);
            (0..5).map(|_| sampler.sample(&mut rng)).collect::<Vec<_>>()
        };
        assert_eq!(draw(1), draw(1));
        assert_ne!(draw(1), draw(2));
    }

    #[test]
    fn a_token_of_probability_zero_is_never_drawn() {
        let tree = zoo::LemmaCounterexample.tree().unwrap();
        for (logits, leaf) in [([0.0, -2000.0, 0.0, 0.0], 0), ([-2000.0, 0.0, 0.0, 0.0], 1)] {
            let sampler = Sampler::new(&tree, &Tabular::from_logits(&tree, logits.to_vec()));
            let mut rng = ChaCha8Rng::seed_from_u64(2);
            assert!((0..1000).all(|_| sampler.sample(&mut rng) == leaf));
        }
    }
}
