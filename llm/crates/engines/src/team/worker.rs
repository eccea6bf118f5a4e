//! A worker: it follows the leader's orders until it is sent home.

use std::collections::BTreeMap;

use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_decoder::model::{Decoder, Error, ForwardOptions, ModelConfig, Rows};
use grpo_lambda_decoder::optim::{AdamW, AdamWSettings, OptimError};

use super::link::{Link, LinkError};
use super::order::{Order, WireRows, decode, encode, receive_tensor, wire_sampled, wire_scores};
use super::owners::Owners;
use super::shards::Shards;
use super::share::Share;
use super::spread::spread;
use grpo_lambda_trainer::step::engine::owned;

/// The leader's rank.
const LEADER: usize = 0;

/// A worker's copy of the model, its share of the gradient, and what it owns.
pub(super) struct Replica {
    model: Decoder<f32>,
    reference: Option<Decoder<f32>>,
    share: Share,
    owners: Owners,
    /// The optimiser of its own tensors.
    pub(super) optimiser: AdamW,
    /// The gradient of these, between its sum and the step.
    sums: BTreeMap<String, Vec<f32>>,
}

/// Follows the leader's orders; returns when it is sent home.
///
/// # Errors
/// If the leader is gone, or says what is no order.
pub fn work(link: &mut dyn Link) -> Result<(), LinkError> {
    serve(link, &mut None)
}

/// [`work`], with what it holds.
pub(super) fn serve(link: &mut dyn Link, replica: &mut Option<Replica>) -> Result<(), LinkError> {
    loop {
        let order = link.receive(LEADER)?;
        match (decode(&order).map_err(unread)?, &mut *replica) {
            (Order::End, _) => return Ok(()),
            (Order::Begin { shape, owners, adam, shards }, replica) => {
                *replica = None;
                let begun = Replica::begin(link, (&shape, shards), owners, adam)?;
                let answer = begun.map(|begun| *replica = Some(begun));
                link.send(LEADER, &encode(&answer.map_err(|e| e.to_string())))?;
            }
            (order, Some(replica)) => replica.follow(link, order)?,
            (_, None) => return Err(unread("gives an order before the first stage".to_owned())),
        }
    }
}

impl Replica {
    fn begin(
        link: &mut dyn Link,
        (shape, shards): (&str, usize),
        owners: Owners,
        adam: AdamWSettings,
    ) -> Result<Result<Self, Error>, LinkError> {
        let shape = ModelConfig::parse(shape, "the leader's configuration");
        let shape = shape.map_err(|e| unread(format!("begins with a model that cannot be read: {e}")))?;
        let shards = Shards::new(shards, link.size()).map_err(|e| unread(format!("begins wrongly: {e}")))?;
        let parameters = receive_model(link, &shape)?;
        let own = owned(&parameters, |name| owners.owner(name) == Some(link.rank()));
        let optimiser = AdamW::new(adam, own);
        let share = Share::new(&shape, &owners, shards, link.rank());
        let model = Decoder::new(shape, parameters);
        let sums = BTreeMap::new();
        Ok(model.map(|model| Replica { model, reference: None, share, owners, optimiser, sums }))
    }

    fn follow(&mut self, link: &mut dyn Link, order: Order) -> Result<(), LinkError> {
        let answer = match order {
            Order::Begin { .. } | Order::End => return Ok(()),
            Order::Reference => {
                let shape = self.model.config().clone();
                let reference = Decoder::new(shape.clone(), receive_model(link, &shape)?);
                encode(&reference.map(|r| self.reference = Some(r)).map_err(|e| e.to_string()))
            }
            Order::Sample(order) => encode(&wire_sampled(order.run(&self.model))),
            Order::Score { batches, options } => {
                let reference = self.reference.as_ref().expect("the reference comes before its rows");
                let score = |rows: &WireRows| reference.score(&rows.rows(), options.into()).map(wire_scores);
                let scores: Result<Vec<_>, Error> = batches.iter().map(score).collect();
                encode(&scores.map_err(|e| e.to_string()))
            }
            Order::Forward { ticket, parts, options } => {
                let parts: Vec<(usize, Rows)> = parts.iter().map(|(s, rows)| (*s, rows.rows())).collect();
                let scores = self.share.forward(&self.model, ticket, &parts, ForwardOptions::from(options));
                let wired = scores.map(|all| all.into_iter().map(wire_scores).collect::<Vec<_>>());
                encode(&wired.map_err(|e| e.to_string()))
            }
            Order::Backward { ticket, dlogps } => {
                self.share.backward(&self.model, ticket, &dlogps);
                encode(&Ok::<(), String>(()))
            }
            Order::Reduce => {
                let sums = &mut self.sums;
                let keep = |name: &str, sum| drop(sums.insert(name.to_owned(), sum));
                self.share.reduce(&self.model, link, &self.owners, keep)?;
                encode(&self.optimiser.squares(&by_name(&self.sums)).map_err(|e| e.to_string()))
            }
            Order::Apply { rate, scale } => return self.apply(link, rate, scale),
            Order::State { part, tensor } => {
                let values = self.optimiser.array(&part, &tensor).unwrap_or_default();
                bytemuck::cast_slice(values).to_vec()
            }
            Order::Restore { steps } => return self.restore(link, steps),
        };
        link.send(LEADER, &answer)
    }

    fn apply(&mut self, link: &mut dyn Link, rate: f64, scale: Option<f64>) -> Result<(), LinkError> {
        let sums = std::mem::take(&mut self.sums);
        let Some(scale) = scale else { return Ok(()) };
        self.optimiser.apply(rate, &by_name(&sums), scale)?;
        self.spread(link)
    }

    fn restore(&mut self, link: &mut dyn Link, steps: u64) -> Result<(), LinkError> {
        self.optimiser.take_state(steps, |_, _, len| receive_tensor(link, LEADER, len))?;
        self.spread(link)
    }

    /// Takes its own tensors from its optimiser, and all others from theirs.
    fn spread(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        let optimiser = &self.optimiser;
        let own = |name: &str| optimiser.weights(name);
        spread(&mut self.model, link, &self.owners, own)
    }
}

fn by_name(sums: &BTreeMap<String, Vec<f32>>) -> Vec<(&str, &[f32])> {
    sums.iter().map(|(name, sum)| (name.as_str(), sum.as_slice())).collect()
}

/// The error of a message that a worker cannot follow.
fn unread(reason: String) -> LinkError {
    LinkError { rank: LEADER, reason }
}

impl From<OptimError> for LinkError {
    fn from(error: OptimError) -> LinkError {
        unread(error.to_string())
    }
}

/// Every tensor of a model, sorted by name.
fn receive_model(link: &mut dyn Link, shape: &ModelConfig) -> Result<Parameters<f32>, LinkError> {
    let shapes: BTreeMap<String, Vec<usize>> = shape.parameter_shapes().into_iter().collect();
    let tensor = |(name, shape): (String, Vec<usize>)| {
        let data = receive_tensor(link, LEADER, shape.iter().product())?;
        Ok::<_, LinkError>((name, Tensor { shape, data }))
    };
    shapes.into_iter().map(tensor).collect()
}
