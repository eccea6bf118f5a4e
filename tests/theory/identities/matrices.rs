//! The trace matrices of GRPO-lambda.

use super::{CASES, differ_on, equal};
use crate::strategies::batch;

#[test]
fn matrix_row_index_without_a_floor_is_equation_1() {
    equal("grpo_lambda matrix=row_index lambda=0.95", "grpo_lambda lambda=0.95");
    equal("grpo_lambda matrix=row_index lambda=0.95 update=weight", "grpo_lambda lambda=0.95 update=weight");
}

#[test]
fn matrix_row_index_without_a_floor_is_equation_2_for_style_both() {
    equal("grpo_lambda style=both matrix=row_index lambda=0.95", "grpo_lambda style=both lambda=0.95");
}

#[test]
fn a_floor_of_one_is_lambda_one_in_every_matrix_and_style() {
    for matrix in ["row_index", "as_printed"] {
        for style in ["recent", "both"] {
            let floored = format!("grpo_lambda lambda=0.5 floor=1 matrix={matrix} style={style}");
            equal(&floored, "grpo_lambda lambda=1");
        }
    }
}

#[test]
fn the_floor_has_no_effect_on_the_equations() {
    equal("grpo_lambda lambda=0.9 floor=0.5", "grpo_lambda lambda=0.9");
}

#[test]
fn the_printed_matrix_at_lambda_0_style_recent_is_grpo() {
    equal("grpo_lambda lambda=0 matrix=as_printed clamp=none", "grpo reduction=token_mean");
}

#[test]
fn the_printed_matrix_is_not_equation_1() {
    // Erratum E1.
    let apart = differ_on(batch(), "grpo_lambda lambda=0.9 matrix=as_printed", "grpo_lambda lambda=0.9");
    assert!(apart > CASES / 2, "{apart}");
}
