use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::DistractorLength;

#[test]
fn filler_has_no_advantage_and_lengths_vary() {
    let family = DistractorLength::default();
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    for edge in tree.edges() {
        let expected = match tree.token_name(edge) {
            "answer0" => 0.6,
            "um" | "EOS" => 0.0,
            _ => -0.4,
        };
        assert!((oracle.advantage(edge) - expected).abs() < 1e-15, "{}", tree.token_name(edge));
    }
    // Mean number of fillers: 0.6 + 0.6² + .. + 0.6^8; an answer and EOS on top.
    let filler: f64 = (1..=8).map(|k| 0.6f64.powi(k)).sum();
    assert!((oracle.mean_length() - filler - 2.0).abs() < 1e-12);
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |family: DistractorLength| family.tree().unwrap_err().to_string();
    let wrong = DistractorLength { filler: 0, ..DistractorLength::default() };
    assert_eq!(refuse(wrong), "distractor_length: filler = 0 must be at least 1");
}
