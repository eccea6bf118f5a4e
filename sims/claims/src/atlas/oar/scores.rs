//! The scores of the tokens of a response.

use grpo_lambda_mdp::{Answers, Maskable, Rules, Tree};

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
    fn values(
        self,
        tree: &Tree,
        policy: &Maskable,
        answers: &Answers,
        path: &[usize],
        seed: u64,
    ) -> Vec<f64> {
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
    Score::ALL.map(|score| score.values(tree, policy, answers, path, seed))
}

fn without_rounding(values: Vec<f64>) -> Vec<f64> {
    values.into_iter().map(|x| if x.abs() < ZERO { 0.0 } else { x }).collect()
}

/// Symbols of the alphabet, and tokens of every response, the last of which is the answer.
pub(super) const SYMBOLS: u32 = 3;
pub(super) const LEN: usize = 6;

/// A rule that rewards responses.
pub(super) struct Reward {
    pub(super) name: &'static str,
    /// True if the reward is a function of the answer alone.
    pub(super) by_answer: bool,
    rule: fn(&[u32]) -> bool,
}

/// The first is the one in which the answer decides.
pub(super) const REWARDS: [Reward; 4] = [
    Reward { name: "answer is right", by_answer: true, rule: |y| y[LEN - 1] == 0 },
    Reward { name: "answer repeats the first token", by_answer: false, rule: |y| y[LEN - 1] == y[0] },
    Reward {
        name: "sum of all tokens",
        by_answer: false,
        rule: |y| y.iter().sum::<u32>().is_multiple_of(SYMBOLS),
    },
    Reward { name: "first token alone", by_answer: false, rule: |y| y[0] == 0 },
];

impl Reward {
    /// All responses with their rewards.
    pub(super) fn tree(&self) -> anyhow::Result<Tree> {
        let names = (0..SYMBOLS).map(|s| format!("t{s}")).chain(["EOS".to_owned()]);
        Ok(Rules::new(names, LEN).build(|_| (0..SYMBOLS).collect(), |y, _| f64::from((self.rule)(y)))?)
    }
}
