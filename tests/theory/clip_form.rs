//! The clip of the main text against the one the algorithms print.

use grpo_lambda::surrogate::Surrogate;
use proptest::prelude::*;

const PPO: Surrogate = Surrogate::Clip { low: 0.2, high: 0.2 };
const PRINTED: Surrogate = Surrogate::Printed { high: 0.2 };

proptest! {
    #[test]
    fn they_differ_exactly_where_the_advantage_is_negative_and_the_ratio_outside(z in -2.0..2.0f64, a in -3.0..3.0f64) {
        let rho = z.exp();
        prop_assume!((rho - 0.8).abs() > 1e-6 && (rho - 1.2).abs() > 1e-6 && a.abs() > 1e-6);
        let differ = PPO.at(z, a).loss != PRINTED.at(z, a).loss;
        prop_assert_eq!(differ, a < 0.0 && !(0.8..=1.2).contains(&rho));
    }

    #[test]
    fn the_printed_loss_never_uses_its_lower_bound(z in -3.0..3.0f64, a in -3.0..3.0f64) {
        let rho = z.exp();
        let literal = -rho.min(rho.clamp(0.8, 1.2)) * a;
        prop_assert!((PRINTED.at(z, a).loss.value - literal).abs() < 1e-13);
        prop_assert!((literal + rho.min(1.2) * a).abs() < 1e-13);
    }
}
