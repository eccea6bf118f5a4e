//! Differences between rows of numbers, and least squares in one or two unknowns.

use super::Rows;

/// Largest absolute value; 0 of nothing.
pub(super) fn largest(rows: &Rows) -> f64 {
    rows.iter().flatten().fold(0.0, |m, x| x.abs().max(m))
}

/// The largest absolute difference of two lists of rows, with its row and entry; infinite at the first entry where a number is NaN, none where all are
/// equal.
pub fn largest_difference(a: &Rows, b: &Rows) -> Option<(f64, (usize, usize))> {
    let mut worst: Option<(f64, (usize, usize))> = None;
    for (i, (a, b)) in a.iter().zip(b).enumerate() {
        for (t, (a, b)) in a.iter().zip(b).enumerate() {
            let apart = (a - b).abs();
            if apart.is_nan() {
                return Some((f64::INFINITY, (i, t)));
            }
            if apart > worst.map_or(0.0, |(largest, _)| largest) {
                worst = Some((apart, (i, t)));
            }
        }
    }
    worst
}

/// The largest difference of `ours` from `theirs`, relative to the largest of theirs, and where it stands. What is no number is infinitely far.
pub(super) fn difference(ours: &Rows, theirs: &Rows) -> (f64, Option<(usize, usize)>) {
    // Where all of theirs are 0, what is not 0 is far from it in any unit.
    match (largest_difference(ours, theirs), largest(theirs)) {
        (None, _) => (0.0, None),
        (Some((apart, place)), scale) if scale > 0.0 => (apart / scale, Some(place)),
        (Some((_, place)), _) => (f64::INFINITY, Some(place)),
    }
}

/// `a + factor b`, entry by entry.
pub(super) fn sum(a: &Rows, factor: f64, b: &Rows) -> Rows {
    let row = |(a, b): (&Vec<f64>, &Vec<f64>)| a.iter().zip(b).map(|(a, b)| a + factor * b).collect();
    a.iter().zip(b).map(row).collect()
}

fn dot(a: &Rows, b: &Rows) -> f64 {
    a.iter().flatten().zip(b.iter().flatten()).map(|(a, b)| a * b).sum()
}

/// `c` for which `c x` is closest to `y`; none where `x` is 0.
pub(super) fn one(x: &Rows, y: &Rows) -> Option<f64> {
    let square = dot(x, x);
    (square > 0.0).then(|| dot(x, y) / square)
}

/// `a` and `b` for which `a x + b z` is closest to `y`; none where `x` and `z` are parallel.
pub(super) fn two(x: &Rows, z: &Rows, y: &Rows) -> Option<(f64, f64)> {
    let (xx, zz, xz) = (dot(x, x), dot(z, z), dot(x, z));
    let determinant = xx * zz - xz * xz;
    if determinant <= 1e-12 * xx * zz {
        return None;
    }
    let (xy, zy) = (dot(x, y), dot(z, y));
    Some(((zz * xy - xz * zy) / determinant, (xx * zy - xz * xy) / determinant))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn differences_and_fits_by_hand() {
        let rows = |a: &[f64], b: &[f64]| vec![a.to_vec(), b.to_vec()];
        let (ours, theirs) = (rows(&[1.0, 2.0], &[5.0]), rows(&[1.0, 4.0], &[3.0]));
        // Two entries differ by 2; the first of them is named, in units of 4.
        assert_eq!(difference(&ours, &theirs), (0.5, Some((0, 1))));
        assert_eq!(difference(&theirs, &theirs), (0.0, None));
        let zero = rows(&[0.0, 0.0], &[0.0]);
        assert_eq!(difference(&zero, &zero), (0.0, None));
        assert_eq!(difference(&ours, &zero), (f64::INFINITY, Some((1, 0))));
        // 0 times infinity, as a mean over nothing gives, explains no number.
        let nothing = rows(&[1.0, f64::NAN], &[5.0]);
        assert_eq!(difference(&nothing, &theirs), (f64::INFINITY, Some((0, 1))));
        assert_eq!(one(&zero, &theirs), None);
        assert_eq!(one(&rows(&[1.0, 2.0], &[2.0]), &theirs), Some(15.0 / 9.0));
        // y = 3 x - 2 z
        let (x, z) = (rows(&[1.0, 2.0], &[0.5]), rows(&[0.25, -1.0], &[3.0]));
        let y = sum(&rows(&[0.0, 0.0], &[0.0]), 1.0, &rows(&[2.5, 8.0], &[-4.5]));
        let (a, b) = two(&x, &z, &y).expect("not parallel");
        assert!((a - 3.0).abs() < 1e-14 && (b + 2.0).abs() < 1e-14, "{a} {b}");
    }

    #[test]
    fn two_unknowns_are_found_and_parallel_columns_refused() {
        let (x, z) = (vec![vec![1.0, 2.0], vec![3.0]], vec![vec![0.0, 1.0], vec![-1.0]]);
        let y = sum(&sum(&x, 1.0, &x), 0.5, &z);
        let (a, b) = two(&x, &z, &y).expect("independent");
        assert!((a - 2.0).abs() < 1e-12 && (b - 0.5).abs() < 1e-12);
        assert_eq!(two(&x, &sum(&x, 1.0, &x), &y), None);
        // What counts is the angle, not the length.
        let (short, long) = (vec![vec![1e-8, 0.0]], vec![vec![0.0, 1e-5]]);
        let (a, b) = two(&short, &long, &vec![vec![2e-8, 3e-5]]).expect("independent");
        assert!((a - 2.0).abs() < 1e-12 && (b - 3.0).abs() < 1e-12, "{a} {b}");
        assert_eq!(difference(&x, &z).1, Some((1, 0)));
    }
}
