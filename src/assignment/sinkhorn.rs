//! The entropic optimal transport cost between two sets of points.

/// Sinkhorn's algorithm between the uniform distributions on two sets of points, in the log domain.
///
/// ```text
/// C_ij = |a_i - b_j|,      W = sum_ij P_ij C_ij
/// P    = argmin over plans of  <P, C> + e sum_ij P_ij log P_ij,      e = regularisation times the mean of C
/// ```
/// A plan has rows that sum to `1/n` and columns that sum to `1/m`. What the iteration leaves of that is repaired by moving the missing mass
/// (Altschuler, Weed and Rigollet 2017), so that `W` is the cost of a plan: never below the exact Wasserstein distance `W_1`, and
/// towards it as `regularisation` goes to 0 and `steps` to infinity. As every entropic cost it is above 0 between a set and itself.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Sinkhorn {
    /// Weight of the entropy, in mean distances; positive.
    pub regularisation: f64,
    /// Iterations at most; they end earlier once the potentials stand still.
    pub steps: usize,
}

/// Largest move of the potentials, in mean distances, at which the iteration ends.
const STILL: f64 = 1e-7;

impl Sinkhorn {
    /// `W` between the points `a` and the points `b`.
    ///
    /// # Panics
    /// If there is no point on one side, or widths differ.
    ///
    /// ```
    /// use grpo_lambda::assignment::Sinkhorn;
    /// let transport = Sinkhorn { regularisation: 0.01, steps: 1000 };
    /// let (a, b) = ([vec![0.0], vec![1.0]], [vec![3.0], vec![2.0]]);
    /// assert!((transport.cost(&a, &b) - 2.0).abs() < 1e-6); // either pairing moves each point by 2 on average
    /// ```
    pub fn cost(&self, a: &[Vec<f64>], b: &[Vec<f64>]) -> f64 {
        assert!(!a.is_empty() && !b.is_empty(), "a distance needs points on both sides");
        let (n, m) = (a.len(), b.len());
        let costs: Vec<f64> = a.iter().flat_map(|a| b.iter().map(|b| distance(a, b))).collect();
        let mean = costs.iter().sum::<f64>() / (n * m) as f64;
        let first = costs[0];
        if costs.iter().all(|c| *c == first) {
            return first; // every plan costs the same
        }
        let scaled: Vec<f64> = costs.iter().map(|c| c / (mean * self.regularisation)).collect();
        let (f, g) = self.potentials(&scaled, n, m);
        let mut plan: Vec<f64> =
            (0..n * m).map(|k| (f[k / m] + g[k % m] - scaled[k]).exp() / (n * m) as f64).collect();
        repair(&mut plan, n, m);
        plan.iter().zip(&costs).map(|(p, c)| p * c).sum()
    }

    /// The potentials of rows and columns, in units of `e`; those of the columns are exact for those of the rows.
    fn potentials(&self, scaled: &[f64], n: usize, m: usize) -> (Vec<f64>, Vec<f64>) {
        let (mut f, mut g) = (vec![0.0; n], vec![0.0; m]);
        for _ in 0..self.steps.max(1) {
            let mut moved: f64 = 0.0;
            for (i, f) in f.iter_mut().enumerate() {
                let row = &scaled[i * m..(i + 1) * m];
                let new = -log_mean_exp(row.iter().zip(&g).map(|(c, g)| g - c));
                moved = moved.max((new - *f).abs());
                *f = new;
            }
            for (j, g) in g.iter_mut().enumerate() {
                *g = -log_mean_exp(f.iter().enumerate().map(|(i, f)| f - scaled[i * m + j]));
            }
            if moved * self.regularisation <= STILL {
                break;
            }
        }
        (f, g)
    }
}

/// The Euclidean distance of two points of one width.
fn distance(a: &[f64], b: &[f64]) -> f64 {
    assert_eq!(a.len(), b.len(), "points of one width");
    a.iter().zip(b).map(|(a, b)| (a - b).powi(2)).sum::<f64>().sqrt()
}

fn log_mean_exp(values: impl Iterator<Item = f64> + Clone) -> f64 {
    let max = values.clone().fold(f64::NEG_INFINITY, f64::max);
    let (sum, count) = values.fold((0.0, 0usize), |(sum, count), x| (sum + (x - max).exp(), count + 1));
    max + (sum / count as f64).ln()
}

/// Scales rows and columns down to their mass and adds what is then missing as a product.
fn repair(plan: &mut [f64], n: usize, m: usize) {
    let (row, column) = (1.0 / n as f64, 1.0 / m as f64);
    for own in plan.chunks_exact_mut(m) {
        let sum: f64 = own.iter().sum();
        if sum > row {
            own.iter_mut().for_each(|p| *p *= row / sum);
        }
    }
    for j in 0..m {
        let sum: f64 = (0..n).map(|i| plan[i * m + j]).sum();
        if sum > column {
            (0..n).for_each(|i| plan[i * m + j] *= column / sum);
        }
    }
    let rows: Vec<f64> = plan.chunks_exact(m).map(|own| (row - own.iter().sum::<f64>()).max(0.0)).collect();
    let columns: Vec<f64> =
        (0..m).map(|j| (column - (0..n).map(|i| plan[i * m + j]).sum::<f64>()).max(0.0)).collect();
    let missing: f64 = columns.iter().sum();
    if missing > 0.0 {
        for (own, row) in plan.chunks_exact_mut(m).zip(&rows) {
            own.iter_mut().zip(&columns).for_each(|(p, column)| *p += row * column / missing);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use rand::{Rng, SeedableRng};
    use rand_chacha::ChaCha8Rng;

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
                let left: Vec<_> =
                    free.iter().enumerate().filter(|(j, _)| *j != k).map(|(_, b)| *b).collect();
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
        // Row 1 has too much and so has column 1; what is then missing is in row 2 (3/16 of it after the columns) and column 3.
        let (n, m) = (2, 4);
        let mut plan = [0.5, 0.25, 0.125, 0.125, 0.25, 0.0625, 0.0, 0.0];
        repair(&mut plan, n, m);
        // By hand: row 1 is halved; column 1 holds 1/2 and is halved; missing are 1/8 and 5/16 of the rows, 0, 1/16, 3/16, 3/16 of the columns.
        let missing = [(0.5 - 0.125 - 0.125 - 0.0625 - 0.0625), (0.5 - 0.125 - 0.0625)];
        let columns = [0.0, 0.0625, 0.1875, 0.1875];
        let scaled = [0.125, 0.125, 0.0625, 0.0625, 0.125, 0.0625, 0.0, 0.0];
        for (k, found) in plan.iter().enumerate() {
            let expected = scaled[k] + missing[k / m] * columns[k % m] / 0.4375;
            assert!((found - expected).abs() < 1e-15, "{k}: {found}, not {expected}");
        }
        assert!(plan.chunks(m).all(|row| (row.iter().sum::<f64>() - 0.5).abs() < 1e-15));
        assert!((0..m).all(|j| ((0..n).map(|i| plan[i * m + j]).sum::<f64>() - 0.25).abs() < 1e-15));
        let (exact, mut same) = ([0.125; 8], [0.125; 8]);
        repair(&mut same, n, m);
        assert_eq!(same, exact);
    }

    /// `P_ij = exp(f_i + g_j - C_ij / e) / (n m)` with the sums of rows right after convergence: the definition, iterated here in plain probabilities.
    #[test]
    fn the_plan_is_that_of_scaled_rows_and_columns() {
        let (a, b) = (points(3, 7), points(4, 8));
        let (n, m, e) = (3, 4, 0.5);
        let costs: Vec<f64> = a.iter().flat_map(|a| b.iter().map(|b| distance(a, b))).collect();
        let mean = costs.iter().sum::<f64>() / (n * m) as f64;
        let kernel: Vec<f64> = costs.iter().map(|c| (-c / (mean * e)).exp()).collect();
        for steps in [2, 5, 400] {
            let (mut u, mut v) = (vec![1.0; n], vec![1.0; m]);
            for _ in 0..steps {
                for i in 0..n {
                    u[i] = m as f64 / (0..m).map(|j| kernel[i * m + j] * v[j]).sum::<f64>();
                }
                for j in 0..m {
                    v[j] = n as f64 / (0..n).map(|i| kernel[i * m + j] * u[i]).sum::<f64>();
                }
            }
            let mut plan: Vec<f64> =
                (0..n * m).map(|k| u[k / m] * kernel[k] * v[k % m] / (n * m) as f64).collect();
            repair(&mut plan, n, m);
            let expected: f64 = plan.iter().zip(&costs).map(|(p, c)| p * c).sum();
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
}
