//! The convention that gives a trainer's numbers: whose advantages, whose loss.

use grpo_lambda::group::{Group, Response};
use grpo_lambda_conventions::{Assumptions, Theirs, diagnose};

fn main() {
    // One prompt, three responses: the trainer's rewards, and its log-probabilities before and after an update.
    let old = [vec![-0.5, -0.3], vec![-1.5], vec![-0.2, -0.9, -0.4]];
    let rewards = [1.0, 0.0, 0.0];
    let responses = old.iter().zip(rewards).map(|(old, reward)| Response::graded(old.clone(), reward));
    let batch = [Group { responses: responses.collect() }];
    let logps = [vec![-0.4, -0.3], vec![-1.7], vec![-0.2, -1.0, -0.4]];

    // What it logged: one advantage per response, and the loss.
    let advantages = [1.1547, -0.57735, -0.57735].iter().zip(&old).map(|(a, old)| vec![*a; old.len()]);
    let theirs = Theirs { advantages: Some(advantages.collect()), ..Theirs::default() };

    let found = diagnose(&batch, &logps, &theirs, &Assumptions::default());
    let advantages = found.advantages.expect("they were given");
    for candidate in advantages.matches.iter().filter(|m| !m.labels.is_empty()) {
        println!("{}: `sim estimate --method {}`", candidate.labels.join(", "), candidate.command);
    }
    let named =
        |framework: &str| advantages.matches.iter().flat_map(|m| &m.labels).any(|l| l.starts_with(framework));
    assert!(named("verl") && !named("TRL"), "TRL adds another epsilon to the standard deviation");
}

#[test]
fn runs() {
    main();
}
