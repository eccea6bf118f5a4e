//! [`CarryAdd`]: the sum of two numbers, digit by digit.

use super::{Family, knob, open_probability};
use crate::{Rules, Tabular, Tree, TreeError};

/// The base of the digits.
const BASE: u32 = 10;
/// The token that ends the sum.
const EOS: u32 = BASE;

/// The prompt is `a + b`; the response is the sum in decimal digits, the least significant first, then EOS, which is legal after every
/// digit. Rewarded iff all digits are there and right.
///
/// Shows: a task whose tokens are digits and whose difficulty is the carry. The initial policy writes the right digit with
/// probability `skill` and the digit of someone who forgot the carry with `slip`, and stops early with `stop`; one error leaves nothing to be won. `J* = 1`,
/// and for a sum of `n` digits `J = skill^n (1 - stop)^(n-1)`.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct CarryAdd {
    /// First number; `a + b` is below 1000.
    pub a: u32,
    /// Second number.
    pub b: u32,
    /// Initial probability of the right digit among digits, in `(0,1)`.
    pub skill: f64,
    /// Initial probability of the digit without the carry where that is another one, in `(0,1)`; `skill + slip < 1`.
    pub slip: f64,
    /// Initial probability of EOS before the last digit, in `(0,1)`.
    pub stop: f64,
}

impl Default for CarryAdd {
    fn default() -> CarryAdd {
        CarryAdd { a: 47, b: 85, skill: 0.6, slip: 0.2, stop: 0.1 }
    }
}

impl CarryAdd {
    /// The digits of the sum, least significant first, each with the digit of someone who forgot the carry into it.
    fn digits(&self) -> Vec<(u32, u32)> {
        let (mut a, mut b, mut carry) = (self.a, self.b, 0);
        let mut digits = Vec::new();
        while a + b + carry > 0 || digits.is_empty() {
            let plain = a % BASE + b % BASE;
            digits.push(((plain + carry) % BASE, plain % BASE));
            (a, b, carry) = (a / BASE, b / BASE, (plain + carry) / BASE);
        }
        digits
    }
}

impl Family for CarryAdd {
    const NAME: &'static str = "carry_add";
    const ABOUT: &'static str = "add two numbers digit by digit, the carry matters";

    fn tree(&self) -> Result<Tree, TreeError> {
        let CarryAdd { a, b, skill, slip, stop } = *self;
        knob(a < 1000, Self::NAME, "a", a, "below 1000")?;
        knob(b < 1000 - a, Self::NAME, "b", b, "below 1000 - a")?;
        open_probability(Self::NAME, "skill", skill)?;
        open_probability(Self::NAME, "slip", slip)?;
        knob(skill + slip < 1.0, Self::NAME, "slip", slip, "below 1 - skill")?;
        open_probability(Self::NAME, "stop", stop)?;
        let sum: Vec<u32> = self.digits().into_iter().map(|(digit, _)| digit).collect();
        let names = (0..BASE).map(|d| d.to_string()).chain(["EOS".into()]);
        Rules::new(names, sum.len() + 1).build(
            |prefix| match prefix.len() {
                0 => (0..BASE).collect(),
                n if n == sum.len() => vec![EOS],
                _ => (0..=EOS).collect(),
            },
            |response, _| f64::from(response[..response.len() - 1] == sum),
        )
    }

    fn initial(&self, tree: &Tree) -> Tabular {
        let digits = self.digits();
        Tabular::from_weights(tree, |node, edge| {
            let position = tree.depth(node);
            let Some(&(right, forgot)) = digits.get(position) else { return 1.0 };
            let stop = if position == 0 { 0.0 } else { self.stop };
            let slip = if forgot == right { 0.0 } else { self.slip };
            let others = BASE as usize - if forgot == right { 1 } else { 2 };
            match tree.token(edge) {
                EOS => stop,
                token if token == right => (1.0 - stop) * self.skill,
                token if token == forgot => (1.0 - stop) * slip,
                _ => (1.0 - stop) * (1.0 - self.skill - slip) / others as f64,
            }
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Oracle, Target};

    #[test]
    fn digits_by_hand() {
        // 47 + 85 = 132: 7 + 5 = 12, 4 + 8 + 1 = 13 (12 without the carry), 0 + 0 + 1.
        assert_eq!(CarryAdd::default().digits(), [(2, 2), (3, 2), (1, 0)]);
        assert_eq!(CarryAdd { a: 0, b: 0, ..CarryAdd::default() }.digits(), [(0, 0)]);
        assert_eq!(CarryAdd { a: 999, b: 0, ..CarryAdd::default() }.digits().len(), 3);
    }

    #[test]
    fn one_response_is_rewarded_and_an_error_leaves_nothing_to_be_won() {
        let family = CarryAdd::default();
        let tree = family.tree().unwrap();
        assert_eq!(tree.leaves().map(|l| tree.reward(l)).sum::<f64>(), 1.0);
        let Some(Target::Leaf(leaf)) = tree.find(&[2, 3, 1, EOS]) else { panic!("a response") };
        assert_eq!(tree.reward(leaf), 1.0);
        let oracle = Oracle::new(&tree, &family.initial(&tree));
        let Some(Target::Node(slipped)) = tree.find(&[2, 2]) else { panic!("a prefix") };
        assert_eq!(oracle.v[slipped], 0.0);
        // After `2` the slip has probability 0.9 * 0.2.
        assert!((oracle.visit[slipped] - 0.6 * 0.18).abs() < 1e-15);
    }
}
