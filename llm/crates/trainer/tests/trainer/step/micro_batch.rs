use grpo_lambda::group::{Group, Response};
use grpo_lambda_trainer::step::micro_batch::Batch;
use std::ops::Range;

fn response(tokens: Vec<u32>) -> Response {
    let (old_logps, extra_inputs) = Default::default();
    Response { tokens, old_logps, ref_logps: None, reward: None, truncated: false, extra_inputs }
}

fn group(lengths: &[usize]) -> Group {
    let response = |len: &usize| response(vec![9; *len]);
    Group { responses: lengths.iter().map(response).collect() }
}

#[test]
fn a_prompt_counts_once_in_a_micro_batch_and_again_in_the_next() {
    let groups = [group(&[2, 3, 4]), group(&[1]), group(&[1, 1])];
    let prompts: [&[u32]; 3] = [&[1, 2, 3], &[4, 5], &[6]];
    let batch = Batch::new(&prompts, &groups);
    // 2 shared and 3, 4, 5 | 1 and 2 | 2, 2 tokens.
    assert_eq!(batch.parts(9), [0..2, 2..3, 3..6]);
    assert_eq!(batch.parts(17), [0..4, 4..6]);
    assert_eq!(batch.parts(16), [0..3, 3..6]);
    assert_eq!(batch.parts(1), (0..6).map(|i| i..i + 1).collect::<Vec<_>>());
    for budget in [9, 16, 17, 100] {
        let tokens = |part: Range<usize>| batch.rows(part).computed();
        assert!(batch.parts(budget).into_iter().all(|part| tokens(part) <= budget), "{budget}");
    }
    assert_eq!(batch.rows(0..6).computed(), 2 + 3 + 4 + 5 + 1 + 2 + 2 + 2);
    let rows = batch.rows(1..4);
    assert_eq!(rows.prefixes(), [vec![1, 2], vec![4]]);
    assert_eq!(rows.tokens(), [3, 9, 9, 9, 3, 9, 9, 9, 9, 5, 9]);
    assert_eq!((rows.scored(0), rows.scored(1), rows.scored(2)), (3, 4, 1));
}

#[test]
fn responses_that_are_left_out_have_no_tokens() {
    let groups = [group(&[90, 7, 30, 30, 10]), group(&[5, 5])];
    let prompts: [&[u32]; 2] = [&[1; 51], &[2; 11]];
    let batch = Batch::new(&prompts, &groups);
    let is_computed = |i: &usize| ![1, 5, 6].contains(i);
    // A row that is too long, then the prompt of 50 with 31 and, as the three do not fit, with 31 and 11 once more.
    let parts = batch.parts_of(100, |i| is_computed(&i));
    assert_eq!(parts, [0..1, 1..3, 3..7]);
    let tokens = parts.into_iter().map(|part| batch.rows(part.filter(is_computed)).computed());
    assert_eq!(tokens.collect::<Vec<_>>(), [141, 81, 92]);
}
