use grpo_lambda_mdp::PromptPolicy;

#[test]
fn gradients_agree_with_finite_differences_with_and_without_sharing() {
    let prompts = vec![vec![0, 3], vec![1, 3], vec![1, 4], vec![2, 4]];
    let shared = PromptPolicy::shared(prompts, 3, 5, 0.7, 3);
    let right = [0, 1, 2, 0];
    for policy in [shared.as_table(), shared] {
        let gradient = policy.grad_j(&right);
        for (i, g) in gradient.iter().enumerate() {
            let at = |h: f64| {
                let mut moved = policy.clone();
                moved.parameters_mut()[i] += h;
                moved.j(&right)
            };
            let h = 1e-3;
            let numeric = (8.0 * (at(h) - at(-h)) - (at(2.0 * h) - at(-2.0 * h))) / (12.0 * h);
            assert!((g - numeric).abs() < 1e-9, "{i}: {g} {numeric}");
        }
    }
}

#[test]
fn the_network_is_that_of_the_equation_with_parameters_in_order() {
    let mut policy = PromptPolicy::shared(vec![vec![0, 2], vec![1]], 3, 2, 0.0, 0);
    assert_eq!(policy.prompt_count(), 2);
    // 3 embeddings of 2, hidden biases, 3 rows of output weights, output biases.
    assert_eq!(policy.parameters_mut().len(), 6 + 2 + 6 + 3);
    let values: Vec<f64> = (0..17).map(|i| 0.1 * f64::from(i) - 0.8).collect();
    policy.parameters_mut().copy_from_slice(&values);
    for (x, features) in [(0, vec![0, 2]), (1, vec![1])] {
        let unit =
            |h: usize| (values[6 + h] + features.iter().map(|f| values[2 * f + h]).sum::<f64>()).tanh();
        let logit = |v: usize| values[14 + v] + values[8 + 2 * v] * unit(0) + values[9 + 2 * v] * unit(1);
        let total = (0..3).map(|v| logit(v).exp()).sum::<f64>();
        for (v, found) in policy.log_probs(x).into_iter().enumerate() {
            let expected = (logit(v).exp() / total).ln();
            assert!((found - expected).abs() < 1e-14, "{x}, {v}: {found}, not {expected}");
        }
    }
    assert_eq!(policy.grad_j(&[0, 1]).len(), 17);
    let start = |scale: f64| PromptPolicy::shared(vec![vec![0]], 2, 2, scale, 4).parameters;
    assert!(start(1.0).iter().zip(start(3.0)).all(|(a, b)| (3.0 * a - b).abs() < 1e-14 && *a != 0.0));
}

#[test]
fn only_shared_parameters_move_another_prompt() {
    let shared = PromptPolicy::shared(vec![vec![0, 2], vec![1, 2]], 2, 3, 0.7, 1);
    for (policy, moves) in [(shared.as_table(), false), (shared, true)] {
        let mut gradient = policy.zero_gradient();
        policy.backward(0, &[1.0, 0.0], &mut gradient);
        let mut moved = policy.clone();
        moved.parameters_mut().iter_mut().zip(&gradient).for_each(|(p, g)| *p += 0.1 * g);
        assert!(moved.log_probs(0)[0] > policy.log_probs(0)[0]);
        assert_eq!(moved.log_probs(1) != policy.log_probs(1), moves);
    }
}
