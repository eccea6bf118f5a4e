//! [`PrefixTree`]: what the responses of a group that share a prefix have in common.

use crate::advantage::all_equal;

/// The mean reward of the responses that share a prefix, for every prefix of every response of a group.
///
/// ```text
/// V(u) = mean { r_i : y_i starts with u }            V(root) = mean r
/// ```
/// Built by sorting the responses: those that share a prefix are then neighbours, and a block of neighbours splits where the first two
/// of them part. Apart from the sort, time is the number of tokens plus comparisons of at most `g^2` numbers.
///
/// ```
/// use grpo_lambda::assignment::PrefixTree;
/// let tree = PrefixTree::new(&[(&[1, 2], 1.0), (&[1, 3], 0.0), (&[4], 0.5)]);
/// assert_eq!(tree.values(0), [0.5, 0.5, 1.0]); // everyone, those that begin with 1, itself
/// assert_eq!(tree.values(2), [0.5, 0.5]);
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct PrefixTree {
    values: Vec<Vec<f64>>,
    leaves: Vec<Vec<usize>>,
    siblings: Vec<Vec<Siblings>>,
}

/// The continuations among which a token was one, where a group's responses part.
#[derive(Clone, Debug, PartialEq)]
pub struct Siblings {
    /// The token's position.
    pub token: usize,
    /// `V` of every continuation, its own among them, in no particular order.
    pub values: Vec<f64>,
}

impl PrefixTree {
    /// The tree of responses given as tokens and reward.
    pub fn new(responses: &[(&[u32], f64)]) -> PrefixTree {
        let mut order: Vec<usize> = (0..responses.len()).collect();
        order.sort_by_key(|&i| responses[i].0);
        let shared = |pair: &[usize]| {
            let both = responses[pair[0]].0.iter().zip(responses[pair[1]].0);
            both.take_while(|(a, b)| a == b).count()
        };
        // common[j]: tokens that neighbours j and j + 1 share.
        let common: Vec<usize> = order.windows(2).map(shared).collect();
        let mut tree = PrefixTree {
            values: responses.iter().map(|(tokens, _)| vec![0.0; tokens.len() + 1]).collect(),
            leaves: responses.iter().map(|(tokens, _)| vec![0; tokens.len() + 1]).collect(),
            siblings: vec![Vec::new(); responses.len()],
        };
        let mut blocks = if order.is_empty() { Vec::new() } else { vec![(0, order.len(), 0)] };
        while let Some((low, high, depth)) = blocks.pop() {
            let members = &order[low..high];
            let value = mean_reward(members, responses);
            // The prefix at which the block splits, or ends.
            let first = responses[members[0]].0.len();
            let split = common[low..high - 1].iter().copied().fold(first, usize::min);
            for &i in members {
                tree.values[i][depth..=split].fill(value);
                tree.leaves[i][depth..=split].fill(members.len());
            }
            let mut continuations = Vec::new();
            let mut start = low;
            for end in low + 1..=high {
                if end == high || common[end - 1] == split {
                    // A response that ends here has no token to go on with.
                    if responses[order[start]].0.len() > split {
                        continuations.push((start, end));
                    }
                    start = end;
                }
            }
            if members.len() > 1 && continuations.len() > 1 {
                let values: Vec<f64> =
                    continuations.iter().map(|&(a, b)| mean_reward(&order[a..b], responses)).collect();
                for &i in continuations.iter().flat_map(|&(a, b)| &order[a..b]) {
                    tree.siblings[i].push(Siblings { token: split, values: values.clone() });
                }
            }
            blocks.extend(continuations.into_iter().map(|(a, b)| (a, b, split + 1)));
        }
        tree
    }

    /// `V(s_0) .. V(s_T)` of a response: before each of its tokens, and after the last.
    pub fn values(&self, response: usize) -> &[f64] {
        &self.values[response]
    }

    /// Numbers of responses that begin with the first `0 ..= T` tokens of a response: before each of its tokens, and after the last.
    ///
    /// ```
    /// use grpo_lambda::assignment::PrefixTree;
    /// let tree = PrefixTree::new(&[(&[1, 2], 1.0), (&[1, 3], 0.0), (&[4], 0.5)]);
    /// assert_eq!((tree.leaves(0), tree.leaves(2)), (&[3, 2, 1][..], &[3, 1][..]));
    /// ```
    pub fn leaves(&self, response: usize) -> &[usize] {
        &self.leaves[response]
    }

    /// The places where the responses that share a response's prefix part, in the order of its tokens.
    pub fn siblings(&self, response: usize) -> &[Siblings] {
        &self.siblings[response]
    }
}

/// The mean, exact where all agree.
fn mean_reward(members: &[usize], responses: &[(&[u32], f64)]) -> f64 {
    let rewards: Vec<f64> = members.iter().map(|&i| responses[i].1).collect();
    if all_equal(&rewards) { rewards[0] } else { rewards.iter().sum::<f64>() / rewards.len() as f64 }
}
