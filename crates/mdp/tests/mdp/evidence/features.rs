use grpo_lambda_mdp::evidence::features::tokens_by_position;
use grpo_lambda_mdp::zoo::{Family, Fork};

#[test]
fn two_prefixes_of_one_length_agree_at_as_many_positions_as_their_product_says() {
    let tree = Fork::default().tree().expect("knobs in range");
    let features = tokens_by_position(&tree);
    let dot = |a: &[f64], b: &[f64]| a.iter().zip(b).map(|(a, b)| a * b).sum::<f64>();
    let mut compared = 0;
    let paths: Vec<_> = tree.leaves().map(|leaf| tree.path(leaf)).collect();
    for (a, b) in paths.iter().flat_map(|a| paths.iter().map(move |b| (a, b))) {
        for t in 0..a.len().min(b.len()) {
            let agree = (0..=t).filter(|&k| tree.token(a[k]) == tree.token(b[k])).count();
            assert_eq!(dot(&features[a[t]], &features[b[t]]), agree as f64);
            compared += usize::from(agree <= t);
        }
    }
    assert!(compared > 10, "{compared}");
}
