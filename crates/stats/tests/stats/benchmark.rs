//! Tests of the statistics of evaluations against enumeration, hand values and simulation.

use grpo_lambda_stats::{
    Interval, fewest_discordant, least_detectable_difference, least_detectable_mean, mcnemar_power,
    mean_of_independent, normal_interval, pass_at_k, sign_flip_test, wilson,
};
use proptest::prelude::*;
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{Binomial, Discrete};

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not {b}");
}

#[test]
fn pass_at_k_is_the_share_of_subsets_with_a_success() {
    for n in 1..=9u64 {
        for c in 0..=n {
            // Attempt i succeeded for i < c.
            let mut subsets = vec![(0u64, 0u64); n as usize + 1];
            for mask in 1u64..1 << n {
                let of_size = &mut subsets[mask.count_ones() as usize];
                of_size.0 += 1;
                of_size.1 += u64::from(mask & ((1 << c) - 1) != 0);
            }
            for k in 1..=n {
                let (all, with) = subsets[k as usize];
                close(pass_at_k(n, c, k).expect("k ≤ n"), with as f64 / all as f64, 1e-14);
            }
            assert_eq!(pass_at_k(n, c, n + 1), None);
        }
    }
    // C(196, 100)/C(200, 100) = 100·99·98·97/(200·199·198·197), by hand 0.060627...
    let by_hand = (100.0 * 99.0 * 98.0 * 97.0) / (200.0 * 199.0 * 198.0 * 197.0);
    close(pass_at_k(200, 4, 100).expect("k ≤ n"), 1.0 - by_hand, 1e-13);
}

#[test]
fn pass_at_k_is_unbiased_and_the_plug_in_is_not() {
    // The expectation over c ~ Binomial(n, p), summed exactly, is 1 − (1 − p)ᵏ.
    for (n, k, p) in [(8, 1, 0.3), (8, 4, 0.3), (16, 8, 0.05), (5, 5, 0.9)] {
        let count = Binomial::new(p, n).expect("a probability");
        let expected = |f: &dyn Fn(u64) -> f64| (0..=n).map(|c| count.pmf(c) * f(c)).sum::<f64>();
        let truth = 1.0 - (1.0 - p).powi(k);
        close(expected(&|c| pass_at_k(n, c, k as u64).expect("k ≤ n")), truth, 1e-12);
        let plug_in = expected(&|c| 1.0 - (1.0 - c as f64 / n as f64).powi(k));
        assert_eq!(k == 1, (plug_in - truth).abs() < 1e-12, "{plug_in} and {truth}");
    }
}

proptest! {
    #[test]
    fn the_sign_flip_test_counts_every_flip(d in proptest::collection::vec(-6i64..=6, 0..=12)) {
        let observed = d.iter().sum::<i64>().abs();
        let flipped = |mask: u32| d.iter().enumerate().map(|(i, v)| if mask >> i & 1 == 1 { -v } else { *v }).sum::<i64>();
        let flips = 1u32 << d.len();
        let extreme = (0..flips).filter(|&mask| flipped(mask).abs() >= observed).count();
        let p = sign_flip_test(&d).expect("little work");
        prop_assert!((p - extreme as f64 / f64::from(flips)).abs() < 1e-12);
        // A common unit, the order and pairs that tie change nothing.
        let scaled: Vec<i64> = d.iter().rev().map(|v| 1000 * v).chain([0, 0]).collect();
        prop_assert!((sign_flip_test(&scaled).expect("little work") - p).abs() < 1e-12);
    }
}

#[test]
fn the_sign_flip_test_of_single_attempts_is_mcnemars() {
    // b and c discordant problems: 2 P(X ≥ max(b, c)), X ~ Binomial(b + c, 1/2).
    for (b, c) in [(9u64, 2u64), (40, 25), (300, 240)] {
        let d: Vec<i64> =
            std::iter::repeat_n(1, b as usize).chain(std::iter::repeat_n(-1, c as usize)).collect();
        let fair = Binomial::new(0.5, b + c).expect("a probability");
        let tail: f64 = (b.max(c)..=b + c).map(|x| fair.pmf(x)).sum();
        close(sign_flip_test(&d).expect("little work"), 2.0 * tail, 1e-9);
    }
    // 9 to 2: (C(11,9) + C(11,10) + C(11,11)) · 2 / 2¹¹ = 134/2048.
    let d: Vec<i64> = [1; 9].into_iter().chain([-1; 2]).collect();
    close(sign_flip_test(&d).expect("little work"), 134.0 / 2048.0, 1e-15);
    assert_eq!(
        (sign_flip_test(&[]), sign_flip_test(&[0, 0]), sign_flip_test(&[1, -1])),
        (Some(1.0), Some(1.0), Some(1.0))
    );
    assert_eq!(sign_flip_test(&[i64::MAX, 1]), None);
    assert_eq!(sign_flip_test(&[1 << 40, 3]), None);
}

#[test]
fn the_power_of_mcnemars_test_is_that_of_all_outcomes() {
    // Every sequence of n problems: concordant, for one model, for the other.
    for (n, discordance, difference) in [(7u32, 0.9, 0.8), (8, 0.7, 0.7), (9, 0.8, 0.3), (8, 1.0, 0.0)] {
        let side = [(discordance + difference) / 2.0, (discordance - difference) / 2.0, 1.0 - discordance];
        let mut power = 0.0;
        for code in 0..3usize.pow(n) {
            let kinds = (0..n).map(|i| code / 3usize.pow(i) % 3);
            let chance: f64 = kinds.clone().map(|kind| side[kind]).product();
            let d: Vec<i64> = kinds.map(|kind| [1, -1, 0][kind]).collect();
            power += chance * f64::from(sign_flip_test(&d).expect("little work") <= 0.05 + 1e-12);
        }
        close(mcnemar_power(u64::from(n), discordance, difference, 0.05), power, 1e-10);
    }
}

#[test]
fn the_power_of_mcnemars_test_is_how_often_it_finds_the_difference() {
    let (n, discordance, difference) = (80, 0.3, 0.18);
    let mut rng = ChaCha8Rng::seed_from_u64(3);
    let trials = 2000;
    let found = (0..trials).filter(|_| {
        let draw = |u: f64| {
            i64::from(u < (discordance + difference) / 2.0)
                - i64::from(u > 1.0 - (discordance - difference) / 2.0)
        };
        let d: Vec<i64> = (0..n).map(|_| draw(rng.random())).collect();
        sign_flip_test(&d).expect("little work") <= 0.05
    });
    let power = mcnemar_power(n, discordance, difference, 0.05);
    close(found.count() as f64 / f64::from(trials), power, 4.0 * (power * (1.0 - power) / 2000.0).sqrt());
    assert!(mcnemar_power(n, discordance, 0.0, 0.05) <= 0.05, "the size of an exact test");
}

#[test]
fn the_least_detectable_difference_has_the_power_asked_for() {
    for (n, discordance) in [(500, 0.2), (83, 0.4), (30, 0.5)] {
        let least = least_detectable_difference(n, discordance, 0.05, 0.8).expect("enough problems");
        close(mcnemar_power(n, discordance, least, 0.05), 0.8, 1e-3);
        // The textbook approximation (Connor 1987) is near for many problems: δ = (1.96 √ψ + 0.84 √(ψ − δ²)) / √n.
        let normal = |d: f64| {
            (1.959_964 * discordance.sqrt() + 0.841_621 * (discordance - d * d).sqrt()) / (n as f64).sqrt()
        };
        assert!((normal(least) - least).abs() < 0.15 * least, "{least} and {}", normal(least));
    }
    // Five problems never suffice, and neither does a discordance of 0.
    assert_eq!(least_detectable_difference(5, 1.0, 0.05, 0.8), None);
    assert_eq!(least_detectable_difference(500, 0.0, 0.05, 0.8), None);
    assert_eq!([0.5, 0.1, 0.05, 0.03125, 0.01].map(fewest_discordant), [2, 5, 6, 6, 8]);
    // (1.959964 + 0.841621) · 2 / 10
    close(least_detectable_mean(100, 2.0, 0.05, 0.8), 0.560_317, 1e-6);
}

#[test]
fn the_interval_of_a_mean_of_proportions_covers_it_and_has_width_at_zero() {
    // Summed over all outcomes of two benchmarks of different sizes, on a grid of accuracies.
    let sizes = [12u64, 40];
    let wilsons: Vec<Vec<Interval>> =
        sizes.iter().map(|&n| (0..=n).filter_map(|k| wilson(k, n, 0.95)).collect()).collect();
    let mut coverages = Vec::new();
    for (p1, p2) in (1..10).flat_map(|i| (1..10).map(move |j| (f64::from(i) / 10.0, f64::from(j) / 10.0))) {
        let pmf = |p, n, k| Binomial::new(p, n).expect("a probability").pmf(k);
        let mut coverage = 0.0;
        for (a, first) in wilsons[0].iter().enumerate() {
            for (b, second) in wilsons[1].iter().enumerate() {
                let both = mean_of_independent(&[*first, *second]).expect("parts");
                if both.contains(f64::midpoint(p1, p2)) {
                    coverage += pmf(p1, sizes[0], a as u64) * pmf(p2, sizes[1], b as u64);
                }
            }
        }
        coverages.push(coverage);
    }
    let mean = coverages.iter().sum::<f64>() / coverages.len() as f64;
    close(mean, 0.95, 0.01);
    assert!(coverages.iter().all(|c| *c > 0.9), "{coverages:?}");
    // Nothing right anywhere is no proof of 0.
    let none = mean_of_independent(&[wilson(0, 30, 0.95).expect("n"), wilson(0, 83, 0.95).expect("n")])
        .expect("parts");
    assert!(none.mid == 0.0 && none.low == 0.0 && none.high > 0.05, "{none:?}");
    // One part is itself, and k equal symmetric parts are narrower by √k.
    let part = normal_interval(0.4, 0.1, 0.95);
    assert_eq!(mean_of_independent(&[part]).map(|i| (i.low, i.high)), Some((part.low, part.high)));
    close(mean_of_independent(&[part; 4]).expect("parts").width(), part.width() / 2.0, 1e-15);
    assert_eq!(mean_of_independent(&[]), None);
}
