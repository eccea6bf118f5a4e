//! Figure 2: the weight of past tokens under the two trace styles.

use grpo_lambda::trace::{AsPrinted, Both, Recent, Style, Trace};

const LEN: usize = 256;

#[test]
fn recent_falls_from_1_to_0_077_going_back_255_tokens() {
    let recent = Recent { q: 0.99 };
    assert_eq!(recent.weight(255, 255, LEN), 1.0);
    assert!((recent.weight(255, 0, LEN) - 0.99f64.powi(255)).abs() < 1e-15);
    assert!((recent.weight(255, 0, LEN) - 0.0771).abs() < 5e-5);
    assert!((1..LEN).all(|k| recent.weight(255, k - 1, LEN) < recent.weight(255, k, LEN)));
}

#[test]
fn both_is_a_valley_between_two_ones() {
    let both = Both { q: 0.99 };
    assert_eq!((both.weight(255, 0, LEN), both.weight(255, 255, LEN)), (1.0, 1.0));
    assert!((both.weight(255, 127, LEN) - 0.279).abs() < 5e-4);
    assert!((1..=127).all(|k| both.weight(255, k, LEN) < both.weight(255, k - 1, LEN)));
    assert!((128..LEN - 1).all(|k| both.weight(255, k, LEN) < both.weight(255, k + 1, LEN)));
}

#[test]
fn the_printed_matrix_draws_another_curve_before_the_last_token() {
    let printed = AsPrinted { q: 0.99, floor: 0.0, style: Style::Recent, max_length: None };
    assert!((Recent { q: 0.99 }.weight(128, 120, LEN) - 0.9227).abs() < 1e-4);
    assert!((printed.weight(128, 120, LEN) - 0.2575).abs() < 1e-4);
}
