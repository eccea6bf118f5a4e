use grpo_lambda_mdp::zoo::Deceptive;
use grpo_lambda_mdp::{Optimal, Oracle, Tabular};

#[test]
fn the_gradient_first_leads_away_from_the_optimum() {
    let tree = Deceptive::default().tree().unwrap();
    let oracle = Oracle::new(&tree, &Tabular::uniform(&tree));
    let best = Optimal::new(&tree);
    assert_eq!(tree.token_name(best.choice[0]), "plain");
    assert!(oracle.grad_j()[best.choice[0]] < 0.0);
}
