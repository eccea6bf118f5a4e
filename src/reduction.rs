//! From lengths to the weight of each token in the loss.

use crate::equation::{BatchSize, number};

/// The reduction of token losses to one number. `B` is the number of responses of the batch (all groups), `T_i` their lengths.
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
    /// Every token of a group counts the same, and every group: weight `1/(N sum_{j in group} T_j)` of `N` groups. TRL's `bnpo` when
    /// a micro-batch is a group: a token mean over the local batch, averaged over local batches.
    GroupTokenMean,
    /// Every token counts `1/(B L)` with a constant `L`: Dr. GRPO (`L` = maximum completion length), and with `L = 1` the
    /// sum over tokens of REINFORCE and RLOO.
    Constant(
        /// `L`, positive.
        f64,
    ),
}

impl Reduction {
    /// The weight of a token in each response of one group. `lengths[i]` is `None` for a masked response.
    ///
    /// ```
    /// use grpo_lambda::reduction::Reduction;
    /// assert_eq!(Reduction::PerResponse.weights(&[Some(1), Some(4)]), [0.5, 0.125]);
    /// assert_eq!(Reduction::TokenMean.weights(&[Some(1), Some(4)]), [0.2, 0.2]);
    /// assert_eq!(Reduction::Constant(10.0).weights(&[Some(1), None]), [0.05, 0.0]);
    /// ```
    pub fn weights(self, lengths: &[Option<usize>]) -> Vec<f64> {
        self.weights_of_groups(&[lengths.to_vec()])
    }

    /// The weight of a token in each response of a batch, in flat order.
    ///
    /// ```
    /// use grpo_lambda::reduction::Reduction;
    /// let groups = [vec![Some(1), Some(4)], vec![Some(2), Some(3)]];
    /// assert_eq!(Reduction::TokenMean.weights_of_groups(&groups), [0.1; 4]);
    /// assert_eq!(Reduction::GroupTokenMean.weights_of_groups(&[vec![Some(1)], vec![Some(4)]]), [0.5, 0.125]);
    /// ```
    pub fn weights_of_groups(self, groups: &[Vec<Option<usize>>]) -> Vec<f64> {
        let responses: usize = groups.iter().map(Vec::len).sum();
        let tokens_of = |group: &[Option<usize>]| group.iter().flatten().sum::<usize>() as f64;
        let tokens: f64 = groups.iter().map(|g| tokens_of(g)).sum();
        let of_group = |group: &Vec<Option<usize>>| {
            let own = tokens_of(group);
            let weight = |len: usize| match self {
                Reduction::PerResponse => 1.0 / (responses as f64 * len as f64),
                Reduction::TokenMean => 1.0 / tokens,
                Reduction::GroupTokenMean => 1.0 / (groups.len() as f64 * own),
                Reduction::Constant(l) => 1.0 / (responses as f64 * l),
            };
            group.iter().map(|len| len.map_or(0.0, weight)).collect::<Vec<_>>()
        };
        groups.iter().flat_map(of_group).collect()
    }

    /// `w_i = ..`, with the counts of a batch of this size.
    pub fn equation(self, size: &BatchSize) -> String {
        let (responses, longest) = (size.responses(), size.max_len);
        let all = responses * longest;
        match self {
            Reduction::PerResponse => {
                format!("w_i = 1/(B T_i) = 1/({responses} T_i); 1/{all} at T_i = {longest}")
            }
            Reduction::TokenMean => {
                format!("w_i = 1/sum_j T_j; 1/{all} when all {responses} responses have {longest} tokens")
            }
            Reduction::GroupTokenMean => format!(
                "w_i = 1/(N sum_j T_j) = 1/({} sum_j T_j), j in the group of i; 1/{all} when its {} responses have {longest} tokens",
                size.groups, size.group_size
            ),
            Reduction::Constant(l) => {
                let product = number(responses as f64 * l);
                format!("w_i = 1/(B L) = 1/({responses} x {}) = 1/{product}", number(l))
            }
        }
    }
}
