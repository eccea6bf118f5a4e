//! Optimal token baseline: the sum of the squared probabilities of every token's distribution.

use grpo_lambda::group::Group;
use grpo_lambda_decoder::model::{Decoder, Rows};

use super::{ForwardSettings, InputCost, InputError, each_row, log_softmax_of_mean, packed, tokens_of};

/// Writes `sum_v pi(v|s_t)^2` at every token of every response, at the sampling temperature.
pub(super) fn collisions<'a>(
    model: &Decoder<f32>,
    pass: ForwardSettings,
    batch: &mut [Group],
    prompt: impl Fn(usize) -> &'a [u32],
) -> Result<InputCost, InputError> {
    let (mut cost, vocabulary) = (InputCost::default(), model.config().vocab_size);
    let all =
        batch.iter_mut().enumerate().flat_map(|(g, group)| group.responses.iter_mut().map(move |r| (g, r)));
    let mut all: Vec<_> = all.map(|(g, response)| (prompt(g), response)).collect();
    let sizes: Vec<_> =
        all.iter().map(|(prompt, response)| (prompt.len() + response.len(), response.len())).collect();
    for part in packed(sizes.into_iter(), pass.tokens, vocabulary) {
        let mut rows = Rows::new();
        for (prompt, response) in &all[part.clone()] {
            rows.push(&[prompt, response.tokens.as_slice()].concat(), prompt.len());
        }
        cost.forward += tokens_of(&rows);
        let logits = model.target_logits(&rows, None)?;
        for ((_, response), (_, own)) in all[part].iter_mut().zip(each_row(&rows, &logits, vocabulary)) {
            let squares = |z: &[f32]| {
                log_softmax_of_mean(z, 1, pass.temperature).into_iter().map(|z| (2.0 * z).exp()).sum()
            };
            response.extra_inputs.collisions = Some(own.chunks_exact(vocabulary).map(squares).collect());
        }
    }
    Ok(cost)
}
