use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::LemmaCounterexample;

#[test]
fn lemma_1_fails_after_b() {
    let tree = LemmaCounterexample.tree().unwrap();
    let oracle = Oracle::new(&tree, &LemmaCounterexample.initial(&tree));
    let b = 2;
    assert_eq!(tree.text(&tree.prefix(b)), "B");
    assert_eq!(oracle.v[0] - oracle.v[b], 0.5);
    assert_eq!(1.0 - oracle.path_products()[b], 0.0);
}
