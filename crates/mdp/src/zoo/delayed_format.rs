//! [`DelayedFormat`]: an early format token that only matters at the end.

use super::{Family, at_least, open_probability, step_work_answer};
use crate::{Tabular, Tree, TreeError};

/// First token `tag` or `plain`, then work, then an answer, EOS. Rewarded iff the first token is `tag` and the answer is `answer0`: a right answer
/// without its format counts for nothing.
///
/// Shows: credit over a distance, and a product of two conditions. The tag changes nothing but the grade: the policy after it works and answers as after
/// `plain`. After `plain` no token has an advantage. `J* = 1`; the initial policy has `J = tagged * skill`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct DelayedFormat {
    /// Work tokens between the format token and the answer.
    pub work: usize,
    /// Number of different work tokens, at least 1.
    pub fillers: usize,
    /// Number of answers, at least 2.
    pub answers: usize,
    /// Initial probability of `tag`, in `(0,1)`.
    pub tagged: f64,
    /// Initial probability of the right answer, in `(0,1)`; the others share the rest.
    pub skill: f64,
}

impl Default for DelayedFormat {
    fn default() -> DelayedFormat {
        DelayedFormat { work: 3, fillers: 2, answers: 3, tagged: 0.3, skill: 0.6 }
    }
}

impl Family for DelayedFormat {
    const NAME: &'static str = "delayed_format";
    const ABOUT: &'static str = "a format token at the start that only matters at the end";

    fn tree(&self) -> Result<Tree, TreeError> {
        let DelayedFormat { work, fillers, answers, tagged, skill } = *self;
        at_least(Self::NAME, "fillers", fillers, 1, "at least 1")?;
        at_least(Self::NAME, "answers", answers, 2, "at least 2")?;
        open_probability(Self::NAME, "tagged", tagged)?;
        open_probability(Self::NAME, "skill", skill)?;
        step_work_answer(["tag", "plain"], work, (fillers, answers), |kind, answer| {
            f64::from(kind == 0 && answer == 0)
        })
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::from_weights(tree, |_, edge| match tree.token_name(edge) {
            "tag" => self.tagged,
            "plain" => 1.0 - self.tagged,
            "answer0" => self.skill,
            name if name.starts_with("answer") => (1.0 - self.skill) / (self.answers - 1) as f64,
            _ => 1.0,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Oracle;

    #[test]
    fn the_tag_and_the_answer_after_it_have_advantages_and_nothing_else_has() {
        let family = DelayedFormat::default();
        let tree = family.tree().unwrap();
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        for edge in tree.edges() {
            let tagged = tree.prefix(tree.edge_node(edge)).first() == Some(&0);
            let expected = match tree.token_name(edge) {
                "tag" => 0.6 - 0.18,
                "plain" => -0.18,
                "answer0" if tagged => 0.4,
                name if name.starts_with("answer") && tagged => -0.6,
                _ => 0.0,
            };
            assert!((oracle.advantage(edge) - expected).abs() < 1e-15, "{}", tree.token_name(edge));
        }
    }
}
