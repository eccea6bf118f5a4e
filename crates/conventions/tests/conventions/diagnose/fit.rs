use source::{difference, one, sum, two};

/// A private part, which stands alone: compiled here once more.
#[allow(dead_code)]
#[path = "../../../src/diagnose/fit.rs"]
mod source;

type Rows = Vec<Vec<f64>>;

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
