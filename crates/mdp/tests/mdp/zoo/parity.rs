use grpo_lambda_mdp::zoo::Parity;
use grpo_lambda_mdp::{Oracle, Tabular};

#[test]
fn only_the_last_bit_has_an_advantage() {
    let tree = Parity::default().tree().unwrap();
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    for edge in tree.edges() {
        let expected = if tree.depth(tree.edge_node(edge)) == 5 { 0.5 } else { 0.0 };
        assert_eq!(oracle.advantage(edge).abs(), expected);
    }
}
