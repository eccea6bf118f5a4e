use grpo_lambda::learner::iterate;
use grpo_lambda::methods;
use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Oracle, TabularLearner, zoo};

#[test]
fn what_is_shared_between_steps_is_that_of_the_policy_as_it_stands() {
    let family = zoo::Random { seed: 3, ..zoo::Random::default() };
    let tree = family.tree().unwrap();
    let mut learner = TabularLearner::new(&tree, family.initial(&tree), 3.0, 1);
    let method = methods::parse("rloo", "").unwrap().method;
    for _ in 0..20 {
        let oracle = Oracle::new(&tree, learner.policy());
        assert_eq!(learner.log_probs, oracle.log_probs);
        assert!((learner.j() - oracle.j).abs() < 1e-14);
        iterate(&mut learner, method.as_ref(), &[()], 8, 1).unwrap();
    }
}

#[test]
fn a_step_goes_along_the_pulled_back_gradient() {
    let family = zoo::LuckyGuess::default();
    let tree = family.tree().unwrap();
    let mut learner = TabularLearner::new(&tree, family.initial(&tree), 0.5, 2);
    let batch = learner.sample(&[()], 4).unwrap();
    let (logps, tape) = learner.log_probs(&[()], &batch, 0..4).unwrap();
    let mut cotangent = vec![0.0; tree.edge_count()];
    for (i, path) in tape.iter().enumerate() {
        path.iter().for_each(|&e| cotangent[e] += logps[i][0] * (i as f64 - 1.0));
    }
    let mut expected = learner.policy().clone();
    expected.step(&expected.backward(&tree, &cotangent), -0.5);
    let dlogps: Vec<Vec<f64>> = (0..4).map(|i| vec![logps[i][0] * (i as f64 - 1.0); tape[i].len()]).collect();
    learner.backward(tape, &dlogps).unwrap();
    learner.step().unwrap();
    for (a, b) in learner.policy().logits.iter().zip(&expected.logits) {
        assert!((a - b).abs() < 1e-14);
    }
}
