//! SHEAR and ridge RLOO: the last layer's state, after the final norm, at every token.

use grpo_lambda::advantage::all_equal;
use grpo_lambda::group::Group;
use grpo_lambda_decoder::model::{Decoder, Rows};
use grpo_lambda_decoder::pack::pack;

use super::{ForwardSettings, InputCost, InputError, tokens_of};

/// Writes the last hidden state at every token of every response in a group with unequal rewards.
pub(super) fn hidden<'a>(
    model: &Decoder<f32>,
    pass: ForwardSettings,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
) -> Result<InputCost, InputError> {
    let mut cost = InputCost::default();
    let mut wanted = Vec::new();
    for (g, group) in batch.iter_mut().enumerate() {
        let known: Vec<f64> = group.responses.iter().filter_map(|r| r.reward).collect();
        for response in &mut group.responses {
            match all_equal(&known) {
                true => response.extra_inputs.hidden = Some(vec![Vec::new(); response.len()]),
                false => wanted.push((prompt(g), response)),
            }
        }
    }
    let sizes = wanted.iter().map(|(prompt, response)| prompt.len() + response.len());
    for part in pack(sizes, pass.tokens) {
        let mut rows = Rows::new();
        for (prompt, response) in &wanted[part.clone()] {
            let row: Vec<u32> = prompt.iter().chain(&response.tokens).copied().collect();
            rows.push(&row, row.len());
        }
        cost.forward += tokens_of(&rows);
        let (states, h) = (model.states(&rows)?, model.config().hidden_size);
        for ((prompt, response), &start) in wanted[part].iter_mut().zip(rows.offsets()) {
            let own = &states[(start + prompt.len()) * h..][..response.len() * h];
            let vector = |state: &[f32]| state.iter().map(|&x| f64::from(x)).collect();
            response.extra_inputs.hidden = Some(own.chunks_exact(h).map(vector).collect());
        }
    }
    Ok(cost)
}
