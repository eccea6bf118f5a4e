//! The order of summation, which does not depend on the number of workers.

use grpo_lambda_decoder::model::ops::norm;
use grpo_lambda_decoder::model::weights::Parameters;

/// Values that are added element by element.
pub trait Summand: Clone {
    /// `self + right`, each element rounded once.
    fn add(&mut self, right: &Self);
    /// Copies `from`, which has the same shape.
    fn assign(&mut self, from: &Self);
}

impl Summand for Vec<f32> {
    fn add(&mut self, right: &Self) {
        norm::add(self, right);
    }
    fn assign(&mut self, from: &Self) {
        self.clear();
        self.extend_from_slice(from);
    }
}

impl Summand for Parameters<f32> {
    fn add(&mut self, right: &Self) {
        for (left, right) in self.values_mut().zip(right.values()) {
            norm::add(&mut left.data, &right.data);
        }
    }
    fn assign(&mut self, from: &Self) {
        for (to, from) in self.values_mut().zip(from.values()) {
            to.data.copy_from_slice(&from.data);
        }
    }
}

/// Sums leaves along a complete binary tree: `((l0 + l1) + (l2 + l3)) + ...`.
///
/// A binary counter. Two subtrees of one size are added as soon as the right one is complete, so that after `n` leaves one
/// buffer is kept per 1 in the binary digits of `n`: at most `log2(n)` for `n` leaves, a power of two, beside the leaf itself.
///
/// ```
/// use grpo_lambda_llm::step::collective::TreeSum;
///
/// let mut fold = TreeSum::default();
/// for leaf in [1e8f32, 1.0, -1e8, 1.0] {
///     fold.push(&vec![leaf]);
/// }
/// // (1e8 + 1) + (-1e8 + 1) loses both ones; from left to right the last would have been left.
/// assert_eq!(fold.root(), Some(&mut vec![0.0]));
/// assert_eq!(((1e8f32 + 1.0) - 1e8) + 1.0, 1.0);
/// ```
#[derive(Clone, Debug)]
pub struct TreeSum<B> {
    /// Complete subtrees, each larger than the one after it.
    open: Vec<B>,
    spare: Vec<B>,
    leaves: usize,
}

impl<B> Default for TreeSum<B> {
    fn default() -> Self {
        TreeSum { open: Vec::new(), spare: Vec::new(), leaves: 0 }
    }
}

impl<B: Summand> TreeSum<B> {
    /// Adds the next leaf.
    pub fn push(&mut self, leaf: &B) {
        let subtrees = self.leaves.trailing_ones();
        self.leaves += 1;
        let Some(left) = self.open.last_mut().filter(|_| subtrees > 0) else {
            let buffer = match self.spare.pop() {
                Some(mut buffer) => {
                    buffer.assign(leaf);
                    buffer
                }
                None => leaf.clone(),
            };
            self.open.push(buffer);
            return;
        };
        left.add(leaf);
        for _ in 1..subtrees {
            if let Some(right) = self.open.pop() {
                if let Some(left) = self.open.last_mut() {
                    left.add(&right);
                }
                self.spare.push(right);
            }
        }
    }

    /// The sum, when the leaves so far are those of a complete tree: 1, 2, 4, 8, ...
    pub fn root(&mut self) -> Option<&mut B> {
        match self.open.as_mut_slice() {
            [root] => Some(root),
            _ => None,
        }
    }

    /// Removes all leaves; buffers are kept.
    pub fn clear(&mut self) {
        self.spare.append(&mut self.open);
        self.leaves = 0;
    }

    /// Buffers made so far.
    pub fn buffers(&self) -> usize {
        self.open.len() + self.spare.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Leaves whose sum has other bits under other associations, with the sums written out.
    #[test]
    fn leaves_are_added_as_a_complete_binary_tree() {
        let l: [f32; 8] = [1e8, 9.0, -1e8, 5.0, 0.1, -3.0, 7.0, 0.3];
        let tree = ((l[0] + l[1]) + (l[2] + l[3])) + ((l[4] + l[5]) + (l[6] + l[7]));
        let chain = l.iter().fold(0.0, |a, b| a + b);
        let halves = ((l[0] + l[4]) + (l[2] + l[6])) + ((l[1] + l[5]) + (l[3] + l[7]));
        assert!(tree != chain && tree != halves && chain != halves, "{tree} {chain} {halves}: no test");
        let mut fold = TreeSum::default();
        l.iter().for_each(|x| fold.push(&vec![*x]));
        assert_eq!(fold.root().map(|r| r[0].to_bits()), Some(tree.to_bits()));
    }

    #[test]
    fn a_tree_of_two_to_the_k_leaves_keeps_k_buffers_and_uses_them_again() {
        for k in 0..7usize {
            let mut fold = TreeSum::default();
            for _ in 0..3 {
                fold.clear();
                (0..1usize << k).for_each(|i| fold.push(&vec![i as f32]));
                let n = (1 << k) as f32;
                assert_eq!(fold.root(), Some(&mut vec![n * (n - 1.0) / 2.0]));
            }
            assert_eq!(fold.buffers(), k.max(1));
        }
    }

    #[test]
    fn an_incomplete_tree_has_no_root() {
        let mut fold = TreeSum::default();
        for leaves in 0..20usize {
            assert_eq!(fold.root().is_some(), leaves.is_power_of_two(), "{leaves} leaves");
            fold.push(&vec![1.0]);
        }
    }
}
