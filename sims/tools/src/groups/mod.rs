//! One group as one line of JSON: what `sim estimate` reads.
//!
//! ```json
//! {"rewards": [1, 0], "logps": [[-0.5, -0.25], [-1.0]], "old_logps": [[-0.5, -0.25], [-1.0]]}
//! ```
//! Optional: `advantages` (one number per response, or one per token; `rewards` may then be left out), `mask` (one flag per slot of padded
//! rows, 1 where a token is trained), `id`, `truncated` (one flag per response), `ref_logps` and `tokens` (one list per response), and every kind of
//! extra input that
//! [`ExtraInputs`](grpo_lambda::group::ExtraInputs) declares, in its form: a list of numbers per response, a list of `[first token, value]` per
//! response (steps), or a list of states per response, each a list of numbers (hidden states).

mod extra_inputs;
mod fields;
mod values;

use fields::Fields;
use grpo_lambda::check::{self, BatchError};
use grpo_lambda::group::{Group, InputKind};
use grpo_lambda::methods::Configured;
use grpo_lambda::padded;
use serde_json::Value;

/// A group with the current log-probabilities of its responses.
#[derive(Clone, Debug, PartialEq)]
pub struct Line {
    /// The caller's name for the group: a JSON string or number, echoed as it is.
    pub id: Option<Value>,
    /// Rewards, old log-probabilities and extra inputs.
    pub group: Group,
    /// Current log-probabilities, one list per response.
    pub logps: Vec<Vec<f64>>,
    /// Advantages in place of the method's own, one list per response.
    pub advantages: Option<Vec<Vec<f64>>>,
    /// The slots of each row that hold a trained token; `None` if all do. Everything else here holds trained tokens only.
    pub masks: Option<Vec<Vec<bool>>>,
    /// True if no response of the group has a reward, so that its advantages are 0.
    pub ungraded: bool,
}

/// A positive log-probability: possible for the density of a continuous policy, a mistake otherwise.
#[derive(Clone, Debug, PartialEq)]
pub struct Positive {
    /// The place of the first one, as in `logps[0][2]`.
    pub place: String,
    /// Its value.
    pub value: f64,
    /// Their number.
    pub count: usize,
}

/// The most rounding of a log-probability of 0.
const ROUNDING: f64 = 1e-6;

impl Line {
    /// Reads one line and checks it against what a method needs.
    ///
    /// # Errors
    /// The fault and its fix, starting with the field.
    pub fn parse(text: &str, method: Option<&Configured>) -> Result<Self, String> {
        let mut line = Fields::read(text)?.line()?;
        line.check(method)?;
        Ok(line)
    }

    /// Checks the line against what a method needs, and notes whether it is ungraded.
    ///
    /// # Errors
    /// The errors of [`Line::parse`].
    pub fn check(&mut self, method: Option<&Configured>) -> Result<(), String> {
        self.ungraded = false;
        if self.advantages.is_some() {
            // What the loss reads besides advantages; entropies choose the tokens that count.
            let loss = [InputKind::RefLogps, InputKind::SamplerLogps, InputKind::Entropies];
            let mut needs = method.map_or(Vec::new(), Configured::extra_inputs);
            needs.retain(|kind| loss.contains(kind));
            return check::responses(&self.group, &self.logps, &needs).map_err(|e| e.to_string());
        }
        let checked = match method {
            Some(configured) => configured.check(&self.group, &self.logps),
            None => check::graded(&self.group, &self.logps, &[]),
        };
        match checked {
            // A group that nobody could grade teaches nothing; the others of its batch do.
            Err(BatchError::NoRewards(_)) => self.ungraded = true,
            other => other.map_err(|e| e.to_string())?,
        }
        Ok(())
    }

    /// Numbers of trained tokens as rows of the caller's width, 0 where no token is trained.
    pub fn widened(&self, rows: Vec<Vec<f64>>) -> Vec<Vec<f64>> {
        let Some(masks) = &self.masks else { return rows };
        rows.iter().zip(masks).map(|(row, mask)| padded::scatter(row, mask, 0.0)).collect()
    }

    /// Rows of the caller's width as the numbers of trained tokens.
    ///
    /// # Errors
    /// A row with neither one entry per slot nor one per trained token.
    pub fn narrowed(&self, field: &str, rows: Vec<Vec<f64>>) -> Result<Vec<Vec<f64>>, String> {
        let narrow = |(i, row): (usize, Vec<f64>)| {
            let trained = self.logps[i].len();
            match self.masks.as_ref().map(|masks| &masks[i]) {
                Some(mask) if row.len() == mask.len() => Ok(padded::compress(&row, mask)),
                _ if row.len() == trained => Ok(row),
                _ => Err(format!(
                    "{field}[{i}] has {} entries; {trained}, one per token, are needed",
                    row.len()
                )),
            }
        };
        rows.into_iter().enumerate().map(narrow).collect()
    }

    /// Log-probabilities above 0, if there are any.
    pub fn positive(&self) -> Option<Positive> {
        let responses = &self.group.responses;
        let positives = |field: &'static str, i: usize, values: &[f64]| {
            let found = values.iter().enumerate().filter(|(_, x)| **x > ROUNDING);
            found.map(|(t, x)| (format!("{field}[{i}][{t}]"), *x)).collect::<Vec<_>>()
        };
        let mut all = (0..responses.len()).flat_map(|i| {
            let reference = responses[i].ref_logps.as_deref().unwrap_or(&[]);
            let old = positives("old_logps", i, &responses[i].old_logps);
            [positives("logps", i, &self.logps[i]), old, positives("ref_logps", i, reference)].concat()
        });
        let (place, value) = all.next()?;
        Some(Positive { place, value, count: 1 + all.count() })
    }
}
