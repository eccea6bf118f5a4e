//! Names and equations that pages and messages are made of.

use grpo_lambda::advantage::ClampPart;
use grpo_lambda::group::InputKind;
use grpo_lambda::methods::Provenance;
use grpo_lambda::token_weights::assumed;
use grpo_lambda::trace::{Token, Trace};
use grpo_lambda_conventions as conventions;

#[test]
fn names_in_tables() {
    assert_eq!(
        ClampPart::ALL.map(ClampPart::name),
        ["none", "re-weighting only", "offset only", "both (the clamp)"]
    );
    let all = [Provenance::Published, Provenance::PaperOnly, Provenance::Reconstructed, Provenance::Ours];
    assert_eq!(all.map(Provenance::name), ["published", "paper only", "reconstructed", "ours"]);
    assert_eq!(assumed(InputKind::RefLogps), None);
    assert_eq!(assumed(InputKind::Values), Some("the critic values every prefix at 0.5"));
}

#[test]
fn the_conventions_of_a_method_are_those_that_name_it() {
    let expected = conventions::all().filter(|c| c.method == "rloo").count();
    assert!(expected > 1);
    assert_eq!(conventions::of_method("rloo").filter(|c| c.method == "rloo").count(), expected);
    assert_eq!(conventions::of_method("rloo").count(), expected);
    assert_eq!(conventions::of_method("no such method").count(), 0);
}

/// A trace of one's own says what it is by its fields.
#[test]
fn a_trace_without_words_of_its_own_shows_its_fields() {
    #[derive(Debug)]
    struct Half;
    impl Trace for Half {
        fn weight(&self, t: usize, k: usize, _: usize) -> f64 {
            if t == k { 0.5 } else { 0.0 }
        }
        fn apply_into(&self, x: &[f64], z: &mut [f64]) {
            z.iter_mut().zip(x).for_each(|(z, x)| *z = 0.5 * x);
        }
        fn adjoint_into(&self, y: &[f64], g: &mut [f64]) {
            self.apply_into(y, g);
        }
    }
    assert_eq!(Half.equation(), "E = Half");
    assert_eq!(Token.equation(), "E[t,k] = 1 for k = t, else 0 (no trace)");
    assert_eq!(
        (Half.max_len(), Half.apply(&[1.0, 2.0]), Half.row_sums(2)),
        (None, vec![0.5, 1.0], vec![0.5, 0.5])
    );
}
