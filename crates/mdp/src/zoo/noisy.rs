//! [`Noisy`]: a grader that errs.

use super::{Family, knob};
use crate::{Rules, Tree, TreeError};

/// `length` votes `yes` or `no`, then EOS; graded right iff most are `yes`, and the grade is flipped with
/// probability `flip`.
///
/// Shows: rewards that the response does not determine. A flip only scales the gradient by `1 - 2 flip`, but
/// adds variance that no credit assignment can remove. `J* = 1 - flip`; the uniform initial policy has
/// `J = 1/2`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Noisy {
    /// Probability that the grade is flipped, in `[0, 1/2)`.
    pub flip: f64,
    /// Number of votes, odd.
    pub length: usize,
}

impl Default for Noisy {
    fn default() -> Noisy {
        Noisy { flip: 0.1, length: 5 }
    }
}

impl Family for Noisy {
    const NAME: &'static str = "noisy";
    const ABOUT: &'static str = "a majority vote, graded by a grader that errs";

    fn tree(&self) -> Result<Tree, TreeError> {
        let Noisy { flip, length } = *self;
        knob((0.0..0.5).contains(&flip), Self::NAME, "flip", flip, "in [0, 0.5)")?;
        knob(length % 2 == 1, Self::NAME, "length", length, "odd")?;
        Rules::new(["yes", "no", "EOS"], length + 1).build(
            |prefix| if prefix.len() == length { vec![2] } else { vec![0, 1] },
            |response, _| {
                let yes = response.iter().filter(|&&token| token == 0).count();
                if 2 * yes > length { 1.0 - flip } else { flip }
            },
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Oracle, Tabular};

    #[test]
    fn a_flip_scales_the_gradient_by_one_minus_twice_its_probability() {
        let clean = Noisy { flip: 0.0, length: 3 }.tree().unwrap();
        let noisy = Noisy { flip: 0.2, length: 3 }.tree().unwrap();
        let policy = Tabular::random(&clean, 1, 1.0);
        let gradients =
            Oracle::new(&clean, &policy).grad_j().into_iter().zip(Oracle::new(&noisy, &policy).grad_j());
        assert!(gradients.into_iter().all(|(a, b)| (0.6 * a - b).abs() < 1e-15));
    }
}
