//! The scores of the tokens of a response.

use grpo_lambda_mdp::{Answers, Maskable, Tree};

/// Perturbation of OAR-G.
const NOISE: f64 = 1e-3;
/// Rounding error of a number that is 0.
pub(super) const ZERO: f64 = 1e-12;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Score {
    /// OAR-P.
    Masked,
    /// OAR-G.
    Gradient,
    /// OAR-G with one perturbation.
    SingleGradient,
    /// `KL` of the answer's distribution from that without the token, all others known.
    Hindsight,
    /// `KL(P(z|s_{t+1}) || P(z|s_t))`, `z` the answer.
    Gain,
    /// The position of the token.
    Position,
}

impl Score {
    pub(super) const ALL: [Score; 6] = [
        Score::Masked,
        Score::Gradient,
        Score::SingleGradient,
        Score::Hindsight,
        Score::Gain,
        Score::Position,
    ];
    /// The exact counterfactuals, which the others are compared with.
    pub(super) const EXACT: [Score; 2] = [Score::Hindsight, Score::Gain];

    /// The name in tables and figures.
    pub(super) fn name(self) -> &'static str {
        match self {
            Score::Masked => "OAR-P (token masked)",
            Score::Gradient => "OAR-G, 8 draws",
            Score::SingleGradient => "OAR-G, 1 draw",
            Score::Hindsight => "exact, in hindsight",
            Score::Gain => "exact, when written",
            Score::Position => "position",
        }
    }

    /// The score of every reasoning token of one response.
    fn of(self, tree: &Tree, policy: &Maskable, answers: &Answers, path: &[usize], seed: u64) -> Vec<f64> {
        match self {
            Score::Masked => without_rounding(policy.shifts(tree, path)),
            Score::Gradient => policy.saliencies(tree, path, NOISE, 8, seed),
            Score::SingleGradient => policy.saliencies(tree, path, NOISE, 1, seed),
            Score::Hindsight => without_rounding(answers.hindsights(path)),
            Score::Gain => without_rounding(answers.gains(path)),
            Score::Position => (0..path.len() - 1).map(|t| t as f64).collect(),
        }
    }
}

/// Every score of every reasoning token of one response, in the order of [`Score::ALL`].
pub(super) fn scores(
    tree: &Tree,
    policy: &Maskable,
    answers: &Answers,
    path: &[usize],
    seed: u64,
) -> [Vec<f64>; 6] {
    Score::ALL.map(|score| score.of(tree, policy, answers, path, seed))
}

fn without_rounding(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(|x| if x.abs() < ZERO { 0.0 } else { x }).collect()
}
