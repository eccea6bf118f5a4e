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
