use grpo_lambda_grade::Extraction;
use grpo_lambda_stats::{t_interval, wilson};
use grpo_lambda_trainer::eval::completion::{CompletionRecord, RecordedFinish, ResponseOutcome};
use grpo_lambda_trainer::eval::score::{BenchmarkScores, scores};

/// A sample of the problem `p` with ten tokens, if there was room for it.
pub(crate) fn record(
    sample: usize,
    verdict: ResponseOutcome,
    answer: Option<&str>,
    finish: RecordedFinish,
) -> CompletionRecord {
    CompletionRecord {
        problem: "p".into(),
        sample,
        verdict,
        reason: String::new(),
        lenient: false,
        answer: answer.map(str::to_owned),
        finish,
        tokens: if finish == RecordedFinish::NoRoom { 0 } else { 10 },
        text: String::new(),
        crc32c: None,
    }
}

/// Samples of a problem by letter: right, wrong, no answer, unreadable, no room.
fn problem(letters: &str) -> Vec<CompletionRecord> {
    let one = |(sample, letter): (usize, char)| match letter {
        'r' => record(sample, ResponseOutcome::Right, Some("1"), RecordedFinish::Eos),
        'w' => record(sample, ResponseOutcome::Wrong, Some("2"), RecordedFinish::Eos),
        'n' => record(sample, ResponseOutcome::NoAnswer, None, RecordedFinish::Length),
        'u' => record(sample, ResponseOutcome::Unreadable, Some(r"\frac{"), RecordedFinish::Eos),
        _ => record(sample, ResponseOutcome::NoRoom, None, RecordedFinish::NoRoom),
    };
    letters.chars().enumerate().map(one).collect()
}

fn graded(problems: &[&str], pass_at: &[usize]) -> BenchmarkScores {
    scores("b", &problems.iter().map(|p| problem(p)).collect::<Vec<_>>(), pass_at)
}

#[test]
fn what_counts_neither_way_is_left_out_of_one_accuracy_and_wrong_in_the_other() {
    let s = graded(&["r", "r", "w", "n", "u", "x", "r", "w"], &[1]);
    // 3 of 6 that count, 3 of 8.
    assert_eq!(s.accuracy, wilson(3, 6, 0.95));
    assert_eq!(Some(s.as_wrong), wilson(3, 8, 0.95));
    assert_eq!((s.graded_problems, s.uncounted(), s.cut_off, s.responses), (6, 2, 1, 7));
    assert_eq!(s.mean_tokens, Some(10.0), "what was not made has no length");
    assert_eq!((s.pass[0].value, s.majority), (s.as_wrong, None));
    let none = graded(&["u", "x"], &[]);
    assert_eq!((none.accuracy, none.as_wrong.mid), (None, 0.0));
}

#[test]
fn lengths_are_averaged_over_the_problems_that_were_asked() {
    let mut found = [problem("rw"), problem("rx"), problem("xx")];
    (found[0][0].tokens, found[0][1].tokens, found[1][0].tokens) = (4, 8, 12);
    let s = scores("b", &found, &[]);
    assert_eq!((s.mean_tokens, s.tokens), (Some(8.0), t_interval(&[6.0, 12.0], 0.95)));
}

#[test]
fn several_samples_are_averaged_by_problem() {
    let s = graded(&["rrww", "rwwu", "wwww"], &[1, 2, 4]);
    let mid = (0.5 + 1.0 / 3.0 + 0.0) / 3.0;
    assert!((s.accuracy.expect("graded").mid - mid).abs() < 1e-15);
    assert!((s.as_wrong.mid - 0.25).abs() < 1e-15);
    // pass@2: 1 - 1/6, 1/2, 0; pass@4: 1, 1, 0.
    let pass: Vec<f64> = s.pass.iter().map(|p| p.value.mid).collect();
    for (found, by_hand) in pass.iter().zip([0.25, (5.0 / 6.0 + 0.5) / 3.0, 2.0 / 3.0]) {
        assert!((found - by_hand).abs() < 1e-15, "{pass:?}");
    }
    // Votes: 2 to 2 is a tie of which half is right; 2 wrong beat 1 right; wrong.
    let majority = s.majority.expect("several samples");
    assert!((majority.value.mid - 0.5 / 3.0).abs() < 1e-15 && majority.ties == 1);
}

#[test]
fn an_interval_over_problems_is_wider_than_one_over_samples_and_never_empty() {
    // Eight samples of each problem agree: eighty samples are worth ten.
    let clustered = graded(&[&["rrrrrrrr"; 5][..], &["wwwwwwww"; 5]].concat(), &[]).as_wrong;
    assert_eq!(Some(clustered), wilson(5, 10, 0.95));
    let mixed = graded(&[&["rrrrrrrw"; 5][..], &["rwwwwwww"; 5]].concat(), &[]).as_wrong;
    let naive = wilson(40, 80, 0.95).expect("samples");
    assert!(mixed.width() > 1.5 * naive.width(), "{mixed:?} {naive:?}");
    let zero = graded(&["wwww"; 30], &[]).accuracy.expect("graded");
    assert!(zero.mid == 0.0 && zero.high > 0.1);
    let one = graded(&["rw"], &[]).accuracy.expect("graded");
    assert_eq!((one.low, one.mid, one.high), (0.0, 0.5, 1.0));
    // Scores that all are one half say little about the next problem.
    let half = graded(&["rw"; 10], &[]).accuracy.expect("graded");
    let unseen = wilson(0, 10, 0.95).expect("problems").high;
    assert_eq!((half.low, half.mid, half.high), (0.5 - unseen, 0.5, 0.5 + unseen));
}

#[test]
fn answers_that_may_be_none_are_reported() {
    let lines = |verdict, finish, reason: &str| {
        let problem = |_| {
            let one = record(0, verdict, Some("18 + 3"), finish);
            vec![CompletionRecord { reason: reason.into(), text: "18 + 3 is a sum of two".into(), ..one }]
        };
        let completions: Vec<Vec<CompletionRecord>> = (0..20).map(problem).collect();
        scores("sums", &completions, &[]).doubts(Extraction::Boxed).join("\n")
    };
    let (right, none) = (ResponseOutcome::Right, ResponseOutcome::NoAnswer);
    let cut = lines(right, RecordedFinish::Length, "equal");
    assert!(cut.contains("all 20 right responses were cut off"), "{cut}");
    assert!(cut.contains("20 of them begin with `18 + 3 is`"), "{cut}");
    assert_eq!(lines(right, RecordedFinish::Eos, "equal"), "");
    let restated = lines(ResponseOutcome::Wrong, RecordedFinish::Eos, "`18 + 3` stands in the problem");
    assert_eq!(restated, "sums: 20 responses give a part of the problem for its answer; they count as wrong");
    let missing = lines(none, RecordedFinish::Eos, "");
    let none = "20 of 20 responses have no answer at the place that `boxed` reads";
    assert!(missing.contains(none), "{missing}");
}
