use grpo_lambda_trainer::config::Config;
use grpo_lambda_trainer::eval::Evaluation;
use grpo_lambda_trainer::train::divergence::diverged;
use grpo_lambda_trainer::train::unusual_rates;

fn evaluation(correct: u64) -> Evaluation {
    Evaluation { correct, n: 100, ungradable: 0, truncated: 0, mean_length: 5.0 }
}

fn found(rate: &str, entropies: [f64; 2], correct: [u64; 2]) -> Option<String> {
    let config = Config::resolve("tiny", &[format!("rl.lr={rate}")]).expect("valid");
    let [before, after] = correct.map(evaluation);
    diverged(&config, Some(entropies), 200f64.ln(), [&before, &after])
}

#[test]
fn a_policy_that_forgot_what_it_knew_has_diverged_and_a_fresh_one_has_not() {
    let said = found("0.01", [0.3, 5.2], [90, 0]).expect("diverged");
    for part in ["RL diverged", "from 0.300 to 5.200", "ln V = 5.298", "0.900 to 0.000", "lower rl.lr = 0.01"]
    {
        assert!(said.contains(part), "{part}: {said}");
    }
    assert_eq!(found("0.01", [5.2, 5.25], [0, 0]), None, "it never knew anything");
    assert_eq!(found("0.01", [0.3, 0.2], [50, 70]), None);
    assert_eq!(found("0.01", [0.3, 1e-5], [50, 70]), None, "certain and better is no divergence");
    assert!(found("1000", [0.3, 1e-22], [50, 45]).is_some(), "one answer to everything, at such a rate");
    assert!(found("1000", [0.3, 1.0], [90, 10]).is_some());
}

#[test]
fn rates_out_of_any_range_are_warned_of_by_their_key() {
    let warned = |words: &[&str]| unusual_rates(&Config::resolve("tiny", words).expect("valid"));
    assert_eq!(warned(&[]), [""; 0]);
    let said = warned(&["rl.lr=1000", "sft.lr=1e-12"]);
    assert!(said[0].contains("sft.lr = 1e-12") && said[0].contains("nothing will be learned"), "{said:?}");
    assert!(said[1].contains("rl.lr = 1000.0") && said[1].contains("probably diverge"), "{said:?}");
    assert_eq!(warned(&["rl.lr=1000", "rl.steps=0"]), [""; 0], "a stage that is not run");
    let short = warned(&["rl.steps=3", "rl.warmup=5", "sft.steps=20", "sft.warmup=20"]);
    assert_eq!(short.len(), 1, "{short:?}");
    assert!(
        short[0].contains("rl.warmup = 5, longer than rl.steps = 3") && short[0].contains("0.60 of rl.lr")
    );
}
