use grpo_lambda_trainer::input::tokens::ModelTokenizer;
use grpo_lambda_trainer::step::extra_inputs::ResponseSpan;
use std::ops::Range;

fn parts(text: &str) -> Option<[String; 4]> {
    let tokens = ModelTokenizer::tiny();
    let ids = tokens.target(text).expect("encodes").ids().to_vec();
    let span = ResponseSpan::find(&tokens, &ids).expect("decodes")?;
    let text = |range: Range<usize>| tokens.text(&ids[range]).expect("decodes");
    let ResponseSpan { reasoning, answer } = span;
    Some([
        text(0..reasoning),
        text(reasoning..answer.start),
        text(answer.clone()),
        text(answer.end..ids.len()),
    ])
}

#[test]
fn the_last_closed_box_is_the_answer_and_what_opens_it_concludes() {
    let marked = |text| parts(text).expect("has an answer").join("|");
    assert_eq!(marked("3*4=12\n\\boxed{12}"), "3*4=12\n|\\boxed{|12|}");
    assert_eq!(marked("\\boxed{7}"), "|\\boxed{|7|}");
    assert_eq!(marked("\\boxed{1} so \\boxed{2}."), "\\boxed{1} so |\\boxed{|2|}.");
    assert_eq!(marked("\\boxed{1} then \\boxed{2"), "|\\boxed{|1|} then \\boxed{2");
    assert_eq!(marked("a \\boxed{\\frac{1}{2}}"), "a |\\boxed{|\\frac{1}{2}|}");
    assert_eq!([parts("12"), parts("\\boxed{12"), parts("\\boxed{}"), parts("")], [None, None, None, None]);
}

#[test]
fn a_cut_off_response_without_its_closing_brace_has_no_answer() {
    let tokens = ModelTokenizer::tiny();
    let ids = tokens.target("1+2=3\n\\boxed{3}").expect("encodes").ids().to_vec();
    let found: Vec<bool> =
        (0..=ids.len()).map(|n| ResponseSpan::find(&tokens, &ids[..n]).expect("decodes").is_some()).collect();
    assert_eq!(found.iter().filter(|f| **f).count(), 2, "the closing brace and the end token");
}
