use grpo_lambda::methods;
use grpo_lambda_mdp::Oracle;
use grpo_lambda_mdp::expected::{Situation, implied_mean};
use grpo_lambda_mdp::zoo::{EosHazardDependent, Family};
use grpo_lambda_tools::length_direction::{ARMS, GROUP, Lumped, at};

fn cosine(a: &[f64], b: &[f64]) -> f64 {
    let dot = |x: &[f64], y: &[f64]| x.iter().zip(y).map(|(x, y)| x * y).sum::<f64>();
    dot(a, b) / (dot(a, a) * dot(b, b)).sqrt()
}

#[test]
fn lumped_cosines_are_those_of_the_whole_tree() {
    for (policy, scale) in [("zoo", 1.0), ("scaled", 0.1)] {
        for horizon in [2, 3, 5, 7] {
            let named = EosHazardDependent::default();
            let family = EosHazardDependent {
                horizon,
                start: named.start * scale,
                after_first: named.after_first * scale,
                after_other: named.after_other * scale,
                ..named
            };
            let tree = family.tree().unwrap();
            let start = family.initial(&tree);
            let oracle = Oracle::new(&tree, &start);
            let length = oracle.update_of_credit(&oracle.expect_given_edge(|y| tree.leaf_len(y) as f64));
            let task = Lumped::new(horizon, scale);
            assert!((task.mean_length() - oracle.expect(|y| tree.leaf_len(y) as f64)).abs() < 1e-12);
            for (arm, point) in ARMS.into_iter().zip(at(policy, &task, horizon)) {
                let (name, settings) = arm.registered();
                let method = methods::parse(name, &settings).unwrap().method;
                let situation = Situation::on_policy(&tree, &start, GROUP);
                let update = implied_mean(method.as_ref(), &situation).unwrap();
                let want = [cosine(&update, &oracle.grad_j()), cosine(&update, &length)];
                let gaps = [point.cosine - want[0], point.cosine_length - want[1]];
                assert!(gaps.iter().all(|g| g.abs() < 1e-10), "{horizon} {}: {gaps:?}", arm.name);
            }
        }
    }
}
