//! An MDP whose first token is a sound or a flawed step.

use grpo_lambda_mdp::zoo::{Family, Fork, LuckyGuess};
use grpo_lambda_mdp::{Tabular, Tree};

/// A task whose first token is `sound` or `flawed`.
pub(super) struct Case {
    /// Chance of a reward after a flawed step.
    pub(super) luck: f64,
    /// Initial probability of the sound step.
    pub(super) sound: f64,
    /// Tokens of a flawed response; a sound one has [`SOUND_LENGTH`]. None where all have the same.
    pub(super) flawed_length: Option<usize>,
    pub(super) tree: Tree,
    /// The policy.
    pub(super) policy: Tabular,
}

/// Chance of a reward after a sound step: 0.8 of the answers are right, 0.95 of which are graded so.
pub(super) const SOUND_VALUE: f64 = 0.76;
/// Tokens of a sound response where lengths differ.
pub(super) const SOUND_LENGTH: usize = 6;

impl Case {
    /// Responses of one length: [`LuckyGuess`] with two answers and one work token.
    ///
    /// # Errors
    /// When a knob is out of range.
    pub(super) fn equal(luck: f64, sound: f64) -> anyhow::Result<Case> {
        let family = LuckyGuess {
            luck,
            initial_sound: sound,
            answers: 2,
            work: 1,
            fillers: 1,
            ..LuckyGuess::default()
        };
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Case { luck, sound, flawed_length: None, tree, policy })
    }

    /// The flawed response has `length` tokens, the sound one [`SOUND_LENGTH`]; no other choice.
    ///
    /// # Errors
    /// When a knob is out of range.
    pub(super) fn ragged(luck: f64, length: usize) -> anyhow::Result<Case> {
        let family = Fork::two([SOUND_LENGTH, length], [SOUND_VALUE, luck], 0.5);
        let tree = family.tree()?;
        let policy = family.initial(&tree);
        Ok(Case { luck, sound: 0.5, flawed_length: Some(length), tree, policy })
    }
}
