//! A few rows of the atlas computed afresh, for tests of committed data.

use grpo_lambda_stats::table::Table;

use super::measure::{Size, seed_of};
use super::piece::{MaskedTask, piece};
use super::row::GROUP;
use super::tables::long_row;
use crate::atlas::entrants::ENTRANTS;
use crate::atlas::tasks::tasks;
use crate::experiments::common::record::table;

/// `entrants` by name on the first `tasks_taken` tasks, as the quick version has them at the group size of its main table.
///
/// # Errors
/// If a task or an entrant cannot be built.
pub fn excerpt(seed: u64, tasks_taken: usize, entrants: &[&str]) -> anyhow::Result<Table> {
    let effort = Size::of(false).effort;
    let mut records = Vec::new();
    for (t, task) in tasks(false)?.into_iter().take(tasks_taken).enumerate() {
        let masked = MaskedTask::new(task, seed);
        for (e, entrant) in ENTRANTS.iter().enumerate().filter(|(_, e)| entrants.contains(&e.name)) {
            for row in piece(&masked, entrant, &[GROUP], effort, seed_of(seed, t, e))? {
                records.push(long_row(&row, entrant, &masked.task));
            }
        }
    }
    Ok(table(records))
}
