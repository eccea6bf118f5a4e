use grpo_lambda_stats::table::Table;

use super::effect::SOUND_LENGTH;
use super::measure::Numbers;
use crate::experiments::common::record::{Record, table};

/// Tokens of every response where all have the same length.
const EQUAL_LENGTH: usize = 4;

pub(super) fn tables(n: &Numbers) -> Vec<(String, Table)> {
    let finite = |x: f64| x.is_finite().then_some(x);
    let rows = n.rows.iter().map(|row| {
        let effect = &row.effect;
        Record::default()
            .with("method", row.method)
            .with("luck", row.luck)
            .with("initial_sound", row.sound)
            .with("flawed_length", row.flawed_length.unwrap_or(EQUAL_LENGTH))
            .with("sound_length", row.flawed_length.map_or(EQUAL_LENGTH, |_| SOUND_LENGTH))
            .with("advantage_flawed", finite(effect.advantage))
            .with("step_over_gradient", finite(effect.step))
            .with("step_relative", finite(effect.relative))
            .with("credit_flawed", finite(effect.credit_flawed))
            .with("credit_sound", finite(effect.credit_sound))
            .with("lucky_over_right", finite(effect.lucky))
            .with("raises", finite(effect.raises))
            .with("raises_when_lucky", finite(effect.raises_when_lucky))
            .with("raises_when_unlucky", finite(effect.raises_when_unlucky))
    });
    vec![(String::new(), table(rows))]
}
