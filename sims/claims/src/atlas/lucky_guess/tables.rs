//! The table.

use grpo_lambda_stats::table::{Cell, Table};

use super::case::SOUND_LENGTH;
use super::measure::Numbers;

/// Tokens of every response where all have the same length.
const EQUAL_LENGTH: usize = 4;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let mut table = Table::new(&[
        "method",
        "luck",
        "initial_sound",
        "flawed_length",
        "sound_length",
        "advantage_flawed",
        "step_over_gradient",
        "step_relative",
        "credit_flawed",
        "credit_sound",
        "lucky_over_right",
        "raises",
        "raises_when_lucky",
        "raises_when_unlucky",
    ]);
    for row in &n.rows {
        let mut cells: Vec<Cell> = vec![
            row.method.into(),
            row.luck.into(),
            row.sound.into(),
            row.flawed_length.unwrap_or(EQUAL_LENGTH).into(),
            row.flawed_length.map_or(EQUAL_LENGTH, |_| SOUND_LENGTH).into(),
        ];
        let cell = |x: f64| if x.is_finite() { Cell::Number(x) } else { Cell::Empty };
        cells.extend(row.effect.numbers().map(cell));
        table.push(cells);
    }
    vec![(String::new(), table)]
}
