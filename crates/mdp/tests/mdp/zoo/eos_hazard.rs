use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::zoo::{EosHazard, EosHazardDependent};

#[test]
fn a_path_independent_hazard_makes_the_path_product_the_survival() {
    let family = EosHazard::default();
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let products = oracle.path_products();
    for t in 0..8 {
        let survival = 0.9f64.powi(t);
        assert!((oracle.survival(t as usize) - survival).abs() < 1e-14);
        assert!(tree.nodes_at(t as usize).all(|node| (products[node] - survival).abs() < 1e-14));
    }
}

#[test]
fn a_path_dependent_hazard_does_not() {
    let family = EosHazardDependent::default();
    let tree = family.tree().unwrap();
    let oracle = Oracle::new(&tree, &family.initial(&tree));
    let products = oracle.path_products();
    let gap = |node: usize| (products[node] - oracle.survival(tree.depth(node))).abs();
    assert!(tree.nodes_at(3).map(gap).fold(0.0, f64::max) > 0.3);
}
