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

#[test]
fn a_method_that_compares_branches_is_refused_without_a_tree_and_others_with_one() {
    let message = |words: &[&str]| Config::resolve("tiny", words).map(|_| ()).map_err(|e| e.to_string());
    let tree = ["method.name=spo_tree", "rl.sampling=tree"];
    assert_eq!(message(&tree), Ok(()));
    assert_eq!(message(&[&tree[..], &["rl.children=2,4", "rl.group_size=8"]].concat()), Ok(()));
    let long = ["rl.children=4,2,2", "rl.segment=16", "rl.max_new_tokens=33"];
    assert_eq!(message(&[&tree[..], &long].concat()), Ok(()));
    let server = ["rollout.engine=vllm", "rollout.url=http://127.0.0.1:1"];
    let cases: [(&[&str], &str); 11] = [
        (&["method.name=spo_tree"], "method.name = spo_tree: compares the branches of a tree"),
        (&["method.name=tree_rl"], "set rl.sampling=tree"),
        (&["method.name=tree_rpo_reconstructed"], "rl.sampling = independent samples none"),
        (&["method.name=spo_tree", "rl.sampling=systematic"], "choose systematic_rloo"),
        (&["method.name=grpo", "rl.sampling=tree"], "choose spo_tree, tree_rl, tree_rpo_reconstructed"),
        (&[tree[0], tree[1], "rl.children=2,4"], "rl.children = 2,4 makes 8 leaves and rl.group_size = 16"),
        (
            &[tree[0], tree[1], "rl.children=4,1,4"],
            "rl.children = 4,1,4 has a level with one child, which has no sibling",
        ),
        (
            &[tree[0], tree[1], "rl.children=4,2,2", "rl.segment=16", "rl.max_new_tokens=32"],
            "rl.segment = 16 and rl.children = 4,2,2 write 32 tokens above the last level",
        ),
        (
            &["method.name=tree_rl", "rl.sampling=entropy_search"],
            "rl.group_size = 16 is no multiple of it; set rl.group_size=20",
        ),
        (
            &[tree[0], tree[1], server[0], server[1]],
            "rollout.engine = vllm samples whole responses; use rollout.engine=local",
        ),
        (&["method.name=vine_ppo", server[0], server[1]], "method.name = vine_ppo: rollout.engine = vllm"),
    ];
    for (words, want) in cases {
        let refused = message(words).expect_err(want);
        assert!(refused.contains(want), "{refused}");
    }
}
