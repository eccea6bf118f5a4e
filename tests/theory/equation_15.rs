//! Eq. 13-15: the recursive trace is the sum. In floating point `traces` compares it with its matrix.

use grpo_lambda::trace::scan;
use num_rational::Ratio;
use proptest::prelude::*;

/// `Σ_{l<=t} q^l x_{t-l}` with the powers multiplied out.
fn sum_of_powers(q: Ratio<i128>, x: &[Ratio<i128>], t: usize) -> Ratio<i128> {
    let (mut power, mut sum) = (Ratio::from_integer(1), Ratio::from_integer(0));
    for l in 0..=t {
        sum += power * x[t - l];
        power *= q;
    }
    sum
}

proptest! {
    #[test]
    fn the_recursion_is_the_sum_exactly_in_rationals(
        x in proptest::collection::vec(-64i128..=64, 1..=8), (n, d) in (0i128..=100, Just(100i128))
    ) {
        let q = Ratio::new(n, d);
        let x: Vec<_> = x.into_iter().map(|x| Ratio::new(x, 16)).collect();
        let mut z = x.clone();
        scan::decayed_prefix(q, &mut z);
        for t in 0..x.len() {
            prop_assert_eq!(z[t], sum_of_powers(q, &x, t));
        }
    }
}
