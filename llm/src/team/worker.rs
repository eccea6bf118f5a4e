//! What a worker does: order by order, until it is sent home.

use std::collections::BTreeMap;

use grpo_lambda_decoder::model::weights::{Parameters, Tensor};
use grpo_lambda_decoder::model::{Config, Decoder, Error, ForwardOptions, Rows};

use super::link::{Link, LinkError};
use super::order::{Order, WireRows, decode, encode, numbers, wire_sampled, wire_scores};
use super::shards::Shards;
use super::share::Share;

/// The leader's rank.
const LEADER: usize = 0;

/// A worker's copy of the model, and its share of the gradient.
struct Replica {
    model: Decoder<f32>,
    reference: Option<Decoder<f32>>,
    /// Sorted.
    trained: Vec<String>,
    share: Share,
}

/// Follows the leader's orders; returns when it is sent home.
///
/// # Errors
/// When the leader is gone, or says what is no order.
pub fn work(link: &mut dyn Link) -> Result<(), LinkError> {
    let mut replica: Option<Replica> = None;
    loop {
        let order = link.receive(LEADER)?;
        match (decode(&order).map_err(unread)?, &mut replica) {
            (Order::End, _) => return Ok(()),
            (Order::Begin { shape, trained, shards }, replica) => {
                *replica = None;
                let begun = Replica::begin(link, (&shape, shards), trained)?;
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
        trained: Vec<String>,
    ) -> Result<Result<Self, Error>, LinkError> {
        let shape = Config::parse(shape, "the leader's configuration");
        let shape = shape.map_err(|e| unread(format!("begins with a model that cannot be read: {e}")))?;
        let shards = Shards::new(shards, link.size()).map_err(|e| unread(format!("begins wrongly: {e}")))?;
        let parameters = receive_model(link, &shape)?;
        let share = Share::new(&shape, &trained, shards.of(link.rank()));
        let model = Decoder::new(shape, parameters);
        Ok(model.map(|model| Replica { model, reference: None, trained, share }))
    }

    fn follow(&mut self, link: &mut dyn Link, order: Order) -> Result<(), LinkError> {
        let answer = match order {
            Order::Begin { .. } | Order::End => return Ok(()),
            Order::Weights => return self.take_weights(link),
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
            Order::Reduce => return self.send_gradient(link),
        };
        link.send(LEADER, &answer)
    }

    fn take_weights(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        let mut fresh = BTreeMap::new();
        for name in &self.trained {
            fresh.insert(name.clone(), numbers(&link.receive(LEADER)?));
        }
        self.model.update(|parameters| {
            for (name, data) in fresh {
                if let Some(tensor) = parameters.get_mut(&name) {
                    tensor.data = data;
                }
            }
        });
        Ok(())
    }

    fn send_gradient(&mut self, link: &mut dyn Link) -> Result<(), LinkError> {
        self.share.complete(&self.model);
        for name in &self.trained {
            let sums = self.share.nodes(name).into_iter().flat_map(|node| node.sum).collect::<Vec<f32>>();
            link.send(LEADER, bytemuck::cast_slice(&sums))?;
        }
        self.share.clear();
        Ok(())
    }
}

/// What the leader sent is not what a worker can follow.
fn unread(reason: String) -> LinkError {
    LinkError { rank: LEADER, reason }
}

/// Every tensor of a model, sorted by name.
fn receive_model(link: &mut dyn Link, shape: &Config) -> Result<Parameters<f32>, LinkError> {
    let shapes: BTreeMap<String, Vec<usize>> = shape.parameter_shapes().into_iter().collect();
    let tensor =
        |(name, shape)| Ok::<_, LinkError>((name, Tensor { shape, data: numbers(&link.receive(LEADER)?) }));
    shapes.into_iter().map(tensor).collect()
}
