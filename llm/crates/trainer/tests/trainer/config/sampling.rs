use grpo_lambda_trainer::config::Config;

#[test]
fn systematic_groups_are_refused_where_they_bias_or_nothing_samples_them() {
    let message = |words: &[&str]| {
        let all = [&["rl.sampling=systematic"], words].concat();
        Config::resolve("tiny", &all).map(|config| config.rl.systematic_sets()).map_err(|e| e.to_string())
    };
    assert_eq!(message(&["method.name=systematic_rloo"]).map(|sets| sets.map(|s| s.count(8))), Ok(Some(2)));
    let cases: [(&[&str], &str); 5] = [
        (&["method.name=rloo"], "method.name = rloo compares responses of one set"),
        (&["method.name=systematic_rloo", "rl.sets=4"], "rl.sets = 4 and method.sets = 2 must be the same"),
        (&["method.name=systematic_rloo", "rl.sets=1"], "rl.sets = 1 needs a guarded baseline"),
        (
            &["method.name=systematic_rloo", "rl.sets=17", "method.sets=17"],
            "rl.sets = 17 exceeds rl.group_size = 16",
        ),
        (
            &["method.name=systematic_rloo", "rollout.engine=vllm", "rollout.url=http://127.0.0.1:1"],
            "rollout.engine = vllm draws its own numbers",
        ),
    ];
    for (words, want) in cases {
        let refused = message(words).expect_err(want);
        assert!(refused.contains(want), "{refused}");
    }
    assert_eq!(Config::resolve("tiny", &["rl.sets=1"]).expect("idle").rl.systematic_sets(), None);
}
