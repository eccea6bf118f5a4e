use crate::eval::score::record;
use grpo_lambda_trainer::eval::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use grpo_lambda_trainer::eval::vote::{Vote, majority};

fn samples(answers: &[(&str, ResponseOutcome)]) -> Vec<CompletionRecord> {
    let one = |(sample, &(answer, verdict)): (usize, &(&str, ResponseOutcome))| {
        record(sample, verdict, Some(answer).filter(|a| !a.is_empty()), RecordedFinish::Eos)
    };
    answers.iter().enumerate().map(one).collect()
}

#[test]
fn spellings_of_one_value_vote_together() {
    use ResponseOutcome::{NoAnswer, Right, Unreadable, Wrong};
    let half = [("1/2", Right), ("7", Wrong), ("7", Wrong), (r"\frac{1}{2}", Right), ("0.5", Right)];
    assert_eq!(majority(&samples(&half)), Vote { score: 1.0, tie: false });
    // By their texts alone, 7 would have won.
    let wrong = [("1/2", Right), ("7", Wrong), ("7.0", Wrong)];
    assert_eq!(majority(&samples(&wrong)), Vote { score: 0.0, tie: false });
    let tie = [("1/2", Right), ("7", Wrong), ("0.5", Right), ("7", Wrong), ("8", Wrong)];
    assert_eq!(majority(&samples(&tie)), Vote { score: 0.5, tie: true });
    let silent = [("", NoAnswer), ("", NoAnswer), ("3", Right)];
    assert_eq!(majority(&samples(&silent)), Vote { score: 1.0, tie: false });
    assert_eq!(majority(&samples(&[("", NoAnswer)])), Vote { score: 0.0, tie: false });
    let garbled = [(r"\frac{", Unreadable), (r"\frac{", Unreadable), ("3", Right)];
    assert_eq!(majority(&samples(&garbled)), Vote { score: 0.0, tie: false });
}
