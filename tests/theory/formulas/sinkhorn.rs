use grpo_lambda::assignment::Sinkhorn;
use rand::{Rng, SeedableRng};
use rand_chacha::ChaCha8Rng;

fn distance(a: &[f64], b: &[f64]) -> f64 {
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

/// A plan that moves all mass: rows, then columns with too much are scaled down, and what each is short of is added as a product.
fn repaired(mut plan: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
    let (n, m) = (plan.len(), plan[0].len());
    let (row, column) = (1.0 / n as f64, 1.0 / m as f64);
    let column_sum = |plan: &[Vec<f64>], j: usize| plan.iter().map(|p| p[j]).sum::<f64>();
    for p in &mut plan {
        let scale = f64::min(1.0, row / p.iter().sum::<f64>());
        p.iter_mut().for_each(|p| *p *= scale);
    }
    for j in 0..m {
        let scale = f64::min(1.0, column / column_sum(&plan, j));
        plan.iter_mut().for_each(|p| p[j] *= scale);
    }
    let short_rows: Vec<f64> = plan.iter().map(|p| row - p.iter().sum::<f64>()).collect();
    let short_columns: Vec<f64> = (0..m).map(|j| column - column_sum(&plan, j)).collect();
    let short = short_columns.iter().sum::<f64>();
    if short > 1e-15 {
        for (i, j) in (0..n).flat_map(|i| (0..m).map(move |j| (i, j))) {
            plan[i][j] += short_rows[i] * short_columns[j] / short;
        }
    }
    plan
}

fn points(n: usize, seed: u64) -> Vec<Vec<f64>> {
    let mut rng = ChaCha8Rng::seed_from_u64(seed);
    let mut number = || (rng.next_u32() % 2001) as f64 / 1000.0 - 1.0;
    (0..n).map(|_| (0..3).map(|_| number()).collect()).collect()
}

/// The cheapest pairing, by trying all: exact `W_1` between as many points.
fn cheapest(a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
    fn rest(a: &[Vec<f64>], free: &[&Vec<f64>]) -> f64 {
        let Some((first, others)) = a.split_first() else { return 0.0 };
        let with = |k: usize| {
            let left: Vec<_> = free.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, b)| *b).collect();
            distance(first, free[k]) + rest(others, &left)
        };
        (0..free.len()).map(with).fold(f64::INFINITY, f64::min)
    }
    rest(a, &b.iter().collect::<Vec<_>>()) / a.len() as f64
}

#[test]
fn the_cost_falls_to_that_of_the_cheapest_pairing_as_the_regularisation_vanishes() {
    for seed in 0..20 {
        let n = 2 + (seed % 4) as usize;
        let (a, b) = (points(n, seed), points(n, seed + 100));
        let exact = cheapest(&a, &b);
        let costs: Vec<f64> = [1.0, 0.3, 0.1, 0.03, 0.005]
            .map(|regularisation| Sinkhorn { regularisation, steps: 20_000 }.cost(&a, &b))
            .to_vec();
        assert!(costs.windows(2).all(|w| w[1] <= w[0] + 1e-6), "{costs:?}");
        assert!(costs.iter().all(|c| *c >= exact - 1e-12), "{costs:?} below {exact}");
        assert!(costs[4] - exact < 1e-3 * exact, "{seed}: {costs:?} for {exact}");
    }
}

#[test]
fn sets_of_different_size_split_their_points() {
    // Two thirds of the one point's mass stay within 1, one third goes to 5.
    let (a, b) = ([vec![0.0]], [vec![1.0], vec![-1.0], vec![5.0]]);
    let transport = Sinkhorn { regularisation: 0.05, steps: 500 };
    assert!((transport.cost(&a, &b) - 7.0 / 3.0).abs() < 1e-12);
    // Three points repeated are the three points.
    let (a, b) = (points(3, 1), points(3, 2));
    let twice = [a.clone(), a.clone()].concat();
    let exact = cheapest(&a, &b);
    let sharp = Sinkhorn { regularisation: 0.005, steps: 20_000 };
    assert!((sharp.cost(&twice, &b) - exact).abs() < 1e-3 * exact);
}

#[test]
fn the_cost_is_symmetric_and_does_not_see_the_unit_shifts_or_a_stop() {
    for steps in [1, 3, 500] {
        let transport = Sinkhorn { regularisation: 0.1, steps };
        let (a, b) = (points(4, 5), points(6, 6));
        let moved = |x: &[Vec<f64>]| -> Vec<Vec<f64>> {
            x.iter().map(|p| p.iter().map(|x| 3.0 * x + 7.0).collect()).collect()
        };
        let cost = transport.cost(&a, &b);
        assert!((transport.cost(&moved(&a), &moved(&b)) - 3.0 * cost).abs() < 1e-9);
        if steps == 500 {
            assert!((cost - transport.cost(&b, &a)).abs() < 1e-5 * cost);
        }
        // However early it stops it is a plan's cost: no less than moving the means.
        let mean = |x: &[Vec<f64>]| -> Vec<f64> {
            (0..3).map(|h| x.iter().map(|p| p[h]).sum::<f64>() / x.len() as f64).collect()
        };
        assert!(cost >= distance(&mean(&a), &mean(&b)));
    }
}

#[test]
fn a_repaired_plan_moves_all_mass_of_both_sides() {
    // Row 1 has too much and so has column 1; what is then missing is in row 2 (5/16 of it after the columns) and column 3.
    let plan = repaired(vec![vec![0.5, 0.25, 0.125, 0.125], vec![0.25, 0.0625, 0.0, 0.0]]);
    // By hand: row 1 is halved; column 1 holds 1/2 and is halved; missing are 1/8 and 5/16 of the rows, 0, 1/16, 3/16, 3/16 of the columns.
    let scaled = [[0.125, 0.125, 0.0625, 0.0625], [0.125, 0.0625, 0.0, 0.0]];
    let (missing, columns) = ([0.125, 0.3125], [0.0, 0.0625, 0.1875, 0.1875]);
    for (i, j) in (0..2).flat_map(|i| (0..4).map(move |j| (i, j))) {
        let expected = scaled[i][j] + missing[i] * columns[j] / 0.4375;
        assert!((plan[i][j] - expected).abs() < 1e-15, "{i} {j}: {}, not {expected}", plan[i][j]);
    }
    assert_eq!(repaired(vec![vec![0.125; 4]; 2]), vec![vec![0.125; 4]; 2]);
}

/// `P_ij = exp(f_i + g_j - C_ij / e) / (n m)` with the sums of rows right after convergence: the definition, iterated here in plain probabilities.
#[test]
fn the_plan_is_that_of_scaled_rows_and_columns() {
    let (a, b) = (points(3, 7), points(4, 8));
    let (n, m, e) = (3, 4, 0.5);
    let costs: Vec<f64> = a.iter().flat_map(|a| b.iter().map(|b| distance(a, b))).collect();
    let mean = costs.iter().sum::<f64>() / (n * m) as f64;
    let kernel: Vec<f64> = costs.iter().map(|c| (-c / (mean * e)).exp()).collect();
    for steps in [1, 2, 5, 400] {
        let (mut u, mut v) = (vec![1.0; n], vec![1.0; m]);
        for _ in 0..steps {
            for i in 0..n {
                u[i] = m as f64 / (0..m).map(|j| kernel[i * m + j] * v[j]).sum::<f64>();
            }
            for j in 0..m {
                v[j] = n as f64 / (0..n).map(|i| kernel[i * m + j] * u[i]).sum::<f64>();
            }
        }
        let mass = |i: usize, j: usize| u[i] * kernel[i * m + j] * v[j] / (n * m) as f64;
        let plan = repaired((0..n).map(|i| (0..m).map(|j| mass(i, j)).collect()).collect());
        let expected: f64 = plan.iter().flatten().zip(&costs).map(|(p, c)| p * c).sum();
        let found = Sinkhorn { regularisation: e, steps }.cost(&a, &b);
        assert!((found - expected).abs() < 1e-9, "{steps}: {found}, not {expected}");
    }
}

#[test]
fn equal_points_cost_nothing_and_one_pair_its_distance() {
    let transport = Sinkhorn { regularisation: 0.1, steps: 10 };
    assert_eq!(transport.cost(&vec![vec![1.0, 2.0]; 5], &vec![vec![1.0, 2.0]; 3]), 0.0);
    assert_eq!(transport.cost(&[vec![0.0, 0.0]], &[vec![3.0, 4.0]]), 5.0);
    assert_eq!(transport.cost(&[vec![]], &[vec![], vec![]]), 0.0);
}
