//! OAR-P: how far the answer moves when a reasoning token is masked.

use grpo_lambda::assignment::Answer;
use grpo_lambda_decoder::model::{Decoder, ForwardOptions, Rows};
use rayon::prelude::*;

use super::{
    ForwardSettings, InputCost, InputError, InputFields, each_row, log_softmax_of_mean, packed, tokens_of,
};

/// The shift of every reasoning token of every item.
///
/// ```text
/// answer_mean, last   I_t = KL( P || P_t )                      P = softmax(mean logits at the answer / temperature)
/// answer_joint        I_t = log pi(answer) - log pi_t(answer)   may be negative
/// ```
/// `_t`: with token `t` replaced by the token `mask`, all others forced. Rows end with the answer (`last`: before its second token), of
/// which nothing later can be seen. One row per reasoning token and one clean row, in passes of at most `pass.tokens` tokens.
pub fn shifts(
    model: &Decoder<f32>,
    items: &[InputFields],
    answer: Answer,
    mask: u32,
    pass: ForwardSettings,
) -> Result<(Vec<Vec<f64>>, InputCost), InputError> {
    let end = |item: &InputFields| match answer {
        Answer::Last => item.span.answer.start + 1,
        Answer::Mean | Answer::Joint => item.span.answer.end,
    };
    // The clean row of an item stands before its masked rows.
    let masked = |item: &InputFields| (0..item.span.reasoning).map(Some);
    let jobs: Vec<(usize, Option<usize>)> = (0..items.len())
        .flat_map(|i| std::iter::once(None).chain(masked(&items[i])).map(move |t| (i, t)))
        .collect();
    let sizes = jobs.iter().map(|&(i, _)| {
        let (item, end) = (&items[i], end(&items[i]));
        (item.prompt.len() + end, end - item.span.answer.start)
    });
    let mut scores: Vec<Vec<f64>> = items.iter().map(|_| Vec::new()).collect();
    let mut cost = InputCost::default();
    let mut clean = Vec::new();
    for part in packed(sizes, pass.tokens, model.config().vocab_size) {
        let jobs = &jobs[part];
        let mut rows = Rows::new();
        for &(i, t) in jobs {
            let item = &items[i];
            let mut row = item.row(end(item));
            if let Some(t) = t {
                row[item.prompt.len() + t] = mask;
            }
            rows.push(&row, item.prompt.len() + item.span.answer.start);
        }
        cost.forward += tokens_of(&rows);
        for (&(i, t), found) in jobs.iter().zip(answers(model, &rows, answer, pass)?) {
            match t {
                None => clean = found,
                Some(_) => scores[i].push(shift(answer, &clean, &found)),
            }
        }
    }
    Ok((scores, cost))
}

/// The log-probabilities of each row's answer, or its log-likelihood alone.
fn answers(
    model: &Decoder<f32>,
    rows: &Rows,
    answer: Answer,
    pass: ForwardSettings,
) -> Result<Vec<Vec<f64>>, InputError> {
    if answer == Answer::Joint {
        let options = ForwardOptions { temperature: pass.temperature, ..ForwardOptions::default() };
        return Ok(model.score(rows, options)?.logps.iter().map(|row| vec![row.iter().sum()]).collect());
    }
    let logits = model.target_logits(rows, None)?;
    let scored: Vec<_> = each_row(rows, &logits, model.config().vocab_size).collect();
    Ok(scored.into_par_iter().map(|(n, z)| log_softmax_of_mean(z, n, pass.temperature)).collect())
}

fn shift(answer: Answer, clean: &[f64], masked: &[f64]) -> f64 {
    match answer {
        Answer::Joint => clean[0] - masked[0],
        Answer::Mean | Answer::Last => divergence(clean, masked),
    }
}

/// `KL(p || q)` of log-probabilities; what rounding takes below 0 is 0.
fn divergence(log_p: &[f64], log_q: &[f64]) -> f64 {
    let term = |(p, q): (&f64, &f64)| if *p > f64::NEG_INFINITY { p.exp() * (p - q) } else { 0.0 };
    let sum: f64 = log_p.iter().zip(log_q).map(term).sum();
    if sum < 0.0 { 0.0 } else { sum }
}
