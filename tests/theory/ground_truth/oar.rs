//! OAR-P and OAR-G with scores of a policy that can be masked.

use super::{EXACT, cosine};
use grpo_lambda::methods;
use grpo_lambda_mdp::expected::{Situation, implied};
use grpo_lambda_mdp::extra_inputs::Provider;
use grpo_lambda_mdp::{Maskable, MaskableInputs, Oracle, Rules, Tree, zoo, zoo::Family};

/// Three symbols, rewarded responses of four tokens, and a policy on them.
fn answering(seed: u64) -> (Tree, Maskable) {
    let rules = Rules::new(["a", "b", "c", "EOS"], 4);
    let tree = rules.build(|_| vec![0, 1, 2], |_, _| 1.0).expect("valid");
    let policy = Maskable::random(&tree, 6, 1.2, seed);
    (tree, policy)
}

fn laboratory(seed: u64) -> (Tree, Maskable) {
    let family = zoo::Random { seed, symbols: 3, horizon: 4, eos: 0.5, ..zoo::Random::default() };
    let tree = family.tree().expect("knobs in range");
    let policy = Maskable::random(&tree, 5, 0.8, seed);
    (tree, policy)
}

/// Responses of three tokens or more whose last token was a choice.
fn long(tree: &Tree) -> Vec<Vec<usize>> {
    let paths = tree.leaves().map(|leaf| tree.path(leaf));
    let choice = |p: &Vec<usize>| tree.edges_of(tree.edge_node(p[p.len() - 1])).len() > 1;
    paths.filter(|p| p.len() >= 3 && choice(p)).collect()
}

#[test]
fn the_table_of_a_maskable_policy_has_its_probabilities() {
    let (tree, policy) = laboratory(0);
    let table = policy.tabular(&tree).log_probs(&tree);
    for path in long(&tree) {
        let node = tree.edge_node(path[path.len() - 1]);
        let direct = policy.log_probs_at(&tree, node, &policy.inputs(&tree, &path));
        for (e, direct) in tree.edges_of(node).zip(direct) {
            assert!((table[e] - direct).abs() < EXACT);
        }
    }
}

#[test]
fn a_shift_is_the_kl_divergence_of_the_answer_from_the_one_with_the_token_masked() {
    let (tree, policy) = laboratory(0);
    let mut positive = 0;
    for path in long(&tree) {
        let node = tree.edge_node(path[path.len() - 1]);
        let shifts = policy.shifts(&tree, &path);
        assert_eq!(shifts.len(), path.len() - 1);
        for (t, shift) in shifts.iter().enumerate() {
            let mut masked = policy.inputs(&tree, &path);
            masked[t] = policy.mask().to_vec();
            let probs = |inputs: &[Vec<f64>]| {
                policy.log_probs_at(&tree, node, inputs).iter().map(|x| x.exp()).collect::<Vec<f64>>()
            };
            let (p, q) = (probs(&policy.inputs(&tree, &path)), probs(&masked));
            let kl: f64 = p.iter().zip(&q).map(|(p, q)| p * (p / q).ln()).sum();
            assert!((shift - kl).abs() < EXACT && *shift >= 0.0);
            positive += usize::from(*shift > 1e-6);
        }
    }
    assert!(positive > 10);
}

#[test]
fn the_answer_gradient_is_that_of_finite_differences_and_exactly_0_at_the_clean_embeddings() {
    // [C14] the first statement: a divergence is stationary where its arguments agree.
    let (tree, policy) = laboratory(1);
    for path in long(&tree).into_iter().take(6) {
        let node = tree.edge_node(path[path.len() - 1]);
        let clean = policy.inputs(&tree, &path);
        let p0 = policy.log_probs_at(&tree, node, &clean);
        let at_clean = policy.answer_gradient(&tree, node, &clean, &p0);
        assert!(at_clean.iter().flatten().all(|g| g.abs() < 1e-15));
        let mut moved = clean.clone();
        moved.iter_mut().enumerate().for_each(|(t, e)| e[t % 3] += 0.3);
        let gradient = policy.answer_gradient(&tree, node, &moved, &p0);
        let divergence = |inputs: &[Vec<f64>]| {
            let now = policy.log_probs_at(&tree, node, inputs);
            p0.iter().zip(&now).map(|(p, q)| p.exp() * (p - q)).sum::<f64>()
        };
        for t in 0..clean.len() {
            for h in 0..clean[t].len() {
                let mut at = |step: f64| {
                    let own = moved[t][h];
                    moved[t][h] = own + step;
                    let value = divergence(&moved);
                    moved[t][h] = own;
                    value
                };
                let slope = (at(1e-5) - at(-1e-5)) / 2e-5;
                assert!((gradient[t][h] - slope).abs() < 1e-9, "{t} {h}: {} {slope}", gradient[t][h]);
            }
        }
    }
}

#[test]
fn saliencies_are_linear_in_the_noise() {
    // [C14]: ten times the noise, ten times the score.
    let (tree, policy) = laboratory(1);
    for path in long(&tree) {
        let (one, ten) =
            (policy.saliencies(&tree, &path, 1e-6, 4, 7), policy.saliencies(&tree, &path, 1e-5, 4, 7));
        for (one, ten) in one.iter().zip(&ten) {
            assert!((ten - 10.0 * one).abs() <= 1e-3 * ten, "{one} {ten}");
        }
    }
}

#[test]
fn one_draw_of_the_noise_has_a_coefficient_of_variation_of_three_quarters_and_sixteen_a_quarter_of_it() {
    // [C14]: |normal| has standard deviation over mean sqrt(pi/2 - 1) = 0.7555.
    let (tree, policy) = laboratory(1);
    let path = &long(&tree)[0];
    let spread = |draws: usize| {
        let n = 4_000;
        let scores: Vec<f64> =
            (0..n).map(|seed| policy.saliencies(&tree, path, 1e-5, draws, seed)[0]).collect();
        let mean = scores.iter().sum::<f64>() / n as f64;
        (scores.iter().map(|s| (s - mean).powi(2)).sum::<f64>() / n as f64).sqrt() / mean
    };
    let want = (std::f64::consts::FRAC_PI_2 - 1.0).sqrt();
    assert!((spread(1) - want).abs() < 0.03 && (spread(16) - want / 4.0).abs() < 0.01);
}

#[test]
fn oar_keeps_the_sign_of_every_response_and_is_biased() {
    // [C13] on real scores; the weights depend on the whole response, so the expected update is no multiple of the gradient.
    let mut turned = Vec::new();
    for seed in [0, 1, 4, 5] {
        let (tree, policy) = laboratory(seed);
        let table = policy.tabular(&tree);
        let gradient = Oracle::new(&tree, &table).grad_j();
        if gradient.iter().all(|g| g.abs() < EXACT) {
            continue;
        }
        let extra_inputs = MaskableInputs::new(&tree, policy);
        let situation =
            Situation { extra_inputs: Some(&extra_inputs), ..Situation::on_policy(&tree, &table, 2) };
        for name in ["oar_p", "oar_g"] {
            let configured = methods::parse(name, "scale=none reduction=response_sum").expect("valid");
            assert_eq!(configured.require(&extra_inputs.kinds()), Ok(()));
            let update = implied(configured.method.as_ref(), &situation).expect("feasible").update;
            turned.push(1.0 - cosine(&update, &gradient));
            // A boost of 0 at threshold 0 is weight 1: (G-1)/G times the gradient.
            let plain =
                methods::parse(name, "scale=none reduction=response_sum threshold=0 boost=0").expect("valid");
            let update = implied(plain.method.as_ref(), &situation).expect("feasible").update;
            assert!(update.iter().zip(&gradient).all(|(u, g)| (u - 0.5 * g).abs() < EXACT), "{name} {seed}");
        }
    }
    assert!(turned.len() >= 4 && turned.iter().all(|t| *t > 1e-6 && *t < 0.5), "{turned:?}");
}

#[test]
fn the_mean_saliency_is_the_norm_of_a_row_of_the_fisher_matrix_times_the_mean_of_a_folded_normal() {
    // [C14] in numbers: J = 1/2 d^T F d near the clean point, so <dJ/de_t, e_t> = e_t^T (F d)_t is normal with standard deviation
    // noise |e_t^T F_t| over the draws d, and the mean of its size is sqrt(2 / pi) times that.
    let (tree, policy) = answering(5);
    let noise = 1e-5;
    for leaf in [0, 17, 40] {
        let path = tree.path(leaf);
        let node = tree.edge_node(path[3]);
        let clean = policy.inputs(&tree, &path);
        let p0 = policy.log_probs_at(&tree, node, &clean);
        let mean = policy.saliencies(&tree, &path, noise, 20_000, 1);
        for t in 0..3 {
            // e_t^T F_t by central differences of the gradient in every coordinate.
            let mut squares = 0.0;
            for k in 0..3 {
                for h in 0..clean[k].len() {
                    let along = |step: f64| {
                        let mut moved = clean.clone();
                        moved[k][h] += step;
                        let g = policy.answer_gradient(&tree, node, &moved, &p0);
                        g[t].iter().zip(&clean[t]).map(|(g, e)| g * e).sum::<f64>()
                    };
                    squares += ((along(1e-5) - along(-1e-5)) / 2e-5).powi(2);
                }
            }
            let want = noise * squares.sqrt() * (2.0 / std::f64::consts::PI).sqrt();
            assert!((mean[t] / want - 1.0).abs() < 0.02, "{leaf} {t}: {} {want}", mean[t]);
        }
    }
}

#[test]
fn a_quantile_of_0_suppresses_no_token() {
    // Fact (ii): more than a quarter of the scores at the least makes tau 0, and no score lies below it.
    use grpo_lambda::assignment::{BiLevel, Threshold};
    let levels = BiLevel {
        threshold: 0.25,
        on: Threshold::Quantile,
        boost: 1.0,
        floor: 0.1,
        log1p: true,
        mass: false,
    };
    let weights = levels.weights(&[0.0, 0.0, 0.0, 1.0, 2.0]);
    assert!(weights.iter().all(|w| *w >= 1.0) && weights[..3] == [1.0; 3], "{weights:?}");
    let weights = levels.weights(&[0.0, 0.5, 0.7, 1.0, 2.0]);
    assert!((weights[0] - 0.1).abs() < 1e-15, "a single least score is suppressed: {weights:?}");
}

#[test]
fn the_hidden_states_of_a_maskable_policy_are_what_its_next_distribution_reads() {
    // Two prefixes with one state have one distribution: states are all that is passed on.
    let (tree, policy) = answering(7);
    let path = tree.path(30);
    let states = policy.states(&tree, &path);
    assert_eq!(states.len(), 4);
    assert!(states.iter().flatten().all(|u| u.abs() < 1.0));
    // The state before the last token depends on the tokens before it alone.
    let other = tree
        .leaves()
        .map(|l| tree.path(l))
        .find(|p| p[..3] == path[..3] && p[3] != path[3])
        .expect("a sibling");
    assert_eq!(policy.states(&tree, &other)[..3], states[..3]);
    assert_ne!(policy.states(&tree, &other)[3], states[3]);
    let extra_inputs = MaskableInputs::new(&tree, policy).extra_inputs(30, &path);
    assert_eq!(extra_inputs.hidden, Some(states));
}
