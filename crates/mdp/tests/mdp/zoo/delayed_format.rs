use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::DelayedFormat;

#[test]
fn the_tag_and_the_answer_after_it_have_advantages_and_nothing_else_has() {
    let family = DelayedFormat::default();
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    for edge in tree.edges() {
        let tagged = tree.prefix(tree.edge_node(edge)).first() == Some(&0);
        let expected = match tree.token_name(edge) {
            "tag" => 0.6 - 0.18,
            "plain" => -0.18,
            "answer0" if tagged => 0.4,
            name if name.starts_with("answer") && tagged => -0.6,
            _ => 0.0,
        };
        assert!((oracle.advantage(edge) - expected).abs() < 1e-15, "{}", tree.token_name(edge));
    }
}

#[test]
fn knobs_out_of_range_are_refused_by_name() {
    let refuse = |family: DelayedFormat| family.tree().unwrap_err().to_string();
    let wrong = DelayedFormat { tagged: 1.0, ..DelayedFormat::default() };
    assert_eq!(refuse(wrong), "delayed_format: tagged = 1 must be in (0, 1), both ends excluded");
    let wrong = DelayedFormat { answers: 1, ..DelayedFormat::default() };
    assert_eq!(refuse(wrong), "delayed_format: answers = 1 must be at least 2");
}
