use grpo_lambda_conventions::{Remainder, Rows};

const TOLERANCE: f64 = 1e-6;

fn remainder(ours: &[&[f64]], theirs: &[&[f64]], ratios: &[&[f64]], kl: Option<&[&[f64]]>) -> Remainder {
    let rows = |rows: &[&[f64]]| -> Rows { rows.iter().map(|row| row.to_vec()).collect() };
    Remainder::between(&rows(ours), &rows(theirs), &rows(ratios), kl.map(rows).as_slice(), TOLERANCE)
}

#[test]
fn each_remainder_by_hand() {
    let ours: &[&[f64]] = &[&[1.0, 2.0], &[3.0, 4.0]];
    let near: &[&[f64]] = &[&[1.0, 1.0], &[1.0, 1.0]];
    // Only the token whose ratio moved differs.
    let clipped: &[&[f64]] = &[&[1.0, 0.0], &[3.0, 4.0]];
    assert_eq!(remainder(ours, clipped, &[&[1.0, 1.5], &[1.0, 1.0]], None), Remainder::Clip { tokens: 1 });
    assert_eq!(remainder(ours, clipped, &[&[1.0, 0.5], &[1.0, 1.0]], None), Remainder::Clip { tokens: 1 });
    assert_eq!(remainder(ours, clipped, near, None), Remainder::Scattered { tokens: 1 });
    // All tokens moved and differ: that is no sign of a clip.
    let moved: &[&[f64]] = &[&[2.0, 2.0], &[2.0, 2.0]];
    let all: &[&[f64]] = &[&[2.0, 2.5], &[3.5, 9.0]];
    assert_eq!(remainder(ours, all, moved, None), Remainder::Scattered { tokens: 4 });
    let scaled: &[&[f64]] = &[&[2.0, 4.0], &[1.5, 2.0]];
    assert_eq!(remainder(ours, scaled, near, None), Remainder::PerResponse);
    let kl: &[&[f64]] = &[&[0.5, -1.0], &[0.25, 2.0]];
    let with_kl: &[&[f64]] = &[&[0.95, 2.1], &[2.975, 3.8]];
    assert_eq!(remainder(ours, with_kl, near, Some(kl)), Remainder::Kl);
    assert_eq!(remainder(ours, with_kl, near, None), Remainder::Scattered { tokens: 4 });
}

/// A number as far off as the tolerance, in units of the largest of theirs, does not differ.
#[test]
fn a_difference_counts_beyond_the_tolerance() {
    let near: &[&[f64]] = &[&[1.0, 1.0, 1.0]];
    let theirs: &[&[f64]] = &[&[1e6, 5.0, 3.0]];
    assert_eq!(remainder(&[&[1e6, 6.0, 9.0]], theirs, near, None), Remainder::Scattered { tokens: 1 });
    assert_eq!(remainder(&[&[1e6, 8.0, 9.0]], theirs, near, None), Remainder::Scattered { tokens: 2 });
}

#[test]
fn the_simplest_remainder_comes_first_and_says_what_it_is() {
    let all = [
        Remainder::Kl,
        Remainder::Clip { tokens: 1 },
        Remainder::Clip { tokens: 1000 },
        Remainder::PerResponse,
        Remainder::Scattered { tokens: 1 },
    ];
    assert!(all.windows(2).all(|w| w[0].rank() < w[1].rank()));
    let words =
        ["the KL term", "(1 of them)", "(1000 of them)", "a factor of its own", "no single term: 1 tokens"];
    assert!(all.iter().zip(words).all(|(r, words)| r.to_string().contains(words)), "{all:?}");
}
