use grpo_lambda::group::{ExtraInputs, StepValue};
use grpo_lambda::padded::compress_inputs;

#[test]
fn inputs_per_slot_are_compressed_and_every_other_stays() {
    let padded = ExtraInputs {
        values: Some(vec![0.5, f64::NAN, 0.25]),
        hidden: Some(vec![vec![1.0], vec![f64::NAN], vec![2.0]]),
        reward_parts: Some(vec![3.0, 4.0]),
        steps: Some(vec![StepValue { start: 0, value: 0.5 }, StepValue { start: 1, value: 1.0 }]),
        ..ExtraInputs::default()
    };
    let expected = ExtraInputs {
        values: Some(vec![0.5, 0.25]),
        hidden: Some(vec![vec![1.0], vec![2.0]]),
        ..padded.clone()
    };
    assert_eq!(compress_inputs(&padded, &[true, false, true]), expected);
}

#[test]
fn what_has_no_entry_per_slot_is_left_for_the_check_to_name() {
    let short = ExtraInputs {
        values: Some(vec![0.5]),
        hidden: Some(vec![vec![1.0], vec![2.0]]),
        ..ExtraInputs::default()
    };
    assert_eq!(compress_inputs(&short, &[true, false, true]), short);
}
