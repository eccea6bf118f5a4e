use grpo_lambda_tools::failure::{Failure, quoted};

#[test]
fn a_message_stays_on_one_line_whatever_it_quotes() {
    let failure = Failure::Refused("unknown id `a\nb\u{1b}[31m`".into()).within("estimate");
    assert_eq!(failure.line(), "sim estimate: error: unknown id `a\\nb\\u{1b}[31m`");
    assert_eq!(failure.code(), 2);
}

#[test]
fn long_quotations_are_cut_between_characters() {
    assert_eq!(quoted(&"é".repeat(61)), format!("`{}..`", "é".repeat(60)));
    assert_eq!(quoted("lambda"), "`lambda`");
}
