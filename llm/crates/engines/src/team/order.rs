//! The leader's orders to a worker, and the form in which rows and responses travel.

use grpo_lambda_decoder::generate::{
    RolloutError, SampledResponse, Sampler, SamplingParams, SamplingRequest, StoppingCriteria,
};
use grpo_lambda_decoder::model::{ForwardOptions, Rows, TokenScores};
use grpo_lambda_decoder::optim::AdamWSettings;
use grpo_lambda_decoder::rng::{Address, ScoreError};
use grpo_lambda_decoder::truncation::Truncation;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::link::{Link, LinkError};
use super::owners::Owners;
use super::shards::SamplingShare;

/// One order. Tensors are messages of their own, sorted by name.
#[derive(Debug, Deserialize, Serialize)]
pub(super) enum Order {
    /// A stage begins with a model of this shape (the JSON of its configuration), whose every tensor follows.
    Begin {
        shape: String,
        owners: Owners,
        adam: AdamWSettings,
        shards: usize,
    },
    /// Every tensor of the frozen reference follows.
    Reference,
    Sample(SampleOrder),
    /// Log-probabilities under the reference.
    Score {
        batches: Vec<WireRows>,
        options: WireOptions,
    },
    /// Log-probabilities of rows by shard; the tapes are kept until the next of these orders.
    Forward {
        ticket: u64,
        parts: Vec<(usize, WireRows)>,
        options: WireOptions,
    },
    /// The gradient through the tapes of that ticket.
    Backward {
        ticket: u64,
        dlogps: Vec<Vec<Vec<f64>>>,
    },
    /// The gradient is added up at the owners of its tensors. Answered with the squares of each, once it begins anew.
    Reduce,
    /// The owners move their tensors at this learning rate against the gradient times `scale`, and all get the new weights; without `scale` the
    /// gradient is dropped.
    Apply {
        rate: f64,
        scale: Option<f64>,
    },
    /// One array of the optimiser's state is wanted; answered with its numbers.
    State {
        part: String,
        tensor: String,
    },
    /// The optimiser continues after so many steps. Every part of the state of every tensor that the worker owns follows; then all get the weights.
    Restore {
        steps: u64,
    },
    /// The leader has no more to ask.
    End,
}

pub(super) fn encode(message: &impl Serialize) -> Vec<u8> {
    postcard::to_extend(message, Vec::new()).expect("a message in memory has a binary form")
}

pub(super) fn decode<T: DeserializeOwned>(bytes: &[u8]) -> Result<T, String> {
    postcard::from_bytes(bytes).map_err(|e| format!("sent what cannot be read as a message: {e}"))
}

/// The `len` numbers of a tensor that process `from` sends.
pub(super) fn receive_tensor(link: &mut dyn Link, from: usize, len: usize) -> Result<Vec<f32>, LinkError> {
    let bytes = link.receive(from)?;
    if bytes.len() != len * size_of::<f32>() {
        // A leader that has failed says goodbye to those who still wait for its numbers.
        let reason = format!("sent {} bytes where {len} numbers were expected", bytes.len());
        return Err(LinkError { rank: from, reason });
    }
    Ok(bytes.as_chunks().0.iter().map(|number| f32::from_ne_bytes(*number)).collect())
}

/// Log-probabilities and entropies.
pub(super) type WireScores = (Vec<Vec<f64>>, Vec<Vec<f64>>);

pub(super) fn wire_scores(scores: TokenScores) -> WireScores {
    (scores.logps, scores.entropies)
}

/// [`ForwardOptions`].
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(super) struct WireOptions {
    temperature: f64,
    entropy: bool,
    recompute: bool,
}

impl From<ForwardOptions> for WireOptions {
    fn from(options: ForwardOptions) -> Self {
        let ForwardOptions { temperature, entropy, recompute } = options;
        WireOptions { temperature, entropy, recompute }
    }
}

impl From<WireOptions> for ForwardOptions {
    fn from(options: WireOptions) -> Self {
        let WireOptions { temperature, entropy, recompute } = options;
        ForwardOptions { temperature, entropy, recompute }
    }
}

/// Some rows of a batch, with the prefixes that they share.
#[derive(Clone, Debug, Default, Deserialize, PartialEq, Serialize)]
pub(super) struct WireRows {
    prefixes: Vec<Vec<u32>>,
    rows: Vec<WireRow>,
}

#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
struct WireRow {
    prefix: Option<usize>,
    tokens: Vec<u32>,
    scored_from: usize,
}

impl WireRows {
    /// The rows `which` of `rows`, in this order.
    pub(super) fn new(rows: &Rows, which: &[usize]) -> Self {
        let mut out = WireRows::default();
        let mut last = None;
        for &i in which {
            let prefix = rows.prefix(i);
            if let Some(p) = prefix.filter(|_| last != prefix) {
                out.prefixes.push(rows.prefixes()[p].clone());
            }
            last = prefix;
            let tokens = rows.tokens()[rows.offsets()[i]..rows.offsets()[i + 1]].to_vec();
            let scored_from = tokens.len() - rows.scored(i);
            out.rows.push(WireRow { prefix: prefix.map(|_| out.prefixes.len() - 1), tokens, scored_from });
        }
        out
    }

    pub(super) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(super) fn rows(&self) -> Rows {
        let mut rows = Rows::new();
        let mut last = None;
        for row in &self.rows {
            if row.prefix != last {
                rows.share(row.prefix.map_or(&[], |p| self.prefixes[p].as_slice()));
            }
            last = row.prefix;
            rows.push(&row.tokens, row.scored_from);
        }
        rows
    }
}

/// A share of a request for responses.
#[derive(Clone, Debug, Deserialize, Serialize)]
pub(super) struct SampleOrder {
    /// Numbers of the first prompt and the first response in the whole request, for errors.
    first: (usize, usize),
    prompts: Vec<Vec<u32>>,
    group: usize,
    eos: Vec<u32>,
    lengths: (usize, usize),
    temperature: f64,
    top_k: Option<usize>,
    top_p: Option<f64>,
    /// Length limits by prompt, where there are some.
    limits: Vec<usize>,
    slots: Option<usize>,
    /// Each response's, prompt by prompt.
    addresses: Vec<Address>,
}

impl SampleOrder {
    /// `share` of a request, without its test of completion, which could not travel.
    pub(super) fn new(request: &SamplingRequest<'_>, share: &SamplingShare) -> Self {
        let SamplingShare { prompts, responses } = share.clone();
        let mut addresses = Vec::new();
        for prompt in prompts.clone() {
            addresses.extend(responses.clone().map(|response| (request.address)(prompt, response)));
        }
        let limits = request.stopping.max_lengths;
        SampleOrder {
            first: (prompts.start, responses.start),
            prompts: request.prompts[prompts.clone()].iter().map(|ids| ids.to_vec()).collect(),
            group: responses.len(),
            eos: request.eos.to_vec(),
            lengths: (request.sampling.min_new_tokens, request.sampling.max_new_tokens),
            temperature: request.sampling.temperature,
            top_k: request.truncation.top_k,
            top_p: request.truncation.top_p,
            limits: limits.get(prompts).unwrap_or_default().to_vec(),
            slots: request.slots,
            addresses,
        }
    }

    /// The responses, by prompt.
    pub(super) fn run(&self, sampler: &dyn Sampler) -> Sampled {
        if self.prompts.is_empty() || self.group == 0 {
            return Ok(vec![Vec::new(); self.prompts.len()]);
        }
        let prompts: Vec<&[u32]> = self.prompts.iter().map(Vec::as_slice).collect();
        let (min_new_tokens, max_new_tokens) = self.lengths;
        let address = |p: usize, r: usize| self.addresses[p * self.group + r];
        let request = SamplingRequest {
            prompts: &prompts,
            group: self.group,
            eos: &self.eos,
            sampling: SamplingParams { max_new_tokens, min_new_tokens, temperature: self.temperature },
            truncation: Truncation { top_k: self.top_k, top_p: self.top_p },
            stopping: StoppingCriteria { max_lengths: &self.limits, complete: None },
            slots: self.slots,
            address: &address,
            watch: None,
        };
        sampler.generate(&request).map_err(|e| match e {
            RolloutError::Scores { prompt, response, position, source } => RolloutError::Scores {
                prompt: prompt + self.first.0,
                response: response + self.first.1,
                position,
                source,
            },
            other => other,
        })
    }
}

/// A response on its way: tokens, log-probabilities, entropies, whether it was cut off.
pub(super) type WireResponse = (Vec<u32>, Vec<f64>, Vec<f64>, bool);

fn wire_response(response: SampledResponse) -> WireResponse {
    let SampledResponse { tokens, logps, entropies, truncated } = response;
    (tokens, logps, entropies, truncated)
}

fn response((tokens, logps, entropies, truncated): WireResponse) -> SampledResponse {
    SampledResponse { tokens, logps, entropies, truncated }
}

/// Responses by prompt.
pub(super) type Sampled = Result<Vec<Vec<SampledResponse>>, RolloutError>;

/// [`Sampled`] on its way. Scores that are no numbers stay what they are, because a run says then that it diverged: prompt, response, position.
pub(super) type WireSampled = Result<Vec<Vec<WireResponse>>, (usize, usize, usize, ScoreError)>;

/// A worker's answer to a [`SampleOrder`], or what else failed.
pub(super) fn wire_sampled(sampled: Sampled) -> Result<WireSampled, String> {
    match sampled {
        Ok(groups) => {
            Ok(Ok(groups.into_iter().map(|g| g.into_iter().map(wire_response).collect()).collect()))
        }
        Err(RolloutError::Scores { prompt, response, position, source }) => {
            Ok(Err((prompt, response, position, source)))
        }
        Err(other) => Err(other.to_string()),
    }
}

/// [`wire_sampled`] arrived.
pub(super) fn sampled(wire: WireSampled) -> Sampled {
    match wire {
        Ok(groups) => Ok(groups.into_iter().map(|g| g.into_iter().map(response).collect()).collect()),
        Err((prompt, response, position, source)) => {
            Err(RolloutError::Scores { prompt, response, position, source })
        }
    }
}

/// All shares, or the failure that one process would have met first: it samples position by position.
pub(super) fn all_or_first_failure(
    shares: Vec<Sampled>,
) -> Result<Vec<Vec<Vec<SampledResponse>>>, RolloutError> {
    let place = |error: &RolloutError| match error {
        RolloutError::Scores { prompt, response, position, .. } => (*position, *prompt, *response),
        _ => (0, 0, 0),
    };
    let (done, failed): (Vec<Sampled>, Vec<Sampled>) = shares.into_iter().partition(Result::is_ok);
    match failed.into_iter().filter_map(Result::err).min_by_key(place) {
        Some(first) => Err(first),
        None => done.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn of_several_failures_the_one_counts_that_one_process_meets_first() {
        let at = |position: usize, prompt: usize| -> Sampled {
            let source = ScoreError::NotANumber(3);
            let sent = wire_sampled(Err(RolloutError::Scores { prompt, response: 0, position, source }));
            sampled(
                decode::<Result<WireSampled, String>>(&encode(&sent))
                    .expect("its own form")
                    .expect("travels"),
            )
        };
        let told = all_or_first_failure(vec![Ok(Vec::new()), at(4, 0), at(2, 2), at(2, 1)]).unwrap_err();
        let expected = "prompt 1, response 0, token 2: the score of token 3 is NaN or +infinity; the weights hold NaN or infinity";
        assert_eq!(told.to_string(), expected);
        assert_eq!(
            all_or_first_failure(vec![Ok(Vec::new()), Ok(vec![Vec::new()])]).expect("no failure").len(),
            2
        );
    }

    #[test]
    fn rows_keep_their_prefixes_when_some_are_chosen() {
        let mut rows = Rows::new();
        rows.push(&[9, 8], 1);
        rows.share(&[1, 2]);
        rows.push(&[3, 4, 5], 1);
        rows.push(&[3, 6], 2);
        rows.share(&[7]);
        rows.push(&[3, 4], 1);
        let all: Vec<usize> = (0..4).collect();
        assert_eq!(WireRows::new(&rows, &all).rows(), rows);
        let mut some = Rows::new();
        some.share(&[1, 2]);
        some.push(&[3, 6], 2);
        some.share(&[7]);
        some.push(&[3, 4], 1);
        let chosen: WireRows = decode(&encode(&WireRows::new(&rows, &[2, 3]))).expect("its own form");
        assert_eq!(chosen.rows(), some);
        let mut first_last = Rows::new();
        first_last.push(&[9, 8], 1);
        first_last.share(&[7]);
        first_last.push(&[3, 4], 1);
        assert_eq!(WireRows::new(&rows, &[0, 3]).rows(), first_last);
    }

    /// Numbers that a detour through text or `f32` would not survive.
    #[test]
    fn numbers_travel_to_the_bit() {
        let odd =
            vec![-0.0, f64::MIN_POSITIVE / 8.0, f64::from_bits(0x7ff8_0000_0000_1234), f64::NEG_INFINITY];
        let back: WireScores =
            decode(&encode(&(vec![odd.clone()], Vec::<Vec<f64>>::new()))).expect("its own form");
        let bits = |list: &[f64]| list.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
        assert_eq!(bits(&back.0[0]), bits(&odd));
        assert!(decode::<WireScores>(&[255]).is_err());
    }
}
