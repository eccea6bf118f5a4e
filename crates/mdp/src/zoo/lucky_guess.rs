//! [`LuckyGuess`]: a flawed step that is rewarded when the guess is lucky.

use super::{Family, at_least, open_probability, probability, step_work_answer};
use crate::{Tabular, Tree, TreeError};

/// First token `sound` or `flawed`, then work, then an answer, EOS. After a sound step the first answer is
/// rewarded with probability `sound` and the others never; after a flawed step every answer is a guess,
/// rewarded with probability `luck`.
///
/// Shows: outcome rewards praise the whole of a lucky response, its flawed step included; only the value
/// after the step tells that it was flawed. `J* = max(sound, luck)`. The initial policy takes the sound step
/// with probability `initial_sound` and then the right answer with probability `skill`, so that
/// `J = initial_sound * skill * sound + (1 - initial_sound) * luck`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct LuckyGuess {
    /// `P(R=1)` of the right answer after a sound step, in `[0,1]`.
    pub sound: f64,
    /// `P(R=1)` of any answer after a flawed step, in `[0,1]`.
    pub luck: f64,
    /// Number of answers, at least 2.
    pub answers: usize,
    /// Work tokens between the step and the answer.
    pub work: usize,
    /// Number of different work tokens, at least 1.
    pub fillers: usize,
    /// Initial probability of the sound step, in `(0,1)`.
    pub initial_sound: f64,
    /// Initial probability of the right answer, in `(0,1)`; the others share the rest.
    pub skill: f64,
}

impl Default for LuckyGuess {
    fn default() -> LuckyGuess {
        LuckyGuess {
            sound: 0.95,
            luck: 0.25,
            answers: 4,
            work: 3,
            fillers: 2,
            initial_sound: 0.5,
            skill: 0.8,
        }
    }
}

impl Family for LuckyGuess {
    const NAME: &'static str = "lucky_guess";
    const ABOUT: &'static str = "a flawed step may still be rewarded, when the guess after it is lucky";

    fn tree(&self) -> Result<Tree, TreeError> {
        let LuckyGuess { sound, luck, answers, work, fillers, initial_sound, skill } = *self;
        probability(Self::NAME, "sound", sound)?;
        probability(Self::NAME, "luck", luck)?;
        at_least(Self::NAME, "answers", answers, 2, "at least 2")?;
        at_least(Self::NAME, "fillers", fillers, 1, "at least 1")?;
        open_probability(Self::NAME, "initial_sound", initial_sound)?;
        open_probability(Self::NAME, "skill", skill)?;
        step_work_answer(["sound", "flawed"], work, (fillers, answers), |kind, answer| match (kind, answer) {
            (1, _) => luck,
            (_, 0) => sound,
            _ => 0.0,
        })
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        Tabular::from_weights(tree, |_, edge| match tree.token_name(edge) {
            "sound" => self.initial_sound,
            "flawed" => 1.0 - self.initial_sound,
            "answer0" => self.skill,
            name if name.starts_with("answer") => (1.0 - self.skill) / (self.answers - 1) as f64,
            _ => 1.0,
        })
    }
}
