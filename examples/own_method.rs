//! A method of one's own from parts that exist: rewards minus the median of their group, under PPO's clip.

use grpo_lambda::assignment::Assignment;
use grpo_lambda::equation::{BatchSize, Part};
use grpo_lambda::group::{Group, Response};
use grpo_lambda::methods::{Method, evaluate};
use grpo_lambda::objective::Objective;
use grpo_lambda::reduction::Reduction;
use grpo_lambda::surrogate::Surrogate;

#[derive(Debug)]
struct MedianBaseline;

impl Assignment for MedianBaseline {
    fn advantages(&self, batch: &[Group], _active: &[bool]) -> Vec<Vec<f64>> {
        let of_group = |group: &Group| {
            let mut rewards: Vec<f64> = group.rewards().into_iter().flatten().collect();
            rewards.sort_by(f64::total_cmp);
            let median = rewards[rewards.len() / 2];
            let row = |r: &Response| vec![r.reward.map_or(0.0, |reward| reward - median); r.len()];
            group.responses.iter().map(row).collect::<Vec<_>>()
        };
        batch.iter().flat_map(of_group).collect()
    }

    fn equation(&self, token: &str) -> Vec<Part> {
        vec![("credit", format!("{token} = r_i - median_j r_j"))]
    }
}

fn main() {
    let clip = Surrogate::Clip { low: 0.2, high: 0.2 };
    let method = Objective::new(MedianBaseline, clip, Reduction::TokenMean);
    println!("{}", method.equation(&BatchSize { groups: 1, group_size: 3, max_len: 2 }).expect("it has one"));

    let responses = [1.0, 0.0, 0.0].map(|reward| Response::graded(vec![-0.7, -0.3], reward));
    let logps = vec![vec![-0.7, -0.3]; 3];
    let batch = evaluate(&method, &[Group { responses: responses.to_vec() }], &logps);
    println!("loss {:.4}, gradient {:.4?}", batch.value, batch.dlogps);
    assert_eq!(batch.advantages, [[1.0; 2], [0.0; 2], [0.0; 2]]);
}

#[test]
fn runs() {
    main();
}
