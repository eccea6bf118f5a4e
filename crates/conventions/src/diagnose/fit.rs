//! Differences between rows of numbers, and least squares in one or two unknowns.

use super::Rows;

/// Largest absolute value; 0 of nothing.
pub(super) fn largest(rows: &Rows) -> f64 {
    rows.iter().flatten().fold(0.0, |m, x| x.abs().max(m))
}

/// The largest difference of `ours` from `theirs`, relative to the largest of theirs, and where it stands.
pub(super) fn difference(ours: &Rows, theirs: &Rows) -> (f64, Option<(usize, usize)>) {
    let mut worst = (0.0, None);
    for (i, (ours, theirs)) in ours.iter().zip(theirs).enumerate() {
        for (t, (a, b)) in ours.iter().zip(theirs).enumerate() {
            if (a - b).abs() > worst.0 {
                worst = ((a - b).abs(), Some((i, t)));
            }
        }
    }
    let scale = largest(theirs);
    // Where all of theirs are 0, what is not 0 is far from it in any unit.
    (
        if scale > 0.0 {
            worst.0 / scale
        } else if worst.0 > 0.0 {
            f64::INFINITY
        } else {
            0.0
        },
        worst.1,
    )
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
