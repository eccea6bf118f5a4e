use grpo_lambda_stats::{
    Bootstrap, Estimate, Interval, clopper_pearson, expected_max_normal, holm, iqm, mean, normal_interval,
    paired_permutation, probability_of_improvement, quantile, standard_error, t_interval, two_proportions,
    variance, wilson,
};
use rand::{RngExt, SeedableRng};
use rand_chacha::ChaCha8Rng;
use statrs::distribution::{Binomial, ContinuousCDF, Discrete, DiscreteCDF, Normal};

fn close(a: f64, b: f64, tolerance: f64) {
    assert!((a - b).abs() <= tolerance, "{a} is not {b}");
}

/// Standard normal values by inversion.
fn normals(rng: &mut ChaCha8Rng, n: usize) -> Vec<f64> {
    (0..n).map(|_| Normal::standard().inverse_cdf(rng.random::<f64>().max(1e-300))).collect()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[test]
fn moments_by_hand_and_under_an_offset() {
    let values = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0];
    assert_eq!((mean(&values), variance(&values, 0)), (Some(5.0), Some(4.0)));
    close(variance(&values, 1).unwrap_or(0.0), 32.0 / 7.0, 1e-15);
    close(standard_error(&values).unwrap_or(0.0), (4.0f64 / 7.0).sqrt(), 1e-15);
    // The one-pass formula loses every digit here.
    let shifted = values.map(|v| v + 1e9);
    assert_eq!(variance(&shifted, 0), Some(4.0));
    assert_eq!((mean(&[]), variance(&[], 0), standard_error(&[1.0])), (None, None, None));
}

#[test]
fn quantiles_of_type_seven() {
    // R: quantile(c(1, 2, 4, 8, 16), c(0, .1, .5, .9, 1))
    let values = [16.0, 8.0, 4.0, 2.0, 1.0];
    let found = [0.0, 0.1, 0.5, 0.9, 1.0].map(|q| quantile(&values, q).unwrap_or(f64::NAN));
    found.iter().zip([1.0, 1.4, 4.0, 12.8, 16.0]).for_each(|(a, b)| close(*a, b, 1e-14));
    assert_eq!((quantile(&[], 0.5), quantile(&[7.0], 0.3)), (None, Some(7.0)));
}

#[test]
fn iqm_exact_cases_and_invariances() {
    assert_eq!(iqm(&[]), None);
    assert_eq!((iqm(&[5.0]), iqm(&[1.0, 3.0])), (Some(5.0), Some(2.0)));
    // n = 3: the stretch [0.75, 2.25] takes 1/4 + 1 + 1/4 of 3/2.
    close(iqm(&[0.0, 6.0, 30.0]).unwrap_or(0.0), (0.25 * 0.0 + 6.0 + 0.25 * 30.0) / 1.5, 1e-15);
    assert_eq!(iqm(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0]), Some(4.5));
    // Every value written four times leaves the distribution, and so the mass-trimmed mean, as it is.
    let values = [0.3, -1.0, 2.5, 7.0, 0.1, 0.2, 11.0];
    let fourfold = values.repeat(4);
    let whole = sorted(&fourfold)[7..21].iter().sum::<f64>() / 14.0;
    close(iqm(&values).unwrap_or(0.0), whole, 1e-14);
    close(iqm(&fourfold).unwrap_or(0.0), whole, 1e-14);
    // Affine maps commute with it, reflection included.
    let mapped = values.map(|v| 3.0 - 2.0 * v);
    close(iqm(&mapped).unwrap_or(0.0), 3.0 - 2.0 * whole, 1e-13);
}

#[test]
fn wilson_ends_solve_the_score_equation() {
    let i = wilson(8, 10, 0.95).expect("trials");
    close(i.low, 0.490_162_5, 1e-7);
    close(i.high, 0.943_317_8, 1e-7);
    let z2 = 1.959_963_984_540_054f64.powi(2);
    for (k, n) in [(1u64, 7u64), (8, 10), (250, 1000)] {
        let i = wilson(k, n, 0.95).expect("trials");
        for p in [i.low, i.high] {
            close((i.mid - p).powi(2) * n as f64, z2 * p * (1.0 - p), 1e-12 * n as f64);
        }
    }
    assert_eq!(wilson(0, 0, 0.95), None);
    assert_eq!(wilson(10, 10, 0.95).map(|i| i.high), Some(1.0));
}

#[test]
fn clopper_pearson_ends_have_the_binomial_tails() {
    for (k, n) in [(1u64, 7u64), (8, 10), (40, 100)] {
        let i = clopper_pearson(k, n, 0.95).expect("trials");
        let at = |p: f64| Binomial::new(p, n).expect("a proportion");
        close(1.0 - at(i.low).cdf(k - 1), 0.025, 1e-9);
        close(at(i.high).cdf(k), 0.025, 1e-9);
    }
    let none = clopper_pearson(0, 10, 0.95).expect("trials");
    // The rule (α/2)^(1/n) for no successes.
    close(none.high, 1.0 - 0.025f64.powf(0.1), 1e-9);
    assert_eq!(none.low, 0.0);
}

/// Counts at which the library's search for a quantile does not end.
#[test]
fn clopper_pearson_ends_for_ten_million_trials() {
    let n = 10_000_000u64;
    let at = |k| clopper_pearson(k, n, 0.95).expect("trials");
    // The rule (α/2)^(1/n), and the limit of rare events: half the χ² quantiles over n.
    let rare = -0.025f64.ln() / n as f64;
    close(at(0).high / rare, 1.0, 1e-6);
    close((1.0 - at(n).low) / rare, 1.0, 1e-6);
    close((1.0 - at(n - 1).low) * n as f64, 5.571_643, 1e-4);
    close(at(n / 2).width(), 2.0 * 1.959_963_984_5 * 0.5 / (n as f64).sqrt(), 1e-6);
}

#[test]
fn coverage_of_proportion_intervals_summed_exactly() {
    let n = 30;
    let wilson: Vec<Interval> = (0..=n).filter_map(|k| wilson(k, n, 0.95)).collect();
    let exact: Vec<Interval> = (0..=n).filter_map(|k| clopper_pearson(k, n, 0.95)).collect();
    let coverage = |of: &[Interval], p: f64| -> f64 {
        let binomial = Binomial::new(p, n).expect("a proportion");
        (0..=n).filter(|&k| of[k as usize].contains(p)).map(|k| binomial.pmf(k)).sum()
    };
    let grid: Vec<f64> = (1..200).map(|i| f64::from(i) / 200.0).collect();
    assert!(grid.iter().all(|&p| coverage(&exact, p) >= 0.95 - 1e-9));
    let average = grid.iter().map(|&p| coverage(&wilson, p)).sum::<f64>() / grid.len() as f64;
    close(average, 0.95, 0.01);
}

#[test]
fn student_and_normal_intervals() {
    let t = t_interval(&[1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0], 0.95).expect("ten values");
    // t(0.975; 9) = 2.262157, s = 3.027650
    close(t.high - t.mid, 2.262_157_16 * 3.027_650_354 / 10f64.sqrt(), 1e-6);
    close(normal_interval(0.0, 1.0, 0.99).high, 2.575_829_303_5, 1e-9);
    close(Estimate { value: 1.0, se: 2.0 }.interval(0.95).width(), 4.0 * 1.959_963_984_5, 1e-8);
    assert_eq!(t_interval(&[1.0], 0.95), None);
}

/// Squares, and sums, overflow or underflow where the result does not.
#[test]
fn values_near_the_ends_of_the_numbers() {
    let ends = |values: &[f64]| t_interval(values, 0.95).map(|i| [i.low, i.mid, i.high]);
    assert_eq!(ends(&[1e308, -1e308]), None, "the half width is 1.27e309");
    assert_eq!(ends(&[1.7e308, 1.7e308]), Some([1.7e308; 3]));
    let unit = ends(&[1.0, 3.0, 4.0, 8.0]).expect("four values");
    // Powers of two scale without rounding.
    for scale in [2f64.powi(1015), 2f64.powi(-1000)] {
        let scaled = ends(&[1.0, 3.0, 4.0, 8.0].map(|v| v * scale)).expect("four values");
        scaled.iter().zip(unit).for_each(|(x, y)| close(x / scale, y, 1e-12));
    }
}

#[test]
fn the_bootstrap_covers_the_truth_about_as_often_as_it_says() {
    let mut rng = ChaCha8Rng::seed_from_u64(7);
    let (trials, mut hits) = (300, 0);
    for seed in 0..trials {
        // One distribution for all tasks: the interquartile mean of all scores is near 0 by symmetry.
        let tasks: Vec<Vec<f64>> = (0..3).map(|_| normals(&mut rng, 12)).collect();
        let found = Bootstrap { resamples: 400, level: 0.9, seed }.iqm(&tasks).expect("runs");
        assert!(found.low <= found.high);
        hits += usize::from(found.contains(0.0));
    }
    close(hits as f64 / trials as f64, 0.9, 0.06);
}

#[test]
fn the_bootstrap_keeps_strata_apart() {
    // Constant tasks: no resample within tasks can change the statistic.
    let tasks = [vec![0.0; 4], vec![1.0; 4]];
    let found = Bootstrap::default().iqm(&tasks).expect("runs");
    assert_eq!((found.low, found.mid, found.high), (0.5, 0.5, 0.5));
    let other = Bootstrap { seed: 1, ..Bootstrap::default() };
    let runs = [vec![0.1, 0.7, 0.4, 0.9, 0.3]];
    assert_ne!(other.iqm(&runs), Bootstrap::default().iqm(&runs));
    assert_eq!(Bootstrap::default().iqm(&[]), None);
    assert_eq!(Bootstrap::default().iqm(&[vec![1.0, 2.0], vec![]]), None);
}

#[test]
fn probability_of_improvement_is_antisymmetric_and_ordinal() {
    let x = [vec![1.0, 4.0, 4.0], vec![0.0, 2.0]];
    let y = [vec![2.0, 4.0], vec![0.0, 0.0, 5.0]];
    let p = probability_of_improvement(&x, &y).expect("runs");
    // Task 1: 0, then 1.5 twice, of 6. Task 2: 1, then 2, of 6.
    close(p, (3.0 / 6.0 + 3.0 / 6.0) / 2.0, 1e-15);
    close(probability_of_improvement(&y, &x).expect("runs"), 1.0 - p, 1e-15);
    let cubed =
        |z: &[Vec<f64>]| z.iter().map(|r| r.iter().map(|v| v.powi(3)).collect()).collect::<Vec<Vec<f64>>>();
    assert_eq!(probability_of_improvement(&cubed(&x), &cubed(&y)), Some(p));
    let sure = Bootstrap::default().probability_of_improvement(&[vec![5.0, 6.0]], &[vec![1.0, 2.0]]);
    assert_eq!(sure.map(|i| (i.low, i.mid, i.high)), Some((1.0, 1.0, 1.0)));
    assert_eq!(probability_of_improvement(&[], &[]), None);
}

#[test]
fn permutation_counts_by_hand_and_draws_agree_with_the_count() {
    let zero = [0.0; 3];
    let p = |d: &[f64]| paired_permutation(d, &vec![0.0; d.len()], 20_000, 3).expect("pairs");
    // |±1 ±2 ±3| ≥ 2 for 1 + (−2) + 3: sums ±6, ±4, ±2, ±0, so 6 of 8.
    assert_eq!(p(&[1.0, -2.0, 3.0]).p, 0.75);
    assert_eq!(p(&zero).p, 1.0);
    // 0.1 + 0.2 − 0.3 is a tie with 0 on paper.
    assert_eq!(p(&[0.1, 0.2, -0.3]).p, 1.0);
    // 21 equal differences: exactly 2 of 2²¹ flips are as extreme, so no draw should be.
    let many = p(&[1.0; 21]);
    assert!(!many.exact && many.p <= 3.0 / 20_001.0);
    // 20 pairs counted, the same with a pair that cannot matter drawn.
    let mut rng = ChaCha8Rng::seed_from_u64(5);
    let mut d: Vec<f64> = normals(&mut rng, 20).iter().map(|v| v + 0.3).collect();
    let exact = p(&d);
    d.push(0.0);
    let drawn = p(&d);
    assert!(exact.exact && !drawn.exact);
    close(exact.p, drawn.p, 4.0 * (exact.p * (1.0 - exact.p) / 20_000.0).sqrt());
    assert_eq!(paired_permutation(&[], &[], 10, 0), None);
}

#[test]
fn permutation_p_values_are_valid() {
    // Under the null, P(p ≤ α) ≤ α (up to simulation error), and not far below for continuous values.
    let mut rng = ChaCha8Rng::seed_from_u64(11);
    let trials = 600;
    let small = (0..trials).filter(|_| {
        let (x, y) = (normals(&mut rng, 9), normals(&mut rng, 9));
        paired_permutation(&x, &y, 0, 0).expect("pairs").p <= 0.1
    });
    close(small.count() as f64 / f64::from(trials), 0.1, 0.04);
}

#[test]
fn holm_by_hand() {
    let adjusted = holm(&[0.01, 0.02, 0.03, 0.005]);
    adjusted.iter().zip([0.03, 0.04, 0.04, 0.02]).for_each(|(a, b)| close(*a, b, 1e-15));
    assert_eq!(holm(&[0.9, 0.8]), [1.0, 1.0]);
    assert!(holm(&[]).is_empty());
}

#[test]
fn expected_maximum_in_closed_form_and_from_tables() {
    let pi = std::f64::consts::PI;
    close(expected_max_normal(1), 0.0, 1e-10);
    close(expected_max_normal(2), 1.0 / pi.sqrt(), 1e-10);
    close(expected_max_normal(3), 1.5 / pi.sqrt(), 1e-10);
    close(expected_max_normal(4), 3.0 / pi.sqrt() * (0.5 + (1.0f64 / 3.0).asin() / pi), 1e-10);
    // Tables of normal order statistics (Harter 1961).
    for (k, value) in [(5, 1.162_96), (8, 1.423_60), (10, 1.538_75), (100, 2.507_59)] {
        close(expected_max_normal(k), value, 6e-6);
    }
}

#[test]
fn no_trials_have_no_proportion() {
    assert_eq!(two_proportions(0, 0, 1, 2), None);
}

#[test]
fn mistakes_of_the_caller_panic() {
    let panics = |f: fn()| assert!(std::panic::catch_unwind(f).is_err());
    panics(|| _ = mean(&[f64::NAN]));
    panics(|| _ = iqm(&[f64::INFINITY]));
    panics(|| _ = quantile(&[1.0], 1.5));
    panics(|| _ = wilson(2, 1, 0.95));
    panics(|| _ = wilson(1, 2, 95.0));
    panics(|| _ = holm(&[1.5]));
    panics(|| _ = normal_interval(0.0, -1.0, 0.9));
    panics(|| _ = expected_max_normal(0));
}
