//! [`DistractorLength`]: filler that changes the length of a response and nothing else.

use super::{Family, at_least, numbered, open_probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// Up to `filler` tokens `um`, each at will, then an answer, EOS. Rewarded iff the answer is `answer0`, however much was said before it.
///
/// Shows: `um` has advantage exactly 0 everywhere, because the policy answers in the same way after any number of them; whatever an update does to
/// it is bias from the length of responses. `J* = 1`; the initial policy says `um` with probability `chatter` and then answers right with `skill`:
/// `J = skill`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DistractorLength {
    /// The most filler tokens, at least 1.
    pub filler: usize,
    /// Number of answers, at least 2.
    pub answers: usize,
    /// Initial probability of one more filler token, in `(0,1)`.
    pub chatter: f64,
    /// Initial probability of the right answer among answers, in `(0,1)`.
    pub skill: f64,
}

impl Default for DistractorLength {
    fn default() -> DistractorLength {
        DistractorLength { filler: 8, answers: 3, chatter: 0.6, skill: 0.4 }
    }
}

impl Family for DistractorLength {
    const NAME: &'static str = "distractor_length";
    const ABOUT: &'static str = "optional filler changes the length and not the reward";

    fn tree(&self) -> Result<Tree, TreeError> {
        let DistractorLength { filler, answers, chatter, skill } = *self;
        at_least(Self::NAME, "filler", filler, 1, "at least 1")?;
        at_least(Self::NAME, "answers", answers, 2, "at least 2")?;
        open_probability(Self::NAME, "chatter", chatter)?;
        open_probability(Self::NAME, "skill", skill)?;
        let eos = 1 + answers as u32;
        let names = ["um".into()].into_iter().chain(numbered("answer", answers)).chain(["EOS".into()]);
        Rules::new(names, filler + 2).build(
            |prefix| match prefix.last() {
                Some(&last) if last > 0 => vec![eos],
                _ if prefix.len() == filler => (1..eos).collect(),
                _ => (0..eos).collect(),
            },
            |response, _| f64::from(response.contains(&1)),
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        let wrong = (1.0 - self.skill) / (self.answers - 1) as f64;
        Tabular::from_weights(tree, |_, edge| match tree.token_name(edge) {
            "um" => self.chatter,
            "answer0" => (1.0 - self.chatter) * self.skill,
            "EOS" => 1.0,
            _ => (1.0 - self.chatter) * wrong,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    #[test]
    fn filler_has_no_advantage_and_lengths_vary() {
        let family = DistractorLength::default();
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        for edge in tree.edges() {
            let expected = match tree.token_name(edge) {
                "answer0" => 0.6,
                "um" | "EOS" => 0.0,
                _ => -0.4,
            };
            assert!((oracle.advantage(edge) - expected).abs() < 1e-15, "{}", tree.token_name(edge));
        }
        // Mean number of fillers: 0.6 + 0.6² + .. + 0.6^8; an answer and EOS on top.
        let filler: f64 = (1..=8).map(|k| 0.6f64.powi(k)).sum();
        assert!((oracle.mean_length() - filler - 2.0).abs() < 1e-12);
    }
}
