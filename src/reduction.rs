//! From lengths to the weight of each token in the loss.

/// How token losses become one number. `B` is the number of responses of the batch (all groups), `T_i` their lengths.
///
/// Masked responses keep their place in `B` but carry no weight and no tokens, as in TRL.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum Reduction {
    /// Every response counts the same: weight `1/(B T_i)`. DeepSeekMath's GRPO, TRL's `grpo`.
    ///
    /// Not a gradient of expected reward when lengths vary: each response's score is divided by its own length.
    PerResponse,
    /// Every token of the batch counts the same: weight `1/sum_j T_j`. TRL's `bnpo` and `dapo`, DAPO.
    TokenMean,
    /// Every token counts `1/(B L)` with a constant `L`: Dr. GRPO (`L` = maximum completion length), and with `L = 1` the
    /// sum over tokens of REINFORCE and RLOO.
    Constant(
        /// `L`, positive.
        f64,
    ),
}

impl Reduction {
    /// The weight of a token in each response. `lengths[i]` is `None` for a masked response.
    ///
    /// ```
    /// use grpo_lambda::reduction::Reduction;
    /// assert_eq!(Reduction::PerResponse.weights(&[Some(1), Some(4)]), [0.5, 0.125]);
    /// assert_eq!(Reduction::TokenMean.weights(&[Some(1), Some(4)]), [0.2, 0.2]);
    /// assert_eq!(Reduction::Constant(10.0).weights(&[Some(1), None]), [0.05, 0.0]);
    /// ```
    pub fn weights(self, lengths: &[Option<usize>]) -> Vec<f64> {
        let responses = lengths.len() as f64;
        let tokens: usize = lengths.iter().flatten().sum();
        let of = |len: usize| match self {
            Reduction::PerResponse => 1.0 / (responses * len as f64),
            Reduction::TokenMean => 1.0 / tokens as f64,
            Reduction::Constant(l) => 1.0 / (responses * l),
        };
        lengths.iter().map(|len| len.map_or(0.0, of)).collect()
    }
}
