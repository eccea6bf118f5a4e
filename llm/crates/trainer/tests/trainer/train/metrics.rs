#![allow(clippy::unwrap_used)]

use crate::page;
use grpo_lambda_decoder::optim::StepOutcome;
use grpo_lambda_trainer::reward::{REGISTRY, RewardBreakdown};
use grpo_lambda_trainer::train::metrics::{
    COEF_COLUMN, CriticMetrics, SAMPLED_COLUMN, STUCK_COLUMN, StepMetrics, Timing, mean, reward_entries,
};

#[test]
fn columns_are_the_fields_in_their_order_and_only_what_has_a_value_is_an_entry() {
    assert_eq!(StepMetrics::COLUMNS.len(), 28);
    assert_eq!((StepMetrics::COLUMNS[0], StepMetrics::COLUMNS[27]), ("loss", "eval_high"));
    let row = StepMetrics { kl: Some(2.0), loss: Some(1.0), ..StepMetrics::default() };
    assert_eq!(row.entries().collect::<Vec<_>>(), [("loss", 1.0), ("kl", 2.0)]);
}

#[test]
fn the_page_of_the_records_lists_every_column() {
    let rows = |columns: &[&str], meanings: &[&str]| {
        let row = |(column, meaning): (&&str, &&str)| format!("| `{column}` | {meaning} |\n");
        columns.iter().zip(meanings).map(row).collect::<String>()
    };
    let head = "| column | meaning |\n| --- | --- |\n";
    let rewards = REGISTRY
        .iter()
        .map(|c| format!("| `{}` | mean of the component `{}`: {} |\n", c.column, c.name, c.about));
    let metrics = head.to_owned()
        + &rows(StepMetrics::COLUMNS, StepMetrics::MEANINGS)
        + &rewards.collect::<String>()
        + &format!(
            "| `{STUCK_COLUMN}` | components of the reward that have not moved for `reward.stuck_steps` steps |\n\
             | `{COEF_COLUMN}` | with `rl.entropy_target` alone: the coefficient of the entropy bonus in this step |\n\
             | `{SAMPLED_COLUMN}` | with trees or completions alone: all tokens that were sampled, a segment of a tree once |\n"
        )
        + &rows(CriticMetrics::COLUMNS, CriticMetrics::MEANINGS);
    let timing = head.to_owned() + &rows(Timing::COLUMNS, Timing::MEANINGS);
    page::hold("records.md", "metrics.csv", &metrics);
    page::hold("records.md", "timing.csv", &timing);
}

#[test]
fn columns_of_rewards_are_empty_where_no_response_has_one() {
    let component = &REGISTRY[0];
    let row = |values: &[Option<f64>]| {
        let breakdown = |x: &Option<f64>| RewardBreakdown { total: *x, components: vec![*x; REGISTRY.len()] };
        let rewards: Vec<_> = values.iter().map(breakdown).collect();
        reward_entries([(0, component)].into_iter(), rewards.iter(), 0)
    };
    assert_eq!(row(&[None, None]), [(STUCK_COLUMN, 0.0)]);
    assert_eq!(row(&[None, Some(0.5), Some(1.0)]), [(component.column, 0.75), (STUCK_COLUMN, 0.0)]);
    assert_eq!(mean(vec![]), None);
}

#[test]
fn a_skipped_step_has_no_norm() {
    let skipped = StepOutcome::Skipped { parameter: "w".to_owned(), not_finite: 1 };
    let row = StepMetrics::default().with_update(&skipped);
    assert_eq!((row.skipped, row.grad_norm, row.grad_scale), (Some(1.0), None, None));
    let row = StepMetrics::default().with_update(&StepOutcome::Applied { grad_norm: 3.0, scale: 0.5 });
    assert_eq!((row.skipped, row.grad_norm, row.grad_scale), (Some(0.0), Some(3.0), Some(0.5)));
}
