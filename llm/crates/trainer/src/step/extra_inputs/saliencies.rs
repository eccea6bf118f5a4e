//! OAR-G: how steeply the answer depends on the embedding of a reasoning token.

use grpo_lambda::assignment::Answer;
use grpo_lambda_decoder::model::{Decoder, Rows};
use grpo_lambda_decoder::rng::normal;

use super::{
    ForwardSettings, InputCost, InputError, InputFields, each_row, log_softmax_of_mean, packed, tokens_of,
};

/// Distance between the random numbers of two draws: more than a response's embeddings have elements.
const DRAW_STRIDE: u64 = 1 << 40;

/// The saliency of every reasoning token of every item, the mean over `draws` perturbations of standard deviation `noise`.
///
/// ```text
/// S_t = | sum_h dJ/de_{t,h} e_{t,h} |            e: the clean embeddings, dJ/de at e + noise, noise on reasoning tokens only
/// answer_mean, last   J = KL( P || P' )          P = softmax(mean logits at the answer / temperature), held; P' under noise
/// answer_joint        J = mean log pi(answer) - mean log pi'(answer)
/// ```
/// `last` is the distribution after the answer's last token. One clean forward pass where `P` is needed, then a forward and a backward
/// pass per draw; rows end with the answer. No parameter's gradient is touched.
pub fn saliencies(
    model: &Decoder<f32>,
    items: &[InputFields],
    answer: Answer,
    (noise, draws): (f64, u64),
    pass: ForwardSettings,
) -> Result<(Vec<Vec<f64>>, InputCost), InputError> {
    let vocabulary = model.config().vocab_size;
    let mut scores: Vec<Vec<f64>> = items.iter().map(|i| vec![0.0; i.span.reasoning]).collect();
    let mut cost = InputCost::default();
    for part in packed(items.iter().map(|item| size(item, answer)), pass.tokens, vocabulary) {
        let (items, scores) = (&items[part.clone()], &mut scores[part]);
        let clean = clean(model, items, answer, pass, &mut cost)?;
        let jobs: Vec<Job> = (0..items.len()).flat_map(|i| (0..draws).map(move |d| (i, d))).collect();
        let sizes = jobs.iter().map(|&(i, _)| size(&items[i], answer));
        for part in packed(sizes, pass.tokens, vocabulary) {
            let jobs = &jobs[part];
            let (rows, gradient) = gradients(model, items, jobs, (&clean, answer, noise), pass)?;
            cost.forward += tokens_of(&rows);
            cost.backward += tokens_of(&rows);
            for (&(i, _), &start) in jobs.iter().zip(rows.offsets()) {
                add_products(model, &items[i], &gradient, start, draws, &mut scores[i]);
            }
        }
    }
    Ok((scores, cost))
}

/// An item, by its place among those at hand, and a draw.
type Job = (usize, u64);

/// Tokens of the row of an item, and how many of them are scored.
fn size(item: &InputFields, answer: Answer) -> (usize, usize) {
    let (end, from) = borders(item, answer);
    (item.prompt.len() + end, end - from)
}

/// The answer's distribution without noise, as log-probabilities; nothing where it is not needed.
fn clean(
    model: &Decoder<f32>,
    items: &[InputFields],
    answer: Answer,
    pass: ForwardSettings,
    cost: &mut InputCost,
) -> Result<Vec<Vec<f64>>, InputError> {
    if answer == Answer::Joint {
        return Ok(vec![Vec::new(); items.len()]);
    }
    let mut rows = Rows::new();
    items.iter().map(|item| row_of(item, answer)).for_each(|(row, from)| rows.push(&row, from));
    cost.forward += tokens_of(&rows);
    let logits = model.target_logits(&rows, None)?;
    let found = each_row(&rows, &logits, model.config().vocab_size);
    Ok(found.map(|(n, z)| log_softmax_of_mean(z, n, pass.temperature)).collect())
}

/// The rows of some jobs, and `dJ/de` of all their tokens under noise.
fn gradients(
    model: &Decoder<f32>,
    items: &[InputFields],
    jobs: &[Job],
    (clean, answer, noise): (&[Vec<f64>], Answer, f64),
    pass: ForwardSettings,
) -> Result<(Rows, Vec<f32>), InputError> {
    let mut rows = Rows::new();
    let mut shift = Vec::new();
    for &(i, d) in jobs {
        let (row, from) = row_of(&items[i], answer);
        rows.push(&row, from);
        shift.extend(perturbation(model, &items[i], row.len(), noise, d));
    }
    let slope = |logits: &[f32]| {
        let rows_of = each_row(&rows, logits, model.config().vocab_size).zip(jobs);
        let slopes = |((n, z), &(i, _)): ((usize, &[f32]), &Job)| match answer {
            Answer::Joint => likelihood_slope(z, &items[i].response[items[i].span.answer.clone()], pass),
            Answer::Mean | Answer::Last => divergence_slope(z, n, &clean[i], pass),
        };
        rows_of.flat_map(slopes).collect()
    };
    let gradient = model.embedding_gradient(&rows, Some(&shift), pass.recompute, slope)?;
    Ok((rows, gradient))
}

/// Adds a draw's `| sum_h dJ/de_{t,h} e_{t,h} |` to the scores of an item, whose row starts at token `start`.
fn add_products(
    model: &Decoder<f32>,
    item: &InputFields,
    gradient: &[f32],
    start: usize,
    draws: u64,
    scores: &mut [f64],
) {
    let h = model.config().hidden_size;
    for (t, score) in scores.iter_mut().enumerate() {
        let place = (start + item.prompt.len() + t) * h;
        let e = model.embedding(item.response[t]);
        let product = |(g, e): (&f32, &f32)| f64::from(*g) * f64::from(*e);
        let along: f64 = gradient[place..place + h].iter().zip(e).map(product).sum();
        *score += along.abs() / draws as f64;
    }
}

/// The end of an item's row and the beginning of its scored tokens, in tokens of the response. The closing of the box is scored for `last`: the
/// logits that predict it are those after the answer.
fn borders(item: &InputFields, answer: Answer) -> (usize, usize) {
    let place = &item.span.answer;
    match answer {
        Answer::Mean | Answer::Joint => (place.end, place.start),
        Answer::Last => (place.end + 1, place.end),
    }
}

/// The row of an item, and from where its tokens are scored. A response that was cut off with the answer in its last token has none that closes the
/// box: any token stands for it, since only the logits before it are read.
fn row_of(item: &InputFields, answer: Answer) -> (Vec<u32>, usize) {
    let (end, from) = borders(item, answer);
    let mut row = item.row(end.min(item.response.len()));
    row.resize(item.prompt.len() + end, 0);
    (row, item.prompt.len() + from)
}

/// Normal numbers on the embeddings of the reasoning tokens, 0 elsewhere.
fn perturbation(model: &Decoder<f32>, item: &InputFields, len: usize, noise: f64, draw: u64) -> Vec<f32> {
    let h = model.config().hidden_size;
    let mut rng = item.address.generator(draw * DRAW_STRIDE);
    let mut shift = vec![0.0; len * h];
    let reasoning = item.prompt.len() * h..(item.prompt.len() + item.span.reasoning) * h;
    shift[reasoning].iter_mut().for_each(|x| *x = (noise * normal(&mut rng)) as f32);
    shift
}

/// The derivative of `KL(p || softmax(mean logits / temperature))` by each logit.
fn divergence_slope(logits: &[f32], rows: usize, log_p: &[f64], pass: ForwardSettings) -> Vec<f32> {
    let now = log_softmax_of_mean(logits, rows, pass.temperature);
    let scale = 1.0 / (rows as f64 * pass.temperature);
    let one: Vec<f32> = now.iter().zip(log_p).map(|(q, p)| ((q.exp() - p.exp()) * scale) as f32).collect();
    one.repeat(rows)
}

/// The derivative of minus the mean log-probability of `targets` by each logit.
fn likelihood_slope(logits: &[f32], targets: &[u32], pass: ForwardSettings) -> Vec<f32> {
    let vocabulary = logits.len() / targets.len();
    let scale = 1.0 / (targets.len() as f64 * pass.temperature);
    let slopes = |(z, &target): (&[f32], &u32)| {
        let log_p = log_softmax_of_mean(z, 1, pass.temperature);
        let slope = move |(v, l): (usize, f64)| ((l.exp() - f64::from(v == target as usize)) * scale) as f32;
        log_p.into_iter().enumerate().map(slope).collect::<Vec<f32>>()
    };
    logits.chunks_exact(vocabulary).zip(targets).flat_map(slopes).collect()
}
