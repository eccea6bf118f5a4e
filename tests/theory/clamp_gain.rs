//! The clamp, taken apart: a re-weighting of prompts plus an offset, which re-weights them, too.

use grpo_lambda::advantage::{Baseline, OutcomeAdvantage, Scale, Std};
use num_rational::Ratio;

const GROUP: usize = 8;

/// Advantages of a group with `right` right ones: of a right one, of a wrong one.
fn pair(clamp: Option<f64>, right: usize) -> [f64; 2] {
    let outcome = OutcomeAdvantage { baseline: Baseline::GroupMean, scale: Scale::Group(Std::TRL), clamp };
    let rewards = (0..GROUP).map(|i| Some(f64::from(u8::from(i < right)))).collect();
    let a = &outcome.of_batch(&[rewards])[0];
    [a[0], a[GROUP - 1]]
}

#[test]
fn the_clamp_shrinks_the_spread_of_every_mixed_group_and_adds_an_offset() {
    for right in 1..GROUP {
        let ([r, w], [cr, cw]) = (pair(None, right), pair(Some(-0.1), right));
        assert_eq!(r, cr);
        assert!(cr - cw < r - w && cw == -0.1);
        let offset = (right as f64 * cr + (GROUP - right) as f64 * cw) / GROUP as f64;
        assert!(offset > 0.0, "{right}: {offset}");
    }
}

#[test]
fn the_offset_depends_on_how_many_are_right_so_that_its_mean_push_is_not_zero() {
    // E[α_k (k - G p)] / (G p (1-p)), by enumeration of all 256 groups of eight.
    let p: f64 = 0.3;
    let mut push = 0.0;
    for bits in 0..1u32 << GROUP {
        let right = bits.count_ones() as usize;
        if right == 0 || right == GROUP {
            continue;
        }
        let [cr, cw] = pair(Some(-0.1), right);
        let k = right as f64;
        let offset = (k * cr + (GROUP as f64 - k) * cw) / GROUP as f64;
        let chance = p.powi(right as i32) * (1.0 - p).powi((GROUP - right) as i32);
        push += chance * offset * (k - GROUP as f64 * p) / (GROUP as f64 * p * (1.0 - p));
    }
    assert!(push.abs() > 0.05, "{push}");
}

type Rational = Ratio<i128>;

fn whole(n: usize) -> Rational {
    Rational::from_integer(n as i128)
}

/// `E[f(k)]` for `k` of Bin(n, p).
fn binomial(n: usize, p: Rational, f: impl Fn(usize) -> Rational) -> Rational {
    let choose = |k: usize| (0..k).fold(whole(1), |c, i| c * whole(n - i) / whole(i + 1));
    let power = |x: Rational, n: usize| (0..n).fold(whole(1), |product, _| product * x);
    (0..=n).map(|k| choose(k) * power(p, k) * power(whole(1) - p, n - k) * f(k)).sum()
}

/// Made-up contrasts and offsets of a group of `n`, exactly: E[g] of a response over ∇p is the Stein form, the offset enters by its slope, and α must
/// be the group's mean, not the mean of the two advantages.
#[test]
fn the_weight_of_a_prompt_has_its_stein_form_in_exact_rationals() {
    let ratio = |a: i128, b: i128| Rational::new(a, b);
    for n in [2, 3, 5, 8] {
        let right = |k: usize| ratio((k * k + 3) as i128 % 7, 4);
        let wrong = |k: usize| -ratio((2 * k + 1) as i128 % 5, 3);
        let (contrast, mean) = (
            |k: usize| right(k) - wrong(k),
            |k: usize| (whole(k) * right(k) + whole(n - k) * wrong(k)) / whole(n),
        );
        let half = |k: usize| (right(k) + wrong(k)) / whole(2);
        for p in [ratio(1, 10), ratio(1, 2), ratio(9, 10)] {
            let both = p * (whole(1) - p);
            // Given its reward a response is independent of the others, with E[∇log π] = ∇p / p or -∇p / (1 - p).
            let enumerated = binomial(n, p, |k| {
                (whole(k) * right(k) / p - whole(n - k) * wrong(k) / (whole(1) - p)) / whole(n)
            });
            let parts = |offset: &dyn Fn(usize) -> Rational| {
                binomial(n, p, |k| {
                    (contrast(k) * whole(k * (n - k)) / whole(n) + offset(k) * (whole(k) - whole(n) * p))
                        / (whole(n) * both)
                })
            };
            assert_eq!(enumerated, parts(&mean), "{n} {p}");
            assert!(n == 2 || enumerated != parts(&half), "the mean of the two advantages is another number");
            let stein = whole(n - 1) / whole(n) * binomial(n - 2, p, |k| contrast(k + 1))
                + binomial(n - 1, p, |k| mean(k + 1) - mean(k));
            assert_eq!(enumerated, stein, "{n} {p}");
            // A constant offset has no slope.
            assert_eq!(parts(&|_| whole(3)), parts(&|_| whole(0)), "{n} {p}");
        }
    }
}

/// Positive-only and negative-only training, A = 1 for right responses or -1 for wrong ones, have the same expected update: ∇p each.
#[test]
fn right_ones_alone_and_wrong_ones_alone_move_a_prompt_equally_in_expectation() {
    for n in [1, 4, 8] {
        for p in [Rational::new(1, 20), Rational::new(1, 2), Rational::new(19, 20)] {
            let positive = binomial(n, p, |k| whole(k) / p / whole(n));
            let negative = binomial(n, p, |k| whole(n - k) / (whole(1) - p) / whole(n));
            assert_eq!((positive, negative), (whole(1), whole(1)), "{n} {p}");
        }
    }
}

/// A clamp pays on average if and only if it is above the least z-score of a group, that of one wrong response among right ones.
#[test]
fn the_clamp_pays_above_the_least_score_only() {
    let least = -((GROUP - 1) as f64) / (GROUP as f64).sqrt();
    for (clamp, pays) in [(-2.5, false), (least, false), (least + 1e-3, true), (-0.1, true), (0.0, true)] {
        let p: f64 = 0.5;
        let mut mean = 0.0;
        for right in 1..GROUP {
            let [own, wrong] = pair(Some(clamp), right);
            let ways = (0..right).fold(1.0, |c, i| c * (GROUP - i) as f64 / (i + 1) as f64);
            mean += ways * p.powi(GROUP as i32) * (right as f64 * own + (GROUP - right) as f64 * wrong);
        }
        assert_eq!(mean > 1e-9, pays, "{clamp}: {mean}");
    }
}
