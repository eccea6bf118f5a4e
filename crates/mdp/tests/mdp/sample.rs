use grpo_lambda_mdp::zoo::Family;
use grpo_lambda_mdp::{Oracle, Sampler, Tabular, sample_reward, zoo};
use rand::SeedableRng;
use rand_chacha::ChaCha8Rng;

#[test]
fn frequencies_match_the_exact_probabilities_by_a_chi_square_test() {
    let tree = zoo::Random { seed: 5, horizon: 4, ..Default::default() }.tree().unwrap();
    let policy = Tabular::random(&tree, 8, 0.5);
    let oracle = Oracle::new(&tree, &policy);
    let sampler = Sampler::new(&tree, &policy);
    let mut rng = ChaCha8Rng::seed_from_u64(9);
    let n = 200_000;
    let (mut counts, mut reward) = (vec![0.0; tree.leaf_count()], 0.0);
    let (mut path, mut expected_path) = (Vec::new(), Vec::new());
    for _ in 0..n {
        let leaf = sampler.sample_into(&mut rng, &mut path);
        tree.path_into(leaf, &mut expected_path);
        assert_eq!(path, expected_path);
        counts[leaf] += 1.0;
        reward += sample_reward(&tree, leaf, &mut rng);
    }
    // Cells with fewer than 10 expected draws are pooled.
    let (mut chi, mut cells, mut rest) = (0.0, 0, (0.0, 0.0));
    for leaf in tree.leaves() {
        let expected = oracle.leaf_prob(leaf) * f64::from(n);
        if expected < 10.0 {
            rest = (rest.0 + expected, rest.1 + counts[leaf]);
        } else {
            chi += (counts[leaf] - expected).powi(2) / expected;
            cells += 1;
        }
    }
    if rest.0 > 0.0 {
        chi += (rest.1 - rest.0).powi(2) / rest.0;
    }
    // A chi-square variable has mean k and variance 2k: four standard deviations above the mean.
    let k = f64::from(cells);
    assert!(cells > 20 && chi < k + 4.0 * (2.0 * k).sqrt(), "chi2 = {chi} with {cells} cells");
    let error = (oracle.j * (1.0 - oracle.j) / f64::from(n)).sqrt();
    assert!((reward / f64::from(n) - oracle.j).abs() < 4.0 * error);
}

#[test]
fn the_same_seed_gives_the_same_responses() {
    let tree = zoo::full_tree(4, 4).unwrap();
    let sampler = Sampler::new(&tree, &Tabular::uniform(&tree));
    let draw = |seed| {
        let mut rng = ChaCha8Rng::seed_from_u64(seed);
        (0..5).map(|_| sampler.sample(&mut rng)).collect::<Vec<_>>()
    };
    assert_eq!(draw(1), draw(1));
    assert_ne!(draw(1), draw(2));
}

#[test]
fn a_token_of_probability_zero_is_never_drawn() {
    let tree = zoo::LemmaCounterexample.tree().unwrap();
    for (logits, leaf) in [([0.0, -2000.0, 0.0, 0.0], 0), ([-2000.0, 0.0, 0.0, 0.0], 1)] {
        let sampler = Sampler::new(&tree, &Tabular::from_logits(&tree, logits.to_vec()));
        let mut rng = ChaCha8Rng::seed_from_u64(2);
        assert!((0..1000).all(|_| sampler.sample(&mut rng) == leaf));
    }
}
