//! Every group of responses that can be sampled, each with its probability, without regard to order.
//!
//! Methods do not care in which order the responses of a group stand (a conformance test holds them to it), so that a group is a
//! multiset of *atoms* (a response with its reward) and its probability a multinomial:
//!
//! ```text
//! P(n) = G! / (n_1! .. n_m!)  p_1^n_1 .. p_m^n_m,      n_1 + .. + n_m = G
//! ```
//! Seven atoms in groups of eight are 3003 multisets, where tuples would be 5.8 million: small MDPs are exact for *every* method, with the
//! whole distribution of the update, not only its mean.

use super::entries::Source;
use anyhow::{bail, ensure};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Credit, Method};
use grpo_lambda_mdp::extra_inputs::{Exact, Provider, critic};
use grpo_lambda_mdp::{EdgeId, Oracle, Tabular, Tree};

/// Limit on the number of multisets: a few seconds of one method.
const LIMIT: f64 = 300_000.0;

/// Seed of the errors of a noisy critic.
const CRITIC_SEED: u64 = 1;

/// True if a table gives extra inputs of this source without chance.
pub(super) fn given(source: Source) -> bool {
    matches!(source, Source::Table | Source::ConstantCritic | Source::NoisyCritic(_))
}

/// The log-probabilities that a method takes for the sampler's.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Ratios {
    /// The sampler's own: ratios correct for the difference between the policies, up to the clip.
    Sampler,
    /// The updated policy's, recomputed: every ratio is 1, whoever sampled.
    Ignored,
}

/// A response together with its reward.
#[derive(Clone, Debug)]
pub(super) struct Atom {
    /// Its probability under the sampler.
    pub(super) probability: f64,
    pub(super) path: Vec<EdgeId>,
    /// Its form for a method.
    pub(super) response: Response,
    /// Its log-probabilities under the policy that is updated.
    pub(super) logps: Vec<f64>,
}

/// The groups of one sampler, seen by one policy.
#[derive(Debug)]
pub(super) struct Groups<'t> {
    tree: &'t Tree,
    current: Tabular,
    atoms: Vec<Atom>,
    size: usize,
}

/// One group, with what a method makes of it.
pub(super) struct Outcome<'a> {
    pub(super) probability: f64,
    /// The atoms of its responses, in order.
    pub(super) members: &'a [usize],
    pub(super) group: &'a Group,
    pub(super) credits: &'a [Credit],
    /// `-∂L/∂log π` summed per edge.
    pub(super) weights: &'a [f64],
    /// `-∂L/∂log π` of every token of every response.
    pub(super) tokens: &'a [Vec<f64>],
}

impl<'t> Groups<'t> {
    /// The groups of `size` responses that `behaviour` samples and `current` is updated with. Extra inputs are the sampler's.
    pub(super) fn new(
        tree: &'t Tree,
        behaviour: &Tabular,
        current: &Tabular,
        ratios: Ratios,
        size: usize,
        source: Source,
    ) -> anyhow::Result<Groups<'t>> {
        let sampler = Oracle::new(tree, behaviour);
        let exact = Exact::new(&sampler);
        let exact = match source {
            Source::Table => exact,
            Source::ConstantCritic => exact.with_critic(critic::constant(&sampler, sampler.j)),
            Source::NoisyCritic(scale) => exact.with_critic(critic::noisy(&sampler, scale, CRITIC_SEED)),
            other => bail!("extra inputs from {other:?} is not a function of the response"),
        };
        let updated = current.log_probs(tree);
        let old = match ratios {
            Ratios::Sampler => &sampler.log_probs,
            Ratios::Ignored => &updated,
        };
        let mut atoms = Vec::new();
        for leaf in tree.leaves() {
            let path = tree.path(leaf);
            let along = |per_edge: &[f64]| path.iter().map(|&e| per_edge[e]).collect::<Vec<_>>();
            for (reward, p) in tree.outcomes(leaf) {
                let probability = p * sampler.leaf_prob(leaf);
                if probability > 0.0 {
                    let response = Response {
                        tokens: path.iter().map(|&e| tree.token(e)).collect(),
                        truncated: tree.truncated(leaf),
                        extra_inputs: exact.extra_inputs(leaf, &path),
                        ..Response::graded(along(old), reward)
                    };
                    let logps = along(&updated);
                    atoms.push(Atom { probability, path: path.clone(), response, logps });
                }
            }
        }
        let number = binomial(atoms.len() + size - 1, size);
        ensure!(
            number <= LIMIT,
            "{number} groups of {size} out of {} responses and rewards, the limit is {LIMIT}",
            atoms.len()
        );
        Ok(Groups { tree, current: current.clone(), atoms, size })
    }

    pub(super) fn atoms(&self) -> &[Atom] {
        &self.atoms
    }

    /// Calls `see` with every group.
    pub(super) fn each(&self, method: &dyn Method, mut see: impl FnMut(&Outcome)) {
        let mut counts = vec![0; self.atoms.len()];
        counts[0] = self.size;
        let mut weights = vec![0.0; self.tree.edge_count()];
        loop {
            let members: Vec<usize> =
                counts.iter().enumerate().flat_map(|(atom, &n)| std::iter::repeat_n(atom, n)).collect();
            let group =
                Group { responses: members.iter().map(|&a| self.atoms[a].response.clone()).collect() };
            let credits = method.credit(std::slice::from_ref(&group));
            let mut tokens = Vec::with_capacity(self.size);
            weights.fill(0.0);
            for (i, &atom) in members.iter().enumerate() {
                let Atom { path, logps, .. } = &self.atoms[atom];
                let loss = method.loss(&group.responses[i], &credits[i], logps);
                let own: Vec<f64> = loss.dlogps.iter().map(|d| -d).collect();
                path.iter().zip(&own).for_each(|(&edge, w)| weights[edge] += w);
                tokens.push(own);
            }
            see(&Outcome {
                probability: self.probability(&counts),
                members: &members,
                group: &group,
                credits: &credits,
                weights: &weights,
                tokens: &tokens,
            });
            if !advance(&mut counts) {
                break;
            }
        }
    }

    /// The expected update per logit of the policy that is updated.
    pub(super) fn expected(&self, method: &dyn Method) -> Vec<f64> {
        let mut mean = vec![0.0; self.tree.edge_count()];
        self.each(method, |o| mean.iter_mut().zip(o.weights).for_each(|(m, w)| *m += o.probability * w));
        self.current.backward(self.tree, &mean)
    }

    fn probability(&self, counts: &[usize]) -> f64 {
        let mut left = self.size;
        let mut p = 1.0;
        for (&n, atom) in counts.iter().zip(&self.atoms) {
            p *= binomial(left, n) * atom.probability.powi(n as i32);
            left -= n;
        }
        p
    }
}

/// The next counts with the same sum, in descending lexicographic order; `false` at the last.
fn advance(counts: &mut [usize]) -> bool {
    let last = counts.len() - 1;
    let Some(turn) = (0..last).rev().find(|&i| counts[i] > 0) else { return false };
    let moved = 1 + std::mem::take(&mut counts[last]);
    counts[turn] -= 1;
    counts[turn + 1] += moved;
    true
}

fn binomial(n: usize, k: usize) -> f64 {
    (0..k).map(|i| (n - i) as f64 / (k - i) as f64).product::<f64>().round()
}

#[cfg(test)]
mod tests {
    use super::*;
    use grpo_lambda::methods;
    use grpo_lambda_mdp::expected::{Situation, enumerated};
    use grpo_lambda_mdp::zoo::{Family, LuckyGuess};

    #[test]
    fn every_multiset_comes_once_and_their_probabilities_sum_to_one() {
        let mut counts = vec![3, 0, 0];
        let mut seen = vec![counts.clone()];
        while advance(&mut counts) {
            seen.push(counts.clone());
        }
        assert_eq!(seen.len(), 10);
        assert!(seen.iter().all(|c| c.iter().sum::<usize>() == 3));
        seen.dedup();
        assert_eq!(seen.len(), 10);

        let family = LuckyGuess { answers: 2, work: 1, fillers: 1, ..LuckyGuess::default() };
        let tree = family.tree().unwrap();
        let policy = family.initial(&tree);
        let groups = Groups::new(&tree, &policy, &policy, Ratios::Sampler, 8, Source::Table).unwrap();
        let (mut total, mut number) = (0.0, 0);
        let grpo = methods::parse("grpo", "").unwrap().method;
        groups.each(grpo.as_ref(), |o| {
            total += o.probability;
            number += 1;
        });
        assert!((total - 1.0).abs() < 1e-12 && number == 3003, "{total} {number}");
    }

    #[test]
    fn multisets_give_what_all_tuples_give_on_and_off_policy() {
        let family = LuckyGuess { answers: 2, work: 1, fillers: 1, ..LuckyGuess::default() };
        let tree = family.tree().unwrap();
        let behaviour = family.initial(&tree);
        let moved = Tabular::random(&tree, 3, 0.7);
        for current in [&behaviour, &moved] {
            let groups = Groups::new(&tree, &behaviour, current, Ratios::Sampler, 3, Source::Table).unwrap();
            let situation = Situation { current, ..Situation::on_policy(&tree, &behaviour, 3) };
            for name in ["grpo", "grpo_lambda", "tempo", "s_trace_reconstructed", "vine_ppo", "high_entropy"]
            {
                let method = methods::parse(name, "").unwrap().method;
                let by_tuples = enumerated(method.as_ref(), &situation).unwrap().update;
                let ours = groups.expected(method.as_ref());
                let gap = ours.iter().zip(&by_tuples).map(|(a, b)| (a - b).abs()).fold(0.0, f64::max);
                assert!(gap < 1e-13, "{name}: {gap}");
            }
        }
    }

    #[test]
    fn with_ratios_ignored_every_ratio_is_one() {
        let family = LuckyGuess { answers: 2, work: 1, fillers: 1, ..LuckyGuess::default() };
        let tree = family.tree().unwrap();
        let (behaviour, current) = (family.initial(&tree), Tabular::random(&tree, 3, 0.7));
        let groups = Groups::new(&tree, &behaviour, &current, Ratios::Ignored, 2, Source::Table).unwrap();
        assert!(groups.atoms().iter().all(|a| a.logps == a.response.old_logps));
    }

    #[test]
    fn too_many_groups_are_refused_with_their_number() {
        let family = LuckyGuess::default();
        let tree = family.tree().unwrap();
        let policy = family.initial(&tree);
        let refused =
            Groups::new(&tree, &policy, &policy, Ratios::Sampler, 8, Source::Table).unwrap_err().to_string();
        assert!(refused.contains("the limit is 300000"), "{refused}");
    }
}
